// An update that asks again while other holders have leases of what it changes.
#pragma once
#include <algorithm>

#include "ros2s/object/object_store.h"
#include "ros2s/runtime/reactor.h"

namespace ros2s::object {

// `done`: the result of the first attempt. Leases end within lease_time, so this does too, unless
// others always come first. Errors: those of update(); leased (for `patience`).
inline Task<Result<Commit>> await_leases(ObjectStore& store, Reactor& reactor, const Call& call,
                                         ContainerId container, const Transaction& transaction,
                                         Result<Commit> done) {
    constexpr Duration patience = std::chrono::seconds(20);
    constexpr Duration pause_max = std::chrono::milliseconds(16);
    const Time until = reactor.now() + patience;
    for (Duration pause = std::chrono::microseconds(200);
         !done && done.error().code == Code::leased && reactor.now() < until;
         pause = std::min(2 * pause, pause_max)) {
        (void)co_await sleep_for(reactor, pause, call.stop);
        ROS2S_CO_TRY(call.check(reactor));
        done = co_await store.update(call, container, transaction);
    }
    co_return done;
}

}  // namespace ros2s::object
