// Calls of one client that wait for a lock.
#include "lock_wait.h"

#include <gtest/gtest.h>

#include <vector>

#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/sim/world.h"

namespace ros2s::fs {
namespace {

using namespace std::chrono_literals;
using Granted = std::vector<int>;

class LockWaiting : public testing::Test {
  protected:
    static constexpr NodeId node{5}, other{6};
    static inline const object::Lock in_the_way{.owner = 9};

    Task<Result<std::optional<object::Lock>>> ask() {
        ++asked_;
        if (is_taken_) co_return in_the_way;
        is_taken_ = true;
        co_return std::nullopt;
    }
    // Takes the lock when it is free.
    Task<> take(int caller, StopToken stop, Result<>& done) {
        const Call call{.stop = stop};
        const auto taken = co_await wait_for_lock(waits_, node, world_.core(), call, LockHow::wait,
                                                  [this](const Call&, LockHow) { return ask(); });
        if (taken) granted_.push_back(caller);
        done = taken ? Result<>{} : Result<>(fail(taken.error()));
    }
    void end_lock(NodeId of) {
        is_taken_ = false;
        waits_.lock_ends(of);
    }
    Task<> pass(Duration time) { co_await sleep_for(world_.core(), time); }
    Task<> take_in_order();
    Task<> stop_waiting();

    sim::World world_{1};
    LockWaits waits_{world_.core()};
    bool is_taken_ = true;
    int asked_ = 0;
    Granted granted_;
};

Task<> LockWaiting::take_in_order() {
    Nursery calls(world_.core(), 4);
    Result<> done;
    for (int caller = 1; caller <= 4; ++caller) co_await calls.spawn(take(caller, {}, done));
    co_await pass(1s);  // each asks rarely now
    for (int caller = 1; caller <= 4; ++caller) {
        const Time freed = world_.core().now();
        end_lock(node);
        while (granted_.size() < static_cast<size_t>(caller)) co_await pass(10us);
        EXPECT_LT(world_.core().now() - freed, 1ms) << "call " << caller;
    }
    co_await calls.join();
    EXPECT_EQ(granted_, (Granted{1, 2, 3, 4}));
}
TEST_F(LockWaiting, EndedLockGoesToTheCallThatCameFirst) { world_.run(take_in_order()); }

Task<> LockWaiting::stop_waiting() {
    Nursery calls(world_.core(), 1);
    StopSource stop;
    Result<> done;
    co_await calls.spawn(take(1, stop.token(), done));
    co_await pass(1s);
    const int before = asked_;
    waits_.lock_ends(other);
    co_await pass(10us);
    EXPECT_EQ(asked_, before) << "a lock of another node";
    stop.request_stop();
    co_await calls.join();
    EXPECT_EQ(done.error().code, Code::cancelled);
    end_lock(node);
    EXPECT_TRUE(granted_.empty());
}
TEST_F(LockWaiting, StoppedCallWaitsNoLonger) { world_.run(stop_waiting()); }

}  // namespace
}  // namespace ros2s::fs
