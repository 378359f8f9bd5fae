// Named writes share changes, and note their replies with the object (docs/formats/rados.md). Each
// takes effect once, whatever store it is repeated by, and when.
#include <gtest/gtest.h>

#include <algorithm>

#include "ros2s/object/test_support/batch.h"
#include "ros2s/rados/keys.h"
#include "ros2s/rados/rados_store.h"
#include "ros2s/rados/records.h"
#include "ros2s/rados/sim/forwarding_pool.h"
#include "ros2s/rados/sim/remains.h"
#include "ros2s/rados/sim/sim_rados.h"
#include "ros2s/runtime/sim/world.h"
#include "test_support/open_store.h"

namespace ros2s::rados {
namespace {

using object::Batch;
using object::Commit;
using object::ContainerId;

constexpr object::ObjectId written_object{7, 1};
const object::AkeyAddress written_array{written_object, "0", "data"};

Uuid writer(uint8_t number) {
    Uuid uuid;
    uuid.bytes[0] = number;
    return uuid;
}

// The first change that notes a reply waits.
class StallingPool final : public ForwardingPool {
  public:
    StallingPool(Pool& pool, Reactor& reactor)
        : ForwardingPool(pool), arrived(reactor), released(reactor) {}

    Task<Result<>> apply(const Change& change) override {
        const auto notes = [](const auto& each) {
            return place_of_reply_key(each.first).has_value();
        };
        if (!arrived.is_set() && std::ranges::any_of(change.set, notes)) {
            arrived.set();
            co_await released;
        }
        co_return co_await below().apply(change);
    }

    Event arrived, released;
};

struct ReplyingClient {
    ReplyingClient(SimRados& cluster, Reactor& its_reactor, Duration delay_max = {})
        : reactor(its_reactor),
          pool(cluster, {.delay_max = delay_max, .dies_at = {}}),
          stalling(pool, reactor) {}
    Task<> open(bool stalls = false) {
        Pool& used = stalls ? static_cast<Pool&>(stalling) : pool;
        store = co_await open_store(reactor, used, {.patience = std::chrono::milliseconds(50)});
    }
    // "done", "replayed" or the error.
    Task<std::string> send(ContainerId container, Batch batch) {
        const auto done = co_await store->update({}, container, batch.transaction());
        if (!done) co_return describe(done.error());
        co_return done->replayed ? "replayed" : "done";
    }
    Task<> send_to(ContainerId container, Batch batch, std::string& answer) {
        answer = co_await send(container, std::move(batch));
    }
    Task<std::string> found(ContainerId container) {
        std::string bytes(4, '\0');
        auto item =
            object::fetch_item(written_array.object, {written_array.dkey}, {written_array.akey}, 0,
                               std::as_writable_bytes(std::span(bytes)));
        EXPECT_TRUE(co_await store->fetch({}, container, {&item, 1}));
        co_return item.status ? bytes.substr(0, item.size) : describe(item.status.error());
    }

    Reactor& reactor;
    SimPool pool;
    StallingPool stalling;
    std::unique_ptr<RadosStore> store;
};

Batch named_write(UpdateName id, std::string bytes) {
    Batch batch;
    batch.write(written_array, 0, std::move(bytes)).id(id);
    return batch;
}

size_t notes_in(SimRados& cluster) {
    size_t count = 0;
    for (const auto& [name, object] : cluster.objects()) {
        count += static_cast<size_t>(std::ranges::count_if(object.omap, [](const auto& each) {
            return place_of_reply_key(each.first).has_value();
        }));
    }
    return count;
}

void with_clients(uint64_t seed, Duration delay_max,
                  Task<> (*test)(sim::World&, SimRados&, ReplyingClient&, ReplyingClient&,
                                 ContainerId)) {
    sim::World world(seed);
    SimRados cluster(world.core());
    world.run([](sim::World& in, SimRados& rados, Duration delay, auto* body) -> Task<> {
        ReplyingClient one(rados, in.core(), delay), other(rados, in.core(), delay);
        co_await other.open();
        const auto container = co_await other.store->create_container({}, {.label = "c"});
        co_await one.open(true);
        co_await body(in, rados, one, other, container->id);
        co_await one.store->close();
        co_await other.store->close();
        co_await rados.close();
    }(world, cluster, delay_max, test));
}

const std::string stale_text = describe(Error{Code::stale}),
                  taken_text = describe(Error{Code::name_taken});

// Before and after replies are in their slots, and by another store then.
TEST(RadosReplies, SlotRepliesEquallyToWritesAndOtherUpdates) {
    with_clients(
        1, {},
        [](sim::World& in, SimRados&, ReplyingClient& one, ReplyingClient& other,
           ContainerId container) -> Task<> {
            one.stalling.arrived.set();
            const UpdateName fifth{writer(1), 3, 5};
            const auto put = [](UpdateName id) {
                Batch batch;
                batch.put({{7, 2}, "0", "value"}, "1").id(id);
                return batch;
            };
            EXPECT_EQ(co_await one.send(container, named_write(fifth, "five")), "done");
            for (ReplyingClient* const client : {&one, &one, &other}) {
                EXPECT_EQ(co_await client->send(container, named_write(fifth, "five")), "replayed");
                EXPECT_EQ(co_await client->send(container, named_write(fifth, "other")),
                          taken_text);
                EXPECT_EQ(co_await client->send(container, put(fifth)), taken_text);
                const UpdateName fourth{writer(1), 3, 4};
                EXPECT_EQ(co_await client->send(container, named_write(fourth, "four")),
                          stale_text);
                EXPECT_EQ(co_await client->send(container, put(fourth)), stale_text);
                auto again = named_write(fifth, "five");
                again.is_new();
                EXPECT_EQ(co_await client->send(container, std::move(again)), taken_text);
                EXPECT_EQ(co_await client->found(container), "five");
                co_await sleep_for(in.core(), std::chrono::seconds(3));
            }
            EXPECT_EQ(co_await one.send(container, put({writer(1), 3, 6})), "done");
            // It was done, and the object still says how.
            EXPECT_EQ(co_await one.send(container, named_write(fifth, "five")), "replayed");
            EXPECT_EQ(co_await one.send(container, put(fifth)), stale_text);
            EXPECT_EQ(co_await one.send(container, named_write({writer(1), 3, 7}, "sevn")), "done");
            EXPECT_EQ(co_await other.send(container, named_write({writer(1), 3, 7}, "sevn")),
                      "replayed");
            EXPECT_EQ(co_await other.send(container, named_write({writer(1), 3, 6}, "six!")),
                      stale_text);
        });
}

// Another store does it, stores the reply, and drops the note, while the change is under way.
TEST(RadosReplies, RequestToAStalledStoreIsDoneOnce) {
    for (const bool is_known : {false, true}) {
        with_clients(1, {}, is_known
                                ? [](sim::World& in, SimRados& cluster, ReplyingClient& one,
                                     ReplyingClient& other, ContainerId container) -> Task<> {
            // Both have the object, and the slot, in memory.
            Batch unnamed;
            unnamed.write(written_array, 0, "none");
            EXPECT_EQ(co_await one.send(container, std::move(unnamed)), "done");
            const UpdateName id{writer(1), 0, 2};
            std::string answer;
            {
                Nursery nursery(in.core(), 1);
                co_await nursery.spawn(one.send_to(container, named_write(id, "once"), answer));
                co_await one.stalling.arrived;
                EXPECT_EQ(co_await other.send(container, named_write(id, "once")), "done");
                co_await sleep_for(in.core(), std::chrono::seconds(3));
                Batch last;
                last.write(written_array, 0, "last");
                EXPECT_EQ(co_await other.send(container, std::move(last)), "done");
                EXPECT_EQ(notes_in(cluster), 0U);
                one.stalling.released.set();
                co_await nursery.join();
            }
            EXPECT_EQ(answer, "replayed");
            EXPECT_EQ(co_await other.found(container), "last");
        }
                                : [](sim::World& in, SimRados& cluster, ReplyingClient& one,
                                     ReplyingClient& other, ContainerId container) -> Task<> {
            // There is no object. The other one removes it again.
            const UpdateName id{writer(1), 0, 2};
            std::string answer;
            {
                Nursery nursery(in.core(), 1);
                co_await nursery.spawn(one.send_to(container, named_write(id, "once"), answer));
                co_await one.stalling.arrived;
                EXPECT_EQ(co_await other.send(container, named_write(id, "once")), "done");
                Batch punch;
                punch.punch_object(written_object);
                EXPECT_EQ(co_await other.send(container, std::move(punch)), "done");
                co_await sleep_for(in.core(), std::chrono::seconds(3));
                EXPECT_EQ(notes_in(cluster), 0U);
                one.stalling.released.set();
                co_await nursery.join();
            }
            EXPECT_EQ(answer, "replayed");
            EXPECT_EQ(co_await other.found(container), describe(Error{Code::not_found}));
        });
    }
}

// What a dead store has noted is found; a sweep stores it, and takes it away.
TEST(RadosReplies, NotesOfADeadStoreAreFoundAndSwept) {
    with_clients(
        1, {},
        [](sim::World&, SimRados& cluster, ReplyingClient& one, ReplyingClient& other,
           ContainerId container) -> Task<> {
            one.stalling.arrived.set();
            const UpdateName first{writer(1), 0, 1}, second{writer(1), 1, 1};
            EXPECT_EQ(co_await one.send(container, named_write(first, "1111")), "done");
            EXPECT_EQ(co_await one.send(container, named_write(second, "2222")), "done");
            one.pool.die_at(one.pool.requests());
            co_await one.store->close();
            EXPECT_EQ(notes_in(cluster), 2U);
            EXPECT_EQ(co_await other.send(container, named_write(first, "1111")), "replayed");
            Report report;
            EXPECT_TRUE(co_await other.store->sweep({}, container, report)) << report.text();
            EXPECT_EQ(notes_in(cluster), 0U);
            for (const auto& [id, bytes] : {std::pair(first, "1111"), std::pair(second, "2222")}) {
                EXPECT_EQ(co_await other.send(container, named_write(id, bytes)), "replayed");
            }
            EXPECT_EQ(co_await other.found(container), "2222");
        });
}

// A record of an earlier transaction whose objects are locked still is not lost by the reply after
// it, and a pending one is ended before an object goes whose notes are for its slot.
TEST(RadosReplies, PunchWaitsForPendingTransactionOfASlot) {
    with_clients(1, {},
                 [](sim::World&, SimRados& cluster, ReplyingClient& one, ReplyingClient& other,
                    ContainerId container) -> Task<> {
                     one.stalling.arrived.set();
                     const UpdateName id{writer(1), 0, 1};
                     EXPECT_EQ(co_await one.send(container, named_write(id, "1111")), "done");
                     const ObjectName replies{space_of(container), replies_name({}, writer(1))};
                     const Coordination pending{
                         .transaction = writer(9), .sequence = 2, .participants = {}, .before = {}};
                     cluster.objects().at(replies).omap[slot_key(0)] = encode(pending);
                     Batch punch;
                     punch.punch_object(written_object);
                     EXPECT_EQ(co_await other.send(container, std::move(punch)), "done");
                     EXPECT_EQ(co_await other.send(container, named_write(id, "1111")), "replayed");
                     EXPECT_EQ(co_await other.found(container), describe(Error{Code::not_found}));
                 });
}

// The store has read the slot since it knows the object, and before it moves the reply there
// itself.
template <bool is_swept>
Task<> move_a_reply(sim::World& in, SimRados&, ReplyingClient& one, ReplyingClient& other,
                    ContainerId container) {
    one.stalling.arrived.set();
    const object::AkeyAddress elsewhere{{7, 2}, "0", "data"};
    const auto first = [&elsewhere] {
        Batch batch;
        batch.write(elsewhere, 0, "1111").id({writer(1), 0, 1});
        return batch;
    };
    // The slot has the reply to this one, and the object has not.
    EXPECT_EQ(co_await other.send(container, first()), "done");
    co_await sleep_for(in.core(), std::chrono::seconds(3));
    Batch next;
    next.write(elsewhere, 0, "next");
    EXPECT_EQ(co_await other.send(container, std::move(next)), "done");
    const UpdateName id{writer(1), 0, 2};
    EXPECT_EQ(co_await other.send(container, named_write(id, "once")), "done");
    EXPECT_EQ(co_await one.send(container, named_write({writer(2), 0, 1}, "side")), "done");
    EXPECT_EQ(co_await one.send(container, first()), "replayed");
    if (is_swept) {
        Report report;
        EXPECT_TRUE(co_await one.store->sweep({}, container, report)) << report.text();
    } else {
        Batch punch;
        punch.punch_object(written_object).put({written_object, "1", "value"}, "v");
        EXPECT_EQ(co_await one.send(container, std::move(punch)), "done");
    }
    EXPECT_EQ(co_await one.send(container, named_write(id, "once")), "replayed");
    EXPECT_EQ(co_await one.found(container), is_swept ? "side" : describe(Error{Code::not_found}));
}

TEST(RadosReplies, MovedReplyIsReadFromItsSlot) {
    with_clients(1, {}, move_a_reply<false>);
    with_clients(1, {}, move_a_reply<true>);
}

// Two stores get each request at about the same time, while others write and remove the object.
// Then it is overwritten, and a repetition changes nothing.
Task<> race_for_requests(sim::World& in, SimRados& cluster, ReplyingClient& one,
                         ReplyingClient& other, ContainerId container) {
    one.stalling.arrived.set();
    Random& random = in.core().random();
    const auto pause = [&](uint64_t most) {
        return sleep_for(in.core(), std::chrono::milliseconds(random.below(most + 1)));
    };
    const auto any = [&]() -> ReplyingClient& { return random.one_in(2) ? one : other; };
    for (uint64_t sequence = 1; sequence <= 12; ++sequence) {
        const auto slot = static_cast<uint32_t>(random.below(2));
        const UpdateName id{writer(1), slot, sequence};
        std::string answers[4];
        {
            Nursery nursery(in.core(), 4);
            co_await nursery.spawn(one.send_to(container, named_write(id, "once"), answers[0]));
            co_await pause(random.one_in(2) ? 0 : 10);
            co_await nursery.spawn(other.send_to(container, named_write(id, "once"), answers[1]));
            if (random.one_in(2)) {
                co_await nursery.spawn(any().send_to(
                    container, named_write({writer(2), 0, sequence}, "side"), answers[2]));
            }
            if (random.one_in(3)) {
                Batch punch;
                punch.punch_object(written_object);
                co_await nursery.spawn(any().send_to(container, std::move(punch), answers[3]));
            }
            co_await nursery.join();
        }
        EXPECT_EQ(std::ranges::count(std::span(answers).first(2), "done"), 1) << sequence;
        EXPECT_EQ(std::ranges::count(std::span(answers).first(2), "replayed"), 1)
            << answers[0] << ", " << answers[1];
        co_await pause(random.one_in(2) ? 10 : 3000);
        const bool is_removed = random.one_in(3);
        Batch last;
        last.write(written_array, 0, "last");
        Batch punch;
        punch.punch_object(written_object);
        EXPECT_EQ(co_await any().send(container, std::move(is_removed ? punch : last)), "done");
        co_await pause(random.one_in(2) ? 10 : 3000);
        for (int i = 0; i < 2; ++i) {
            EXPECT_EQ(co_await any().send(container, named_write(id, "once")), "replayed")
                << sequence;
            EXPECT_EQ(co_await any().found(container),
                      is_removed ? describe(Error{Code::not_found}) : "last");
            if (testing::Test::HasFailure()) co_return;
        }
        if (!random.one_in(4)) continue;
        Report report;
        EXPECT_TRUE(co_await any().store->sweep({}, container, report)) << report.text();
    }
    (void)cluster;
}

TEST(RadosReplies, RequestToTwoStoresIsDoneOnce) {
    for (uint64_t seed = 1; seed <= 300; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        with_clients(seed, std::chrono::milliseconds(2), race_for_requests);
        if (testing::Test::HasFailure()) return;
    }
}

}  // namespace
}  // namespace ros2s::rados
