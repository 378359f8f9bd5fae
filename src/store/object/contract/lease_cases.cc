// Leases of objects, and the updates of others that wait for them.
#include <array>
#include <deque>

#include "probe.h"
#include "ros2s/object/lease_wait.h"
#include "ros2s/object/leases.h"
#include "ros2s/object/test_support/batch.h"
#include "ros2s/runtime/nursery.h"

namespace ros2s::object::contract {
namespace {

using namespace std::chrono_literals;

Holder by(uint8_t number) {
    Holder holder;
    holder.client.bytes[0] = number;
    return holder;
}

Task<LeaseNews> heard_by(Probe& probe, Holder holder, Listening listening) {
    const auto news =
        co_await probe.store().listen(probe.call(), probe.container(), holder, listening);
    EXPECT_TRUE(news) << describe(news.error());
    co_return news.value_or(LeaseNews{});
}
Task<> begin_listening(Probe& probe, Holder holder) {
    EXPECT_EQ(co_await heard_by(probe, holder, {.begins = true, .waits = false}), LeaseNews{});
}
Task<LeaseNews> news_of(Probe& probe, Holder holder, std::vector<Lease> given_back = {}) {
    co_return co_await heard_by(probe, holder,
                                {.waits = false, .given_back = std::move(given_back)});
}

// Reads a value of the object with a lease. Returns its number.
Task<uint64_t> read_leased(Probe& probe, Holder holder, ObjectId object = one) {
    std::byte value{};
    auto item = object::fetch_item(object, {"d"}, {"a"}, 0, Bytes(&value, 1));
    Link link{.wants_lease = true};
    const auto done = co_await probe.store().fetch_chain(probe.call(), probe.container(), holder,
                                                         {&item, 1}, {&link, 1});
    EXPECT_TRUE(done);
    co_return link.lease;
}

Task<Result<Commit>> change_by(Probe& probe, Holder holder, ObjectId object = one) {
    Batch batch;
    batch.put({object, "d", "a"}, "x");
    Transaction transaction = batch.transaction();
    transaction.holder = holder;
    co_return co_await probe.store().update(probe.call(), probe.container(), transaction);
}
Task<> expect_leased(Probe& probe, Holder holder, ObjectId object = one) {
    const auto done = co_await change_by(probe, holder, object);
    EXPECT_FALSE(done);
    if (!done) EXPECT_EQ(done.error().code, Code::leased);
}
Task<> must_change(Probe& probe, Holder holder, ObjectId object = one) {
    const auto done = co_await change_by(probe, holder, object);
    EXPECT_TRUE(done) << describe(done.error());
}
// Asks again until it is done. Returns the time.
Task<Duration> change_in_time(Probe& probe, Holder holder, ObjectId object = one) {
    const Time begun = probe.reactor().now();
    for (int i = 0; i < 1000; ++i) {
        if (co_await change_by(probe, holder, object)) break;
        co_await sleep_for(probe.reactor(), 10ms);
    }
    co_return probe.reactor().now() - begun;
}

Task<> change_waits_for_leases_of_others(Probe& probe) {
    co_await must_change(probe, by(1));
    co_await begin_listening(probe, by(1));
    co_await begin_listening(probe, by(2));
    const uint64_t number = co_await read_leased(probe, by(1));
    EXPECT_NE(number, 0U);
    EXPECT_EQ(co_await read_leased(probe, by(1)), number);
    EXPECT_NE(co_await read_leased(probe, by(2)), number);
    co_await expect_leased(probe, by(2));
    const LeaseNews news = co_await news_of(probe, by(1));
    EXPECT_EQ(news.recalled, (std::vector<Lease>{{one, number}}));
    EXPECT_EQ(co_await news_of(probe, by(2)), LeaseNews{});
    co_await expect_leased(probe, by(2));
    EXPECT_EQ(co_await news_of(probe, by(1), news.recalled), LeaseNews{});
    co_await must_change(probe, by(2));
}

Task<> own_changes_keep_leases(Probe& probe) {
    co_await begin_listening(probe, by(1));
    const uint64_t number = co_await read_leased(probe, by(1));
    co_await must_change(probe, by(1));
    EXPECT_EQ(co_await read_leased(probe, by(1)), number);
    EXPECT_EQ(co_await news_of(probe, by(1)), LeaseNews{});
}

// Of what the update makes.
Task<Result<Commit>> make_leased(Probe& probe, Holder holder, ObjectId object) {
    Batch batch;
    batch.by(holder).condition(Condition::Kind::lease, {object, "", ""});
    batch.put({object, "d", "a"}, "x");
    co_return co_await probe.store().update(probe.call(), probe.container(), batch.transaction());
}

Task<> made_object_is_leased(Probe& probe) {
    const auto silent = co_await make_leased(probe, by(3), {5, 5});
    EXPECT_TRUE(silent && silent->lease == 0) << "it does not listen";
    co_await begin_listening(probe, by(1));
    co_await begin_listening(probe, by(2));
    const auto made = co_await make_leased(probe, by(1), two);
    EXPECT_TRUE(made);
    EXPECT_NE(made->lease, 0U);
    EXPECT_EQ(co_await read_leased(probe, by(1), two), made->lease);
    co_await expect_leased(probe, by(2), two);
    EXPECT_EQ((co_await news_of(probe, by(1))).recalled, (std::vector<Lease>{{two, made->lease}}));
    Transaction nothing_made;
    nothing_made.holder = by(1);
    nothing_made.conditions.push_back({.kind = Condition::Kind::lease, .object = two});
    const auto refused =
        co_await probe.store().update(probe.call(), probe.container(), nothing_made);
    EXPECT_TRUE(!refused && refused.error().code == Code::invalid);
}

Task<> changes_of_other_objects_do_not_wait(Probe& probe) {
    co_await begin_listening(probe, by(1));
    EXPECT_NE(co_await read_leased(probe, by(1), two), 0U);
    co_await must_change(probe, by(2), one);
}

Task<> who_does_not_listen_gets_no_lease(Probe& probe) {
    if (probe.setup().is_in_real_time()) co_return;
    EXPECT_EQ(co_await read_leased(probe, by(1)), 0U);
    co_await begin_listening(probe, by(1));
    co_await sleep_for(probe.reactor(), lease_time + 10ms);
    EXPECT_EQ(co_await read_leased(probe, by(1)), 0U);
}

Task<> silent_holder_delays_by_the_lease_time(Probe& probe) {
    if (probe.setup().is_in_real_time()) co_return;
    co_await begin_listening(probe, by(1));
    EXPECT_NE(co_await read_leased(probe, by(1)), 0U);
    co_await sleep_for(probe.reactor(), 500ms);
    co_await expect_leased(probe, by(2));
    const Duration took = co_await change_in_time(probe, by(2));
    EXPECT_GT(took, lease_time - 600ms);
    EXPECT_LE(took, lease_time);
    EXPECT_LT(co_await change_in_time(probe, by(2)), 100ms);
}

// It listens, and does not give back.
Task<> lying_holder_is_cut_off(Probe& probe) {
    if (probe.setup().is_in_real_time()) co_return;
    co_await begin_listening(probe, by(1));
    const uint64_t other = co_await read_leased(probe, by(1), two);
    EXPECT_NE(co_await read_leased(probe, by(1)), 0U);
    EXPECT_NE(other, 0U);
    const Time begun = probe.reactor().now();
    bool is_cut = false;
    while (!co_await change_by(probe, by(2)) && probe.reactor().now() < begun + 10s) {
        is_cut = is_cut || (co_await news_of(probe, by(1))).lost;
        co_await sleep_for(probe.reactor(), 20ms);
    }
    EXPECT_LE(probe.reactor().now() - begun, lease_time + 100ms);
    EXPECT_TRUE(is_cut || (co_await news_of(probe, by(1))).lost);
    // Its other leases end, and it gets no more for a while.
    EXPECT_LE(co_await change_in_time(probe, by(2), two), lease_time + 100ms);
    co_await begin_listening(probe, by(1));
    EXPECT_EQ(co_await read_leased(probe, by(1)), 0U);
}

Task<> beginning_again_gives_everything_back(Probe& probe) {
    co_await begin_listening(probe, by(1));
    EXPECT_NE(co_await read_leased(probe, by(1)), 0U);
    co_await begin_listening(probe, by(1));
    co_await must_change(probe, by(2));
}

Task<> ended_holder_delays_nobody(Probe& probe) {
    co_await begin_listening(probe, by(1));
    EXPECT_NE(co_await read_leased(probe, by(1)), 0U);
    EXPECT_TRUE((co_await heard_by(probe, by(1), {.waits = false, .ends = true})).lost);
    co_await must_change(probe, by(2));
    EXPECT_EQ(co_await read_leased(probe, by(1)), 0U);
    EXPECT_TRUE((co_await news_of(probe, by(1))).lost);
    // Also one of which nothing is known.
    EXPECT_TRUE((co_await heard_by(probe, by(3), {.waits = false, .ends = true})).lost);
}

Task<> object_that_others_wait_for_is_not_leased(Probe& probe) {
    co_await begin_listening(probe, by(1));
    co_await begin_listening(probe, by(3));
    EXPECT_NE(co_await read_leased(probe, by(1)), 0U);
    co_await expect_leased(probe, by(2));
    EXPECT_EQ(co_await read_leased(probe, by(1)), 0U);
    EXPECT_EQ(co_await read_leased(probe, by(3)), 0U);
    const LeaseNews news = co_await news_of(probe, by(1));
    (void)co_await news_of(probe, by(1), news.recalled);
    EXPECT_EQ(co_await read_leased(probe, by(3)), 0U);
    co_await must_change(probe, by(2));
    co_await sleep_for(probe.reactor(), 300ms);
    EXPECT_NE(co_await read_leased(probe, by(3)), 0U);
}

Task<> object_that_is_recalled_often_is_spared(Probe& probe) {
    if (probe.setup().is_in_real_time()) co_return;
    co_await begin_listening(probe, by(1));
    uint64_t granted = 0;
    for (int i = 0; i < 6; ++i) {
        if (co_await read_leased(probe, by(1)) == 0) continue;
        ++granted;
        co_await expect_leased(probe, by(2));
        const LeaseNews news = co_await news_of(probe, by(1));
        (void)co_await news_of(probe, by(1), news.recalled);
        co_await must_change(probe, by(2));
        co_await sleep_for(probe.reactor(), 210ms);
    }
    EXPECT_EQ(granted, 3U);
}

Task<> change_counts_once_however_many_hold_it(Probe& probe) {
    if (probe.setup().is_in_real_time()) co_return;
    const std::array holders{by(1), by(3), by(4), by(5)};
    for (const Holder& holder : holders) co_await begin_listening(probe, holder);
    for (const Holder& holder : holders) EXPECT_NE(co_await read_leased(probe, holder), 0U);
    co_await expect_leased(probe, by(2));
    for (const Holder& holder : holders) {
        const LeaseNews news = co_await news_of(probe, holder);
        (void)co_await news_of(probe, holder, news.recalled);
    }
    co_await must_change(probe, by(2));
    co_await sleep_for(probe.reactor(), 300ms);
    for (const Holder& holder : holders) EXPECT_NE(co_await read_leased(probe, holder), 0U);
}

Task<> hear(Probe& probe, Holder holder, LeaseNews& news, Duration& took) {
    const Time begun = probe.reactor().now();
    news = co_await heard_by(probe, holder, {});
    took = probe.reactor().now() - begun;
}

Task<> listening_ends_with_the_news(Probe& probe) {
    co_await begin_listening(probe, by(1));
    const uint64_t number = co_await read_leased(probe, by(1));
    Nursery nursery(probe.reactor(), 1);
    LeaseNews news;
    Duration took{};
    co_await nursery.spawn(hear(probe, by(1), news, took));
    co_await sleep_for(probe.reactor(), 50ms);
    co_await expect_leased(probe, by(2));
    co_await nursery.join();
    EXPECT_EQ(news.recalled, (std::vector<Lease>{{one, number}}));
    EXPECT_LT(took, listening_max);
    co_await hear(probe, by(2), news, took);  // it has not begun
    EXPECT_TRUE(news.lost);
    co_await hear(probe, by(1), news, took);
    EXPECT_EQ(news, LeaseNews{});
    EXPECT_GE(took, listening_max);
}

Task<> destroyed_container_has_no_leases(Probe& probe) {
    const ContainerId container = co_await probe.create_container("leased");
    const Listening anew{.begins = true, .waits = false};
    EXPECT_TRUE(co_await probe.store().listen(probe.call(), container, by(1), anew));
    EXPECT_TRUE(co_await probe.store().destroy_container(probe.call(), container));
    const auto news = co_await probe.store().listen(probe.call(), container, by(1), {});
    EXPECT_FALSE(news);
    if (!news) EXPECT_EQ(news.error().code, Code::not_found);
}

// Clients that keep what they read, change it, and at times do not listen. Nobody uses a value that
// is older than an acknowledged one.
constexpr size_t objects_used = 3;
constexpr Duration property_time = 20s;

struct Witness {
    std::array<Epoch, objects_used> acknowledged{};
    Time end{};
    size_t uses = 0, changes = 0;
};

class CachingClient {
  public:
    CachingClient(Probe& probe, Witness& witness, uint8_t number)
        : probe_(probe), witness_(witness), self_(by(number)) {}

    static Task<> listen(CachingClient& self) {
        Listening listening{.begins = true, .waits = false};
        while (self.now() < self.witness_.end) {
            const Time sent = self.now();
            const LeaseNews news = co_await heard_by(self.probe_, self.self_, listening);
            if (news.lost) {
                self.drop_all();
                listening = {.begins = true, .waits = false};
                continue;
            }
            self.until_ = std::max(self.until_, sent + lease_use_time);
            for (const Lease& each : news.recalled) self.recall(each);
            co_await self.pause(self.below(10) == 0 ? 50ms : 2ms);
            if (self.below(40) == 0) co_await self.pause(4s);  // it is stopped
            listening = {.given_back = news.recalled};
        }
        self.drop_all();
        co_await begin_listening(self.probe_, self.self_);
    }
    static Task<> work(CachingClient& self) {
        while (self.now() < self.witness_.end) {
            const size_t object = self.below(objects_used);
            const uint64_t choice = self.below(20);
            if (choice == 0) {
                co_await self.change(object);
            } else if (choice < 6) {
                co_await self.read(object);
            } else {
                self.use(object);
            }
            co_await self.pause(20ms);
        }
    }

  private:
    struct Cached {
        Epoch epoch{};
        uint64_t lease = 0;     // 0: nothing is kept
        uint64_t recalled = 0;  // the last one that was
        int changing = 0;
        uint64_t changes = 0;
    };
    static ObjectId object_of(size_t index) { return {7, index + 1}; }
    [[nodiscard]] Time now() { return probe_.reactor().now(); }
    uint64_t below(uint64_t end) { return probe_.reactor().random().below(end); }
    Task<> pause(Duration most) {
        co_await sleep_for(probe_.reactor(),
                           Duration(below(static_cast<uint64_t>(most.count()) + 1)));
    }
    void drop_all() {
        for (Cached& each : kept_) each.lease = 0;
        ++drops_;
        until_ = {};
    }
    void recall(const Lease& lease) {
        Cached& kept = kept_[lease.object.low - 1];
        kept.recalled = std::max(kept.recalled, lease.number);
        if (kept.lease <= lease.number) kept.lease = 0;
    }
    void use(size_t object) {
        if (kept_[object].lease == 0 || now() >= until_) return;
        ++witness_.uses;
        EXPECT_GE(kept_[object].epoch, witness_.acknowledged[object]);
    }
    Task<> read(size_t object) {
        Cached& kept = kept_[object];
        const auto before = std::pair(kept.changes, drops_);
        std::array<std::byte, 8> value{};
        auto item = object::fetch_item(object_of(object), {"d"}, {"a"}, 0, Bytes(value));
        Link link{.wants_lease = true};
        const auto done = co_await probe_.store().fetch_chain(probe_.call(), probe_.container(),
                                                              self_, {&item, 1}, {&link, 1});
        EXPECT_TRUE(done);
        const bool is_own = kept.changing > 0 || before != std::pair(kept.changes, drops_);
        if (is_own || link.lease <= kept.recalled) co_return;
        kept.lease = link.lease;
        kept.epoch = item.epoch;
    }
    Task<> change(size_t object) {
        Cached& kept = kept_[object];
        ++kept.changing;
        ++kept.changes;
        kept.lease = 0;
        Batch batch;
        batch.put({object_of(object), "d", "a"}, std::to_string(below(1000)));
        Transaction transaction = batch.transaction();
        transaction.holder = self_;
        const auto first =
            co_await probe_.store().update(probe_.call(), probe_.container(), transaction);
        const auto done = co_await await_leases(probe_.store(), probe_.reactor(), probe_.call(),
                                                probe_.container(), transaction, first);
        EXPECT_TRUE(done) << describe(done.error());
        ++kept.changes;
        --kept.changing;
        if (!done) co_return;
        ++witness_.changes;
        witness_.acknowledged[object] = std::max(witness_.acknowledged[object], done->epoch);
    }

    Probe& probe_;
    Witness& witness_;
    const Holder self_;
    Time until_{};
    uint64_t drops_ = 0;
    std::array<Cached, objects_used> kept_{};
};

Task<> kept_values_are_never_old(Probe& probe) {
    if (probe.setup().is_in_real_time()) co_return;
    Witness witness{.end = probe.reactor().now() + property_time};
    std::deque<CachingClient> clients;
    Nursery nursery(probe.reactor(), 8);
    for (uint8_t i = 0; i < 4; ++i) {
        CachingClient& client = clients.emplace_back(probe, witness, i + 1);
        co_await nursery.spawn(CachingClient::listen(client));
        co_await nursery.spawn(CachingClient::work(client));
    }
    co_await nursery.join();
    EXPECT_GT(witness.uses, 50U);
    EXPECT_GT(witness.changes, 10U);
}

}  // namespace

std::vector<Case> lease_cases() {
    const auto has = [](const Features& features) { return features.leases; };
    return {
        {"ChangeWaitsForLeasesOfOthers", change_waits_for_leases_of_others, {}, has},
        {"OwnChangesKeepLeases", own_changes_keep_leases, {}, has},
        {"MadeObjectIsLeased",
         made_object_is_leased,
         {},
         [](const Features& features) { return features.update_leases; }},
        {"ChangesOfOtherObjectsDoNotWait", changes_of_other_objects_do_not_wait, {}, has},
        {"HolderThatDoesNotListenGetsNoLease", who_does_not_listen_gets_no_lease, {}, has},
        {"SilentHolderDelaysByTheLeaseTime", silent_holder_delays_by_the_lease_time, {}, has},
        {"LyingHolderIsCutOff", lying_holder_is_cut_off, {}, has},
        {"BeginningAgainGivesLeasesBack", beginning_again_gives_everything_back, {}, has},
        {"EndedHolderDelaysNobody", ended_holder_delays_nobody, {}, has},
        {"ObjectThatOthersWaitForIsNotLeased", object_that_others_wait_for_is_not_leased, {}, has},
        {"ObjectThatIsRecalledOftenIsSpared", object_that_is_recalled_often_is_spared, {}, has},
        {"ChangeCountsOnceHoweverManyHoldIt", change_counts_once_however_many_hold_it, {}, has},
        {"ListeningEndsWithTheNews", listening_ends_with_the_news, {}, has},
        {"KeptValuesAreNeverOld", kept_values_are_never_old, {}, has},
        {"DestroyedContainerHasNoLeases", destroyed_container_has_no_leases, {}, has},
    };
}

}  // namespace ros2s::object::contract
