// Advisory locks.
#include <cerrno>

#include "suite.h"

namespace ros2s::fs::contract {
namespace {

using object::Lock;
using object::LockMode;
using object::LockSpace;
using namespace std::chrono_literals;

Lock lock_of(LockMode mode, uint64_t owner, uint64_t first = 0, uint64_t last = UINT64_MAX) {
    return {.mode = mode, .first = first, .last = last, .owner = owner, .pid = 77};
}
Lock whole(Lock lock) {
    lock.space = LockSpace::flock;
    return lock;
}
constexpr LockMode none = LockMode::none, shared = LockMode::shared,
                   exclusive = LockMode::exclusive;

Task<> expect_locked(Fixture& f, FileHandle handle, Lock lock) {
    EXPECT_EQ(co_await f.fs.lock(f.call, handle, lock, LockHow::now),
              Result<std::optional<Lock>>());
}
Task<> expect_refused(Fixture& f, FileHandle handle, Lock lock) {
    const auto found = co_await f.fs.lock(f.call, handle, lock, LockHow::now);
    EXPECT_OK(found);
    EXPECT_TRUE(found && found->has_value());
}
Task<> wait_for(Fixture& f, FileHandle handle, Lock lock, Call call, Outcome& done,
                LockHow how = LockHow::wait) {
    done = outcome(co_await f.fs.lock(call, handle, lock, how));
}

// Owner 1 waits for owner 2, which then wants what owner 1 has. Returns what owner 2 gets.
Task<Result<std::optional<Lock>>> wait_for_each_other(Fixture& f, LockHow how) {
    const NodeId node = co_await f.file(root_node, "file", "x");
    const FileHandle a = co_await f.open(node), b = co_await f.open(node);
    co_await expect_locked(f, a, lock_of(exclusive, 1, 0, 9));
    co_await expect_locked(f, b, lock_of(exclusive, 2, 10, 19));
    Outcome first = is(Code::busy);
    Nursery nursery(f.reactor, 1);
    co_await nursery.spawn(wait_for(f, a, lock_of(exclusive, 1, 10, 19), f.call, first, how));
    co_await sleep_for(f.reactor, 20ms);
    Call call = f.call;
    call.deadline = f.reactor.now() + 300ms;
    const auto second =
        co_await f.fs.lock(call, b, lock_of(exclusive, 2, 0, 9), LockHow::wait_or_deadlock);
    co_await expect_locked(f, b, lock_of(none, 2));
    co_await nursery.join();
    EXPECT_EQ(first, success);
    co_return second;
}

Task<> take_alone(Fixture& f, FileHandle handle, uint64_t owner, int& taken) {
    const auto done =
        co_await f.fs.lock(f.call, handle, whole(lock_of(exclusive, owner)), LockHow::wait);
    if (!done) co_return;
    ++taken;
    co_await expect_locked(f, handle, whole(lock_of(none, owner)));
}

constexpr Case lock_table[] = {
    {"OwnersExcludeEachOther",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.file(root_node, "file", "x");
         const FileHandle a = co_await f.open(node), b = co_await f.open(node);
         co_await expect_locked(f, a, lock_of(exclusive, 1, 0, 9));
         co_await expect_refused(f, b, lock_of(shared, 2, 9, 9));
         co_await expect_locked(f, b, lock_of(exclusive, 2, 10, 19));
         const auto found =
             co_await f.fs.lock(f.call, b, lock_of(exclusive, 2, 0, 99), LockHow::test);
         CO_ASSERT(found && *found);
         EXPECT_EQ((*found)->pid, 77U);
         EXPECT_EQ((*found)->first, 0U);
         EXPECT_EQ((*found)->last, 9U);
         co_await expect_locked(f, a, lock_of(none, 1));
         co_await expect_locked(f, b, lock_of(exclusive, 2));
     }},
    {"WholeFileLocksAreIndependentOfRanges",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.file(root_node, "file", "x");
         const FileHandle a = co_await f.open(node), b = co_await f.open(node);
         co_await expect_locked(f, a, whole(lock_of(exclusive, 1)));
         co_await expect_locked(f, b, lock_of(exclusive, 2));
         co_await expect_refused(f, b, whole(lock_of(shared, 2)));
     }},
    {"SharersThatBothWantTheWholeAloneGetItInTurn",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.file(root_node, "file", "x");
         const FileHandle a = co_await f.open(node), b = co_await f.open(node);
         co_await expect_locked(f, a, whole(lock_of(shared, 1)));
         co_await expect_locked(f, b, whole(lock_of(shared, 2)));
         int taken = 0;
         Nursery nursery(f.reactor, 2);
         co_await nursery.spawn(take_alone(f, a, 1, taken));
         co_await nursery.spawn(take_alone(f, b, 2, taken));
         co_await nursery.join();
         EXPECT_EQ(taken, 2);
     }},
    {"RefusedConversionEndsTheLockOfTheWhole",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.file(root_node, "file", "x");
         const FileHandle a = co_await f.open(node), b = co_await f.open(node);
         co_await expect_locked(f, a, whole(lock_of(shared, 1)));
         co_await expect_locked(f, b, whole(lock_of(shared, 2)));
         co_await expect_refused(f, b, whole(lock_of(exclusive, 2)));
         co_await expect_locked(f, a, whole(lock_of(exclusive, 1)));
     }},
    {"CloseReleasesLocksOfItsHandle",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.file(root_node, "file", "x");
         const FileHandle a = co_await f.open(node), b = co_await f.open(node);
         co_await expect_locked(f, a, whole(lock_of(exclusive, 1)));
         co_await expect_locked(f, a, lock_of(exclusive, 1));
         co_await f.close(a);
         Outcome whole_done, range_done;
         Nursery nursery(f.reactor, 2);
         co_await nursery.spawn(wait_for(f, b, whole(lock_of(exclusive, 2)), f.call, whole_done));
         co_await nursery.spawn(wait_for(f, b, lock_of(exclusive, 2), f.call, range_done));
         co_await nursery.join();
         EXPECT_EQ(whole_done, success);
         EXPECT_EQ(range_done, success);
     }},
    {"WaitingLockIsGrantedWhenItsTurnComes",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.file(root_node, "file", "x");
         const FileHandle a = co_await f.open(node), b = co_await f.open(node);
         co_await expect_locked(f, a, lock_of(exclusive, 1));
         Outcome done = is(Code::busy);
         Nursery nursery(f.reactor, 1);
         co_await nursery.spawn(wait_for(f, b, lock_of(shared, 2), f.call, done));
         co_await sleep_for(f.reactor, 200ms);
         EXPECT_EQ(done, is(Code::busy)) << "it waits";
         co_await expect_locked(f, a, lock_of(none, 1));
         co_await nursery.join();
         EXPECT_EQ(done, success);
         co_await expect_refused(f, a, lock_of(exclusive, 1));
     }},
    {"ProcessesThatWaitForEachOtherAreADeadlock",
     [](Fixture& f) -> Task<> {
         EXPECT_EQ(co_await wait_for_each_other(f, LockHow::wait_or_deadlock),
                   Result<std::optional<Lock>>(fail_errno(EDEADLK)));
     }},
    {"OwnersThatAreNoProcessesAreNoDeadlock",
     [](Fixture& f) -> Task<> {
         EXPECT_FAILS(deadline, co_await wait_for_each_other(f, LockHow::wait));
     }},
    {"ProcessThatWaitsNoLongerIsNoDeadlock",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.file(root_node, "file", "x");
         const FileHandle a = co_await f.open(node), b = co_await f.open(node);
         co_await expect_locked(f, a, lock_of(exclusive, 1, 0, 9));
         co_await expect_locked(f, b, lock_of(exclusive, 2, 10, 19));
         Call call = f.call;
         call.deadline = f.reactor.now() + 50ms;
         EXPECT_FAILS(deadline, co_await f.fs.lock(call, a, lock_of(exclusive, 1, 10, 19),
                                                   LockHow::wait_or_deadlock));
         call.deadline = f.reactor.now() + 50ms;
         EXPECT_FAILS(deadline, co_await f.fs.lock(call, b, lock_of(exclusive, 2, 0, 9),
                                                   LockHow::wait_or_deadlock));
     }},
    {"StoppedWaitSetsNoLock",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.file(root_node, "file", "x");
         const FileHandle a = co_await f.open(node), b = co_await f.open(node);
         co_await expect_locked(f, a, lock_of(exclusive, 1));
         StopSource stop;
         Call call = f.call;
         call.stop = stop.token();
         Outcome done = success;
         Nursery nursery(f.reactor, 1);
         co_await nursery.spawn(wait_for(f, b, lock_of(shared, 2), call, done));
         co_await sleep_for(f.reactor, 20ms);
         stop.request_stop();
         co_await nursery.join();
         EXPECT_EQ(done, is(Code::cancelled));
         co_await expect_locked(f, a, lock_of(exclusive, 1));
     }},
    {"LockOfClosedHandleIsStale",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.file(root_node, "file", "x");
         const FileHandle handle = co_await f.open(node);
         co_await f.close(handle);
         EXPECT_FAILS(stale, co_await f.fs.lock(f.call, handle, lock_of(shared, 1), LockHow::now));
     }},
    {"UnlockOfWhatIsNotLockedSucceeds",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.file(root_node, "file", "x");
         const FileHandle handle = co_await f.open(node);
         co_await expect_locked(f, handle, lock_of(none, 1));
         co_await expect_locked(f, handle, whole(lock_of(none, 1)));
     }},
};

}  // namespace

Cases lock_cases() { return lock_table; }

}  // namespace ros2s::fs::contract
