// Waiting for a lock. No server keeps a waiting request: a caller that waits asks again after a
// while, as clients of NFS do. So it holds nothing there, and can be stopped at any time.
#pragma once
#include <algorithm>
#include <optional>

#include "ros2s/fs/file_system.h"
#include "ros2s/runtime/reactor.h"

namespace ros2s::fs {

// After this error of a lock's request the server may have done it.
[[nodiscard]] inline bool may_be_done(const Error& error) {
    switch (error.code) {
        case Code::disconnected:
        case Code::closed:
        case Code::cancelled:
        case Code::deadline: return true;
        default: return false;
    }
}

// For a mount's process: `once` sets or tests the lock, and returns a lock in the way. Its error
// `busy` means that the store has just been opened and awaits other mounts.
template <class Once>
Task<Result<std::optional<object::Lock>>> wait_for_lock(Reactor& reactor, const Call& call,
                                                        LockHow how, Once once) {
    constexpr Duration longest = std::chrono::milliseconds(64);
    for (Duration pause = std::chrono::milliseconds(1);; pause = std::min(2 * pause, longest)) {
        const auto done = co_await once();
        const bool waits =
            done ? done->has_value() && how == LockHow::wait : done.error().code == Code::busy;
        if (!waits) co_return done;
        if (!co_await sleep_for(reactor, pause, call.stop)) co_return fail(Code::cancelled);
        ROS2S_CO_TRY(call.check(reactor));
    }
}

}  // namespace ros2s::fs
