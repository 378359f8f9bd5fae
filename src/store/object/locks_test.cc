#include "ros2s/object/locks.h"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>

#include "ros2s/base/random.h"

namespace ros2s::object {
namespace {

using namespace std::chrono_literals;
using How = LockRequest::How;

using Answer = Result<std::optional<Lock>>;

const ContainerId here{};
const ObjectId file{1, 1};
constexpr Time start{std::chrono::hours(1)};

Holder mount(uint8_t number, uint64_t session = 0) {
    Holder mount{.session = session};
    mount.client.bytes[0] = number;
    mount.owner.bytes[0] = static_cast<uint8_t>(session);
    return mount;
}
Lock lock_of(LockMode mode, uint64_t owner, uint64_t first, uint64_t last) {
    return {.mode = mode, .first = first, .last = last, .owner = owner};
}

// Each byte of a small object, and who has locked it how.
class Model {
  public:
    static constexpr uint64_t bytes = 24, owners = 4;
    bool set(const Lock& lock) {
        for (uint64_t at = lock.first; at <= lock.last; ++at) {
            for (uint64_t owner = 0; owner < owners; ++owner) {
                const LockMode other = modes_[at][owner];
                if (owner != lock.owner && other != LockMode::none && lock.mode != LockMode::none &&
                    (other == LockMode::exclusive || lock.mode == LockMode::exclusive)) {
                    return false;
                }
            }
        }
        for (uint64_t at = lock.first; at <= lock.last; ++at) modes_[at][lock.owner] = lock.mode;
        return true;
    }

  private:
    std::array<std::array<LockMode, owners>, bytes> modes_{};
};

TEST(LockTable, RandomLocksOfFourOwnersAreThoseOfAModelOfBytes) {
    const uint64_t seed = random_seed();
    SCOPED_TRACE(seed);
    Random random(seed);
    PinTable pins;
    LockTable locks(pins);
    Model model;
    for (int i = 0; i < 20000; ++i) {
        const uint64_t a = random.below(Model::bytes), b = random.below(Model::bytes);
        const Lock lock = lock_of(static_cast<LockMode>(random.below(3)),
                                  random.below(Model::owners), std::min(a, b), std::max(a, b));
        // Two holders with two owners each.
        const auto done = locks.lock(here, mount(lock.owner < 2 ? 1 : 2),
                                     {.object = file, .lock = lock, .how = How::set}, start);
        ASSERT_TRUE(done);
        ASSERT_EQ(!done->has_value(), model.set(lock)) << i;
    }
    for (uint64_t owner = 0; owner < Model::owners; ++owner) {
        const Lock all = lock_of(LockMode::none, owner, 0, UINT64_MAX);
        ASSERT_TRUE(locks.lock(here, mount(owner < 2 ? 1 : 2),
                               {.object = file, .lock = all, .how = How::set}, start));
    }
    EXPECT_EQ(locks.count(), 0U);
}

// As F_GETLK says it.
TEST(LockTable, OfSeveralLocksInTheWayTheFirstIsFound) {
    PinTable pins;
    LockTable locks(pins);
    const auto ask = [&](How how, const Lock& lock) {
        return locks.lock(here, mount(1), {.object = file, .lock = lock, .how = how}, start);
    };
    for (const uint64_t at : {50, 10, 30}) {
        ASSERT_EQ(ask(How::set, lock_of(LockMode::exclusive, 1, at, at + 5)), Answer());
    }
    const auto found = ask(How::test, lock_of(LockMode::exclusive, 2, 0, 100));
    ASSERT_TRUE(found && *found);
    EXPECT_EQ((*found)->first, 10U);
}

TEST(LockTable, AwaitedHolderClaimsWhatOthersCannotTakeMeanwhile) {
    PinTable pins;
    LockTable locks(pins);
    const HolderName awaited[] = {name_of(here, mount(1))};
    pins.await(awaited, {}, start + 10s);
    const Lock wanted = lock_of(LockMode::exclusive, 1, 0, 9);
    const auto ask = [&](uint8_t who, How how, Time now) {
        return locks.lock(here, mount(who), {.object = file, .lock = wanted, .how = how}, now);
    };
    EXPECT_EQ(ask(2, How::set, start), Answer(fail(Code::busy)));
    EXPECT_EQ(ask(2, How::claim, start), Answer(fail(Code::stale))) << "it had nothing";
    EXPECT_EQ(ask(1, How::claim, start), Answer());
    (void)pins.pinned_again(here, mount(1));
    EXPECT_TRUE(ask(2, How::set, start)->has_value());
    EXPECT_EQ(locks.counters().held_off.value(), 1U);
    EXPECT_EQ(locks.counters().refused.value(), 1U);
}

TEST(LockTable, HolderThatComesTooLateHasLostItsLock) {
    PinTable pins;
    LockTable locks(pins);
    const HolderName awaited[] = {name_of(here, mount(1))};
    pins.await(awaited, {}, start + 10s);
    const LockRequest claim{
        .object = file, .lock = lock_of(LockMode::exclusive, 1, 0, 9), .how = How::claim};
    EXPECT_EQ(locks.lock(here, mount(1), claim, start + 10s), Answer(fail(Code::stale)));
    LockRequest set = claim;
    set.how = How::set;
    EXPECT_EQ(locks.lock(here, mount(2), set, start + 10s), Answer());
}

TEST(LockTable, FormerHolderKeepsOthersFromLocksNoLongerThanItMayClaim) {
    PinTable pins;
    LockTable locks(pins);
    const HolderName awaited[] = {name_of(here, mount(1))};
    pins.await(awaited, {}, start + 30s);
    pins.await_claims(start + 10s);
    const LockRequest set{.object = file, .lock = lock_of(LockMode::exclusive, 1, 0, 9)};
    EXPECT_EQ(locks.lock(here, mount(2), set, start + 9s), Answer(fail(Code::busy)));
    EXPECT_EQ(locks.lock(here, mount(2), set, start + 10s), Answer());
    LockRequest claim = set;
    claim.how = How::claim;
    EXPECT_EQ(locks.lock(here, mount(1), claim, start + 10s), Answer(fail(Code::stale)));
}

// Sets or claims the same lock for a mount in a session.
Answer ask(LockTable& locks, uint8_t who, uint64_t session, How how, Time now = start) {
    const LockRequest request{
        .object = file, .lock = lock_of(LockMode::exclusive, 1, 0, 9), .how = how};
    Holder by = mount(who);
    by.session = session;
    return locks.lock(here, by, request, now);
}

TEST(LockTable, LockOfAnEndedSessionIsClaimedIfNobodyTookIt) {
    PinTable pins;
    LockTable locks(pins);
    ASSERT_EQ(ask(locks, 1, 5, How::set), Answer());
    locks.session_ended(5, start, start + 10s);
    EXPECT_EQ(ask(locks, 2, 6, How::test), Answer()) << "it excludes nobody";
    EXPECT_EQ(ask(locks, 1, 7, How::claim, start + 9s), Answer());
    EXPECT_TRUE(ask(locks, 2, 6, How::set)->has_value());
    locks.session_ended(7, start, start + 10s);
    EXPECT_EQ(ask(locks, 1, 8, How::claim, start + 10s), Answer(fail(Code::stale)));
    EXPECT_EQ(locks.count(), 0U);
}

TEST(LockTable, LockOfAnEndedSessionIsLostToWhoTakesIt) {
    PinTable pins;
    LockTable locks(pins);
    ASSERT_EQ(ask(locks, 1, 5, How::set), Answer());
    locks.session_ended(5, start, start + 10s);
    EXPECT_EQ(ask(locks, 2, 6, How::set), Answer());
    EXPECT_EQ(locks.count(), 1U);
    LockRequest unlock{.object = file, .lock = lock_of(LockMode::none, 1, 0, 9), .how = How::set};
    Holder other = mount(2);
    other.session = 6;
    ASSERT_TRUE(locks.lock(here, other, unlock, start));
    ASSERT_EQ(locks.count(), 0U);
    EXPECT_EQ(ask(locks, 1, 7, How::claim), Answer(fail(Code::stale)));
}

TEST(LockTable, LocksOfAnEndedSessionLeaveRoomOnTheirObject) {
    PinTable pins;
    LockTable locks(pins);
    const auto set = [&](const Holder& by, uint64_t at) {
        const LockRequest request{
            .object = file, .lock = lock_of(LockMode::shared, 1, at, at), .how = How::set};
        return locks.lock(here, by, request, start);
    };
    for (uint64_t i = 0; set(mount(1, 5), 2 * i); ++i) ASSERT_LT(i, LockTable::object_locks_max);
    Holder other = mount(2, 6);
    other.owner = mount(1, 5).owner;
    EXPECT_FALSE(set(other, 1));
    locks.session_ended(5, start, start + 10s);
    EXPECT_TRUE(set(other, 1));
}

TEST(LockTable, OwnerLeavesOthersAsManyLocksOfAnObject) {
    PinTable pins;
    LockTable locks(pins);
    Holder other = mount(2, 6);
    other.owner.bytes[0] = 1;
    const auto set = [&](const Holder& by, uint64_t at) {
        const LockRequest request{
            .object = file, .lock = lock_of(LockMode::shared, 1, at, at), .how = How::set};
        return locks.lock(here, by, request, start);
    };
    for (uint64_t i = 0; set(mount(1, 5), 2 * i); ++i) ASSERT_LT(i, LockTable::object_locks_max);
    for (uint64_t i = 0; i < LockTable::object_locks_max / 4; ++i) EXPECT_TRUE(set(other, 2 * i));
}

TEST(LockTable, OwnersOfSessionsLeaveAsMuchAsTheyTake) {
    PinTable pins;
    LockTable locks(pins);
    const auto fill = [&](uint64_t owner) {
        size_t before = SIZE_MAX;
        for (uint64_t session = 0; locks.count() != before; ++session) {
            before = locks.count();
            Holder by = mount(1, 1 + owner * 1000 + session);
            by.owner.bytes[0] = static_cast<uint8_t>(owner);
            for (uint64_t i = 0; i < LockTable::session_locks_max; ++i) {
                const LockRequest request{.object = {owner * 1000 + session, i},
                                          .lock = lock_of(LockMode::exclusive, 1, 0, 9),
                                          .how = How::set};
                if (!locks.lock(here, by, request, start)) break;
            }
        }
        return before;
    };
    const size_t first = fill(1);
    EXPECT_LE(first, LockTable::locks_max / 2 + 1);
    EXPECT_GE(fill(2) - first, LockTable::locks_max / 4 - 1);
    EXPECT_GT(locks.counters().bounded.value(), 0U);
}

// Locks, claims or unlocks the container.
Answer ask_container(LockTable& locks, const Holder& by, How how, LockMode mode, Time now = start) {
    const LockRequest request{
        .object = {}, .lock = {.space = LockSpace::container, .mode = mode}, .how = how};
    return locks.lock(here, by, request, now);
}
Answer take_container(LockTable& locks, const Holder& by, How how = How::set) {
    return ask_container(locks, by, how, LockMode::exclusive);
}
// The answer to an update of the holder that has the container alone.
Result<> judge_exclusive(PinTable& pins, const Holder& by) {
    Transaction transaction{.holder = by};
    transaction.conditions.push_back({.kind = Condition::Kind::pinned, .object = {}});
    return pins.judge(here, transaction, start);
}
const Answer in_use = Lock{.space = LockSpace::container, .mode = LockMode::shared};

TEST(ContainerLock, OnlyItsHolderUsesTheContainer) {
    PinTable pins;
    LockTable locks(pins);
    EXPECT_FALSE(judge_exclusive(pins, mount(1)));
    EXPECT_EQ(take_container(locks, mount(1)), Answer());
    EXPECT_TRUE(judge_exclusive(pins, mount(1)));
    EXPECT_TRUE(locks.admit(here, mount(1).client, start));
    EXPECT_EQ(locks.admit(here, mount(2).client, start), Result<>(fail(Code::busy)));
    EXPECT_EQ(locks.admit(here, Uuid{}, start), Result<>(fail(Code::busy)))
        << "who does not say who it is";
    EXPECT_TRUE(take_container(locks, mount(2))->has_value());
    EXPECT_EQ(ask_container(locks, mount(1), How::set, LockMode::none), Answer());
    EXPECT_FALSE(judge_exclusive(pins, mount(1)));
    EXPECT_TRUE(locks.admit(here, mount(2).client, start));
    EXPECT_FALSE(locks.has_container());
    EXPECT_EQ(pins.count(), 0U);
}

TEST(ContainerLock, OtherLocksOfTheNilObjectAreInvalid) {
    PinTable pins;
    LockTable locks(pins);
    EXPECT_EQ(locks.lock(here, mount(1), {.object = {}, .lock = {}}, start),
              Answer(fail(Code::invalid)));
}

TEST(ContainerLock, IsRefusedWhileAnotherHolderHasFilesOpen) {
    PinTable pins;
    LockTable locks(pins);
    EXPECT_TRUE(pins.add(here, file, mount(2)));
    EXPECT_EQ(take_container(locks, mount(1)), in_use);
    EXPECT_EQ(take_container(locks, mount(2)), Answer()) << "its own";
    EXPECT_EQ(ask_container(locks, mount(2), How::set, LockMode::none), Answer());
    (void)pins.remove(here, file, mount(2));
    EXPECT_EQ(take_container(locks, mount(1)), Answer());
}

TEST(ContainerLock, OfAnEndedSessionIsClaimedIfNobodyUsedTheContainer) {
    PinTable pins;
    LockTable locks(pins);
    for (const bool used : {false, true}) {
        const uint64_t first = used ? 3 : 1;
        EXPECT_EQ(take_container(locks, mount(1, first)), Answer());
        locks.session_ended(first, start, start + 30s);
        const Holder again{
            .client = mount(1).client, .session = first + 1, .owner = mount(1, first).owner};
        EXPECT_FALSE(judge_exclusive(pins, again)) << "it has not claimed it";
        if (used) EXPECT_TRUE(locks.admit(here, mount(2).client, start));
        EXPECT_EQ(take_container(locks, again, How::claim),
                  used ? Answer(fail(Code::stale)) : Answer());
        EXPECT_EQ(judge_exclusive(pins, again).has_value(), !used);
        EXPECT_FALSE(judge_exclusive(pins, mount(1, first))) << "its old session";
        EXPECT_EQ(ask_container(locks, again, How::set, LockMode::none), Answer());
    }
    EXPECT_EQ(pins.count(), 0U);
    EXPECT_EQ(locks.count(), 0U);
}

TEST(ContainerLock, OfBeforeTheStartIsClaimedIfNobodyWasAdmitted) {
    for (const auto asked_after : {1s, 6s}) {
        PinTable pins;
        LockTable locks(pins);
        const HolderName awaited[] = {name_of(here, mount(1)), name_of(here, mount(2))};
        pins.await(awaited, {}, start + 30s);
        pins.await_exclusive({awaited, 1}, start + 5s);
        EXPECT_EQ(take_container(locks, mount(2), How::claim), Answer(fail(Code::stale)));
        const bool admitted = locks.admit(here, mount(2).client, start + asked_after).has_value();
        EXPECT_EQ(admitted, asked_after == 6s);
        EXPECT_TRUE(locks.admit(here, mount(1).client, start + asked_after));
        EXPECT_EQ(take_container(locks, mount(1), How::claim),
                  admitted ? Answer(fail(Code::stale)) : Answer());
        EXPECT_EQ(locks.has_container(), !admitted);
    }
}

// Processes of three mounts, and files that they lock.
class Deadlocks : public testing::Test {
  protected:
    static Lock exclusive(uint64_t first) { return lock_of(LockMode::exclusive, 5, first, first); }
    void has(uint8_t who, Lock lock) {
        EXPECT_EQ(
            locks_.lock(here, mount(who), {.object = file, .lock = lock, .how = How::set}, start),
            Answer());
    }
    // What a process learns that waits: nothing, or the errno.
    int waits(uint8_t who, Lock lock, Time now = start, How how = How::set) {
        const auto done = locks_.lock(
            here, mount(who), {.object = file, .lock = lock, .how = how, .waits = true}, now);
        EXPECT_TRUE(!done || done->has_value());
        return done ? 0 : to_errno(done.error());
    }
    PinTable pins_;
    LockTable locks_{pins_};
};

TEST_F(Deadlocks, CycleOverHoldersIsFound) {
    for (uint8_t who = 1; who <= 3; ++who) has(who, exclusive(who));
    EXPECT_EQ(waits(1, exclusive(2)), 0);
    EXPECT_EQ(waits(2, exclusive(3)), 0);
    EXPECT_EQ(waits(2, exclusive(3)), 0) << "it asks again";
    EXPECT_EQ(waits(3, exclusive(1)), EDEADLK);
    EXPECT_EQ(waits(2, exclusive(3)), 0) << "the third one waits no longer";
    has(3, lock_of(LockMode::none, 5, 0, 9));
    has(2, exclusive(3));
}

TEST_F(Deadlocks, EveryOwnerOfASharedLockCounts) {
    for (uint8_t who = 1; who <= 3; ++who) has(who, lock_of(LockMode::shared, 5, 0, 0));
    has(2, exclusive(2));
    EXPECT_EQ(waits(3, exclusive(2), start, How::test), 0);
    EXPECT_EQ(waits(2, exclusive(0), start, How::test), EDEADLK);
}

TEST_F(Deadlocks, EndedWaitIsInNoCycle) {
    for (uint8_t who = 1; who <= 2; ++who) has(who, exclusive(who));
    EXPECT_EQ(waits(1, exclusive(2)), 0);
    EXPECT_EQ(waits(2, exclusive(1), start + lock_waits_for), 0) << "it has not asked again";
    EXPECT_EQ(waits(1, exclusive(2), start + lock_waits_for), EDEADLK);
    EXPECT_TRUE(locks_.lock(here, mount(2),
                            {.object = file, .lock = exclusive(1), .how = How::test},
                            start + lock_waits_for));
    EXPECT_EQ(waits(1, exclusive(2), start + lock_waits_for), 0) << "that one was stopped";
}

TEST_F(Deadlocks, OtherLocksAreInNoCycle) {
    for (uint8_t who = 1; who <= 2; ++who) has(who, exclusive(who));
    EXPECT_TRUE(locks_.lock(here, mount(1), {.object = file, .lock = exclusive(2), .how = How::set},
                            start));
    EXPECT_EQ(waits(2, exclusive(1)), 0) << "the other one does not wait";
    Lock whole = lock_of(LockMode::exclusive, 5, 0, UINT64_MAX);
    whole.space = LockSpace::flock;
    has(1, whole);
    EXPECT_EQ(waits(2, whole), 0);
    EXPECT_EQ(waits(1, exclusive(2)), EDEADLK);
}

// Each process waits for the next one. Other locks are in front of that one's.
TEST_F(Deadlocks, LooksAtABoundedNumberOfLocks) {
    constexpr uint8_t processes = 10;
    const auto ask = [&](uint8_t who, uint64_t number, Lock lock, bool waits) {
        const auto done = locks_.lock(
            here, mount(who),
            {.object = {1, number}, .lock = lock, .how = How::set, .waits = waits}, start);
        return done ? 0 : to_errno(done.error());
    };
    const auto fill = [&](uint64_t locks) {
        for (uint8_t who = 1; who <= processes; ++who) {
            for (uint64_t i = 0; i < locks; ++i) {
                ASSERT_EQ(ask(processes + 1, who, exclusive(10 + 2 * i), false), 0);
            }
            ASSERT_EQ(ask(who, who, exclusive(0), false), 0);
        }
    };
    const auto close_the_cycle = [&] {
        for (uint8_t who = 1; who < processes; ++who) {
            EXPECT_EQ(ask(who, who + 1, exclusive(0), true), 0);
        }
        (void)locks_.take_cycle_locks();
        return ask(processes, 1, exclusive(0), true);
    };
    fill(100);
    EXPECT_EQ(close_the_cycle(), EDEADLK);
    EXPECT_EQ(locks_.take_cycle_locks(), 101U * processes);
    fill(500);
    EXPECT_EQ(close_the_cycle(), 0);
    EXPECT_EQ(locks_.take_cycle_locks(), LockTable::cycle_locks_max);
    EXPECT_EQ(locks_.take_cycle_locks(), 0U);
}

TEST_F(Deadlocks, WaitsAreBounded) {
    has(1, exclusive(0));
    const auto wait = [&](uint64_t owner) {
        Lock lock = exclusive(0);
        lock.owner = owner;
        return locks_.lock(here, mount(2, 7),
                           {.object = file, .lock = lock, .how = How::set, .waits = true}, start);
    };
    for (uint64_t owner = 0; owner <= LockTable::waits_max; ++owner) ASSERT_TRUE(wait(owner));
    has(3, exclusive(3));
    EXPECT_EQ(waits(1, exclusive(3)), 0);
    EXPECT_EQ(waits(3, exclusive(0)), EDEADLK) << "others have room";
}

}  // namespace
}  // namespace ros2s::object
