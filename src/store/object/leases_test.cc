// What operators see of a table of leases. Its rules are in the contract of ObjectStore.
#include "ros2s/object/leases.h"

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <utility>

#include "ros2s/runtime/sim/world.h"

namespace ros2s::object {
namespace {

using namespace std::chrono_literals;

const ContainerId leased_container{};
const ObjectId leased{1, 1};

Holder holder(uint8_t number) {
    Holder made{.session = number};
    made.client.bytes[0] = number;
    made.owner.bytes[0] = number;
    return made;
}

class LeaseHolders : public testing::Test {
  protected:
    LeaseNews listen(const Holder& holder, Listening listening = {.waits = false}) {
        const auto news = world_.run(table_.listen({}, leased_container, holder, listening));
        EXPECT_TRUE(news);
        return news.value_or(LeaseNews{});
    }
    void begin(const Holder& holder) { listen(holder, {.begins = true, .waits = false}); }
    Result<> change_by(const Holder& holder, ObjectId object = leased) {
        Transaction transaction;
        transaction.holder = holder;
        transaction.operations.push_back({.object = object});
        return table_.ask(leased_container, transaction);
    }
    Task<> pass(Duration time) { co_await sleep_for(world_.core(), time); }
    [[nodiscard]] Time now() { return world_.core().now(); }

    sim::World world_{1};
    PinTable pins_;
    LeaseTable table_{world_.core(), pins_};
};

TEST_F(LeaseHolders, HoldersAreListedWithTheirRecalls) {
    begin(holder(1));
    begin(holder(2));
    const Time begun = now();
    EXPECT_NE(table_.grant(leased_container, leased, holder(1)), 0U);
    world_.run(pass(100ms));
    EXPECT_FALSE(change_by(holder(2)));
    const Time recalled = now();
    world_.run(pass(100ms));
    EXPECT_FALSE(change_by(holder(2)));
    const auto all = table_.holders();
    ASSERT_EQ(all.size(), 2U);
    EXPECT_EQ(all[0].name, name_of(leased_container, holder(1)));
    EXPECT_EQ(all[0].session, 1U);
    EXPECT_EQ(all[0].since, begun);
    EXPECT_EQ(all[0].nodes, 1U);
    EXPECT_EQ(all[0].recalls, 1U);
    EXPECT_EQ(all[0].recalled, recalled);
    EXPECT_EQ(all[1].nodes, 0U);
    EXPECT_EQ(all[1].recalls, 0U);
    EXPECT_EQ(table_.counters().recalls.value(), 1U);
}

TEST_F(LeaseHolders, ObjectThatItsHolderPunchesNeedsNoLease) {
    begin(holder(1));
    EXPECT_NE(table_.grant(leased_container, leased, holder(1)), 0U);
    EXPECT_NE(table_.grant(leased_container, {2, 2}, holder(1)), 0U);
    Transaction transaction;
    transaction.holder = holder(1);
    transaction.operations.push_back({.kind = Operation::Kind::punch_dkeys, .object = {2, 2}});
    transaction.operations.push_back({.kind = Operation::Kind::punch_object, .object = leased});
    table_.done(leased_container, transaction);
    EXPECT_EQ(table_.count(), 1U);
    EXPECT_TRUE(change_by(holder(2)));
}

TEST_F(LeaseHolders, ObjectThatIsSparedCostsNoOtherItsLease) {
    begin(holder(1));
    for (int i = 0; i < 3; ++i) {
        EXPECT_NE(table_.grant(leased_container, leased, holder(1)), 0U);
        EXPECT_FALSE(change_by(holder(2)));
        const auto recalled = listen(holder(1)).recalled;
        (void)listen(holder(1), {.waits = false, .given_back = recalled});
        world_.run(pass(210ms));
    }
    EXPECT_EQ(table_.grant(leased_container, leased, holder(1)), 0U);
    for (uint64_t i = 0; i < 20'000; ++i) {
        ASSERT_NE(table_.grant(leased_container, {7, i}, holder(1)), 0U) << i;
    }
}

TEST_F(LeaseHolders, EvictedHolderBeginsAgainWithoutLeases) {
    begin(holder(1));
    EXPECT_NE(table_.grant(leased_container, leased, holder(1)), 0U);
    EXPECT_TRUE(table_.evict(name_of(leased_container, holder(1))));
    EXPECT_EQ(table_.grant(leased_container, {1, 2}, holder(1)), 0U);
    EXPECT_FALSE(change_by(holder(2))) << "it may not have heard of it";
    EXPECT_TRUE(listen(holder(1)).lost);
    begin(holder(1));
    EXPECT_TRUE(change_by(holder(2)));
    EXPECT_EQ(table_.holders()[0].nodes, 0U);
    EXPECT_FALSE(table_.holders()[0].is_cut);
    EXPECT_TRUE(table_.barred().empty());
    EXPECT_EQ(table_.counters().evictions.value(), 1U);
    EXPECT_FALSE(table_.evict(name_of(leased_container, holder(2))));
}

TEST_F(LeaseHolders, SilentEvictedHolderDelaysOthersNoLonger) {
    begin(holder(1));
    EXPECT_NE(table_.grant(leased_container, leased, holder(1)), 0U);
    world_.run(pass(1s));
    EXPECT_TRUE(table_.evict(name_of(leased_container, holder(1))));
    world_.run(pass(1s));
    EXPECT_TRUE(change_by(holder(2)));
    EXPECT_TRUE(table_.holders().empty());
}

TEST_F(LeaseHolders, UpdateThatWaitedLongIsReported) {
    std::vector<SlowLease> slow;
    table_.on_slow_answer([&](const SlowLease& each) { slow.push_back(each); });
    begin(holder(1));
    const uint64_t number = table_.grant(leased_container, leased, holder(1));
    EXPECT_FALSE(change_by(holder(2)));
    world_.run(pass(200ms));
    EXPECT_EQ(listen(holder(1)).recalled.size(), 1U);
    EXPECT_TRUE(slow.empty());
    world_.run(pass(900ms));
    (void)listen(holder(1), {.waits = false, .given_back = {{leased, number}}});
    ASSERT_EQ(slow.size(), 1U);
    EXPECT_EQ(slow[0].holder, name_of(leased_container, holder(1)));
    EXPECT_EQ(slow[0].session, 1U);
    EXPECT_EQ(slow[0].waiter, holder(2));
    EXPECT_EQ(slow[0].waited, 1100ms);
    EXPECT_TRUE(slow[0].is_answered);
    EXPECT_EQ(table_.counters().expired.value(), 0U);
}

TEST_F(LeaseHolders, RecallOfASilentHolderExpires) {
    std::vector<SlowLease> slow;
    table_.on_slow_answer([&](const SlowLease& each) { slow.push_back(each); });
    begin(holder(1));
    EXPECT_NE(table_.grant(leased_container, leased, holder(1)), 0U);
    EXPECT_FALSE(change_by(holder(2)));
    world_.run(pass(5s));
    EXPECT_TRUE(change_by(holder(2)));
    ASSERT_EQ(slow.size(), 1U);
    EXPECT_EQ(slow[0].waited, lease_time) << "it ended by its time";
    EXPECT_FALSE(slow[0].is_answered);
    EXPECT_EQ(table_.counters().expired.value(), 1U);
}

TEST_F(LeaseHolders, SlowOwnerIsBarredForAMinute) {
    begin(holder(1));
    EXPECT_NE(table_.grant(leased_container, leased, holder(1)), 0U);
    const Time begun = now();
    while (!change_by(holder(2)) && now() < begun + 5s) {
        (void)listen(holder(1));
        world_.run(pass(100ms));
    }
    const auto barred = table_.barred();
    ASSERT_EQ(barred.size(), 1U);
    EXPECT_EQ(barred[0].first, holder(1).owner);
    EXPECT_GT(barred[0].second, now() + 59s);
    EXPECT_EQ(table_.counters().cuts.value(), 1U);
}

// Ten sessions of one owner, each with a lease.
class SlowSessions : public LeaseHolders {
  protected:
    static constexpr uint8_t count = 10;
    static constexpr Duration step = 20ms;
    struct Session {
        Holder name;
        std::vector<std::pair<Time, Lease>> recalled{};
        Time silent_until{};
    };
    // For how long a writer of their objects waits in a minute. `pass_step`: what they do
    // meanwhile.
    Duration delay_of_a_writer(const std::function<void()>& pass_step) {
        for (uint8_t i = 0; i < count; ++i) {
            Holder each = holder(static_cast<uint8_t>(i + 1));
            each.owner = holder(1).owner;
            sessions_.push_back({each});
        }
        Duration waited{};
        const Time until = now() + 1min;
        for (uint8_t next = 0; now() < until; next = (next + 1) % count) {
            for (uint8_t i = 0; i < count; ++i) {
                (void)table_.grant(leased_container, {3, i}, sessions_[i].name);
            }
            const Time begun = now();
            while (!change_by(holder(99), {3, next})) pass_step();
            waited += now() - begun;
            pass_step();
        }
        return waited;
    }
    // They give back `after` they were asked, or never.
    void answer(std::optional<Duration> after) {
        world_.run(pass(step));
        for (Session& each : sessions_) {
            Listening listening{.waits = false};
            std::erase_if(each.recalled, [&](const auto& one) {
                const bool is_answered = after && now() >= one.first + *after;
                if (is_answered) listening.given_back.push_back(one.second);
                return is_answered;
            });
            const LeaseNews news = listen(each.name, listening);
            for (const Lease& one : news.recalled) each.recalled.emplace_back(now(), one);
            if (!news.lost) continue;
            each.recalled.clear();
            begin(each.name);
        }
    }
    // They ask for nothing for a lease's time after they were told of a recall, or from the
    // beginning, and then begin anew.
    void be_silent(bool are_told) {
        world_.run(pass(step));
        for (Session& each : sessions_) {
            if (now() < each.silent_until) continue;
            if (std::exchange(each.silent_until, {}) != Time{}) begin(each.name);
            if (!are_told) {
                each.silent_until = now() + lease_time - 2 * step;
                continue;
            }
            const LeaseNews news = listen(each.name);
            if (news.lost || !news.recalled.empty()) each.silent_until = now() + lease_time;
        }
    }
    std::vector<Session> sessions_;
};

TEST_F(SlowSessions, SilentOnesDelayAWriterFourSecondsInAMinute) {
    const Duration delay = delay_of_a_writer([this] { answer(std::nullopt); });
    EXPECT_GT(delay, 1s);
    EXPECT_LE(delay, 4s);
}
TEST_F(SlowSessions, SlowOnesDelayAWriterFourSecondsInAMinute) {
    const Duration delay = delay_of_a_writer([this] { answer(1900ms); });
    EXPECT_GT(delay, 1s);
    EXPECT_LE(delay, 4s);
}
// The first that is gone bars nobody, and those that are cut may not have heard of it for
// lease_time.
TEST_F(SlowSessions, OnesThatBeginAnewDelayAWriterSixSecondsInAMinute) {
    const Duration delay = delay_of_a_writer([this] { be_silent(true); });
    EXPECT_GT(delay, 1s);
    EXPECT_LE(delay, 6s);
}
TEST_F(SlowSessions, OnesThatAreNeverToldDelayAWriterSixSecondsInAMinute) {
    const Duration delay = delay_of_a_writer([this] { be_silent(false); });
    EXPECT_GT(delay, 1s);
    EXPECT_LE(delay, 6s);
}

TEST_F(LeaseHolders, OneThatIsGoneDoesNotBarItsOwner) {
    Holder neighbour = holder(2);
    neighbour.owner = holder(1).owner;
    begin(holder(1));
    for (uint64_t i = 0; i < 5; ++i) {
        EXPECT_NE(table_.grant(leased_container, {3, i}, holder(1)), 0U);
        EXPECT_FALSE(change_by(holder(3), {3, i}));
        world_.run(pass(100ms));
    }
    world_.run(pass(3s));
    for (uint64_t i = 0; i < 5; ++i) EXPECT_TRUE(change_by(holder(3), {3, i}));
    EXPECT_TRUE(table_.barred().empty());
    begin(neighbour);
    EXPECT_NE(table_.grant(leased_container, leased, neighbour), 0U);
}

}  // namespace
}  // namespace ros2s::object
