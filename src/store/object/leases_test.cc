// What operators see of a table of leases. Its rules are in the contract of ObjectStore.
#include "ros2s/object/leases.h"

#include <gtest/gtest.h>

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
    Result<> change_by(const Holder& holder) {
        Transaction transaction;
        transaction.holder = holder;
        transaction.operations.push_back({.object = leased});
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

}  // namespace
}  // namespace ros2s::object
