// Locks of byte ranges and of whole objects.
#include <cerrno>

#include "probe.h"

namespace ros2s::object::contract {
namespace {

using How = LockRequest::How;

Holder mount(uint8_t number, uint64_t session = 0) {
    Holder holder{.session = session};
    holder.client.bytes[0] = number;
    return holder;
}
Lock exclusive(uint64_t owner, uint64_t first = 0, uint64_t last = UINT64_MAX) {
    return {.mode = LockMode::exclusive, .first = first, .last = last, .owner = owner, .pid = 77};
}
Lock shared(uint64_t owner, uint64_t first = 0, uint64_t last = UINT64_MAX) {
    Lock lock = exclusive(owner, first, last);
    lock.mode = LockMode::shared;
    return lock;
}
Lock unlocked(uint64_t owner, uint64_t first = 0, uint64_t last = UINT64_MAX) {
    Lock lock = exclusive(owner, first, last);
    lock.mode = LockMode::none;
    return lock;
}
Lock whole(Lock lock) {
    lock.space = LockSpace::flock;
    return lock;
}

using Answer = Result<std::optional<Lock>>;

Task<Answer> ask(Probe& probe, Holder by, Lock lock, How how = How::set, bool waits = false) {
    co_return co_await probe.store().lock(
        probe.call(), probe.container(), by,
        {.object = one, .lock = lock, .how = how, .waits = waits});
}
Task<> must_lock(Probe& probe, Holder by, Lock lock, How how = How::set) {
    EXPECT_EQ(co_await ask(probe, by, lock, how), Answer());
}
// `in_the_way`: as its own holder set it.
Task<> expect_in_the_way(Probe& probe, Holder by, Lock lock, Lock in_the_way, How how = How::set) {
    in_the_way.owner = in_the_way.pid = 0;
    EXPECT_EQ(co_await ask(probe, by, lock, how), Answer(in_the_way));
}

Task<> locks_exclude_each_other(Probe& probe) {
    co_await must_lock(probe, mount(1), shared(1));
    co_await must_lock(probe, mount(2), shared(1));
    co_await expect_in_the_way(probe, mount(3), exclusive(1), shared(1));
    co_await must_lock(probe, mount(2), unlocked(1));
    co_await must_lock(probe, mount(1), exclusive(1));
    co_await expect_in_the_way(probe, mount(2), shared(1), exclusive(1));
    co_await must_lock(probe, mount(1), unlocked(1));
    co_await must_lock(probe, mount(2), exclusive(1));
}

Task<> owners_of_one_holder_exclude_each_other(Probe& probe) {
    co_await must_lock(probe, mount(1), exclusive(1));
    EXPECT_EQ(co_await ask(probe, mount(1), exclusive(2)), Answer(exclusive(1)))
        << "its own holder learns owner and process";
}

Task<> ranges_are_independent(Probe& probe) {
    co_await must_lock(probe, mount(1), exclusive(1, 0, 9));
    co_await must_lock(probe, mount(2), exclusive(1, 10, 19));
    co_await expect_in_the_way(probe, mount(3), shared(1, 9, 9), exclusive(1, 0, 9));
    co_await must_lock(probe, mount(3), shared(1, 20));
    co_await expect_in_the_way(probe, mount(1), exclusive(1, UINT64_MAX), shared(1, 20));
}

Task<> a_lock_replaces_its_owners_part(Probe& probe) {
    co_await must_lock(probe, mount(1), exclusive(1, 0, 99));
    co_await must_lock(probe, mount(1), shared(1, 40, 59));
    co_await expect_in_the_way(probe, mount(2), shared(1, 0, 39), exclusive(1, 0, 39));
    co_await must_lock(probe, mount(2), shared(1, 40, 59));
    co_await expect_in_the_way(probe, mount(2), shared(1, 60, 60), exclusive(1, 60, 99));
    co_await must_lock(probe, mount(1), unlocked(1, 0, 59));
    co_await must_lock(probe, mount(2), exclusive(1, 0, 59));
}

Task<> locks_that_touch_are_joined(Probe& probe) {
    co_await must_lock(probe, mount(1), exclusive(1, 0, 9));
    co_await must_lock(probe, mount(1), exclusive(1, 20, 29));
    co_await must_lock(probe, mount(1), exclusive(1, 10, 19));
    co_await expect_in_the_way(probe, mount(2), shared(1, 5, 5), exclusive(1, 0, 29));
}

Task<> spaces_are_independent(Probe& probe) {
    co_await must_lock(probe, mount(1), whole(exclusive(1)));
    co_await must_lock(probe, mount(2), exclusive(1));
    co_await expect_in_the_way(probe, mount(2), whole(shared(1)), whole(exclusive(1)));
}

// Two owners that share a lock, and both want it alone, would wait for each other.
Task<> a_refused_conversion_ends_the_old_lock(Probe& probe) {
    co_await must_lock(probe, mount(1), whole(shared(1)));
    co_await must_lock(probe, mount(2), whole(shared(1)));
    co_await expect_in_the_way(probe, mount(1), whole(exclusive(1)), whole(shared(1)), How::test);
    co_await expect_in_the_way(probe, mount(2), whole(exclusive(1)), whole(shared(1)));
    co_await must_lock(probe, mount(1), whole(exclusive(1)));

    co_await must_lock(probe, mount(1), shared(1));
    co_await must_lock(probe, mount(2), shared(1));
    co_await expect_in_the_way(probe, mount(2), exclusive(1), shared(1));
    co_await expect_in_the_way(probe, mount(1), exclusive(1), shared(1));
}

Task<> a_test_changes_nothing(Probe& probe) {
    co_await must_lock(probe, mount(1), exclusive(1), How::test);
    co_await must_lock(probe, mount(2), exclusive(1));
    co_await expect_in_the_way(probe, mount(1), shared(1), exclusive(1), How::test);
    co_await must_lock(probe, mount(2), shared(1), How::test);
    co_await expect_in_the_way(probe, mount(1), shared(1), exclusive(1));
}

Task<> bad_ranges_are_refused(Probe& probe) {
    EXPECT_EQ(co_await ask(probe, mount(1), exclusive(1, 2, 1)), Answer(fail(Code::invalid)));
}

Task<> a_claim_is_granted_to_its_holder_only(Probe& probe) {
    EXPECT_EQ(co_await ask(probe, mount(1), exclusive(1), How::claim), Answer(fail(Code::stale)));
    co_await must_lock(probe, mount(1), exclusive(1, 0, 9));
    co_await must_lock(probe, mount(1), exclusive(1, 0, 9), How::claim);
    co_await must_lock(probe, mount(1), exclusive(1, 2, 3), How::claim);
    EXPECT_EQ(co_await ask(probe, mount(1), exclusive(1, 5, 10), How::claim),
              Answer(fail(Code::stale)));
    EXPECT_EQ(co_await ask(probe, mount(2), exclusive(1, 0, 9), How::claim),
              Answer(fail(Code::stale)));
}

// In this process: a server's clients do not name their session.
Task<> a_session_takes_its_locks_with_it(Probe& probe) {
    if (probe.store().pins_era() != 0) co_return;
    co_await must_lock(probe, mount(1, 5), exclusive(1, 0, 9));
    co_await must_lock(probe, mount(1, 6), exclusive(2, 10, 19));
    probe.store().session_ended(5);
    co_await must_lock(probe, mount(2), exclusive(1, 0, 9));
    co_await expect_in_the_way(probe, mount(2), exclusive(1, 10, 19), exclusive(2, 10, 19));
    EXPECT_EQ(co_await ask(probe, mount(1, 7), exclusive(1, 0, 9), How::claim),
              Answer(fail(Code::stale)));
    co_await must_lock(probe, mount(1, 7), exclusive(2, 10, 19), How::claim);
    probe.store().session_ended(6);
    co_await expect_in_the_way(probe, mount(2), exclusive(1, 10, 19), exclusive(2, 10, 19));
}

Task<> limits_are_errors(Probe& probe) {
    Result<std::optional<Lock>> done = std::optional<Lock>{};
    uint64_t set = 0;
    for (; done && set < 4000; ++set) {
        done = co_await ask(probe, mount(1, 9), exclusive(1, 2 * set, 2 * set));
    }
    EXPECT_FALSE(done);
    EXPECT_EQ(done.error().code, Code::no_memory);
    EXPECT_GT(set, 1000U);
    co_await must_lock(probe, mount(1, 9), unlocked(1));
    co_await must_lock(probe, mount(2), exclusive(1));
}

Task<> holders_that_wait_for_each_other(Probe& probe) {
    co_await must_lock(probe, mount(1), exclusive(1, 0, 9));
    co_await must_lock(probe, mount(2), exclusive(1, 10, 19));
    EXPECT_TRUE(co_await ask(probe, mount(1), exclusive(1, 10, 19), How::set, true));
    EXPECT_EQ(co_await ask(probe, mount(2), exclusive(1, 0, 9), How::set, true),
              Answer(fail_errno(EDEADLK)));
}

}  // namespace

std::vector<Case> lock_cases() {
    const auto has_locks = [](const Features& features) { return features.locks; };
    return {
        {"LocksOfHoldersExcludeEachOther", locks_exclude_each_other, {}, has_locks},
        {"LocksOfOneHoldersOwnersExcludeEachOther",
         owners_of_one_holder_exclude_each_other,
         {},
         has_locks},
        {"LocksOfOtherRangesAreGranted", ranges_are_independent, {}, has_locks},
        {"LockReplacesWhatItsOwnerHadThere", a_lock_replaces_its_owners_part, {}, has_locks},
        {"LocksThatTouchAreJoined", locks_that_touch_are_joined, {}, has_locks},
        {"LocksOfRangesAndWholesAreIndependent", spaces_are_independent, {}, has_locks},
        {"RefusedConversionEndsTheLockOfTheWhole",
         a_refused_conversion_ends_the_old_lock,
         {},
         has_locks},
        {"LockTestChangesNothing", a_test_changes_nothing, {}, has_locks},
        {"LockOfInvalidRangeIsRefused", bad_ranges_are_refused, {}, has_locks},
        {"LockIsClaimedByItsHolderOnly", a_claim_is_granted_to_its_holder_only, {}, has_locks},
        {"EndedSessionLosesItsLocks", a_session_takes_its_locks_with_it, {}, has_locks},
        {"HoldersThatWaitForEachOtherAreADeadlock",
         holders_that_wait_for_each_other,
         {},
         has_locks},
        {"LocksBeyondTheLimitAreRefused", limits_are_errors, {}, has_locks},
    };
}

}  // namespace ros2s::object::contract
