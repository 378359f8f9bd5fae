// Waiting for a lock. No server keeps a waiting request: a caller that waits asks again after a
// while, as clients of NFS do. So it holds nothing there, and can be stopped at any time. A lock
// that ends in the same client is not waited for longer.
#pragma once
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "ros2s/fs/file_system.h"
#include "ros2s/object/locks.h"
#include "ros2s/runtime/backoff.h"
#include "ros2s/runtime/reactor.h"
#include "ros2s/runtime/stop.h"

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

// The calls of one client that wait, in order of arrival. Used on its core.
class LockWaits {
  public:
    explicit LockWaits(Reactor& reactor) : reactor_(reactor) {}

    // A call that waits for a lock of the node.
    class Wait {
      public:
        Wait(LockWaits& waits, NodeId node)
            : waits_(waits), entry_(waits.waits_.try_emplace({node, ++waits.last_}).first) {}
        ~Wait() { waits_.waits_.erase(entry_); }
        Wait& operator=(Wait&&) = delete;
        // Returns after `pause`, or when a lock of the node ends. False: stopped.
        Task<bool> pause(Duration pause, StopToken stop) {
            StopSource ended;
            entry_->second = &ended;
            {
                const ForwardedStop stopped(stop, ended);
                std::ignore = co_await sleep_for(waits_.reactor_, pause, ended.token());
            }
            entry_->second = nullptr;
            co_return !stop.stop_requested();
        }

      private:
        LockWaits& waits_;
        std::map<std::pair<NodeId, uint64_t>, StopSource*>::iterator entry_;
    };
    void lock_ends(NodeId node) {
        for (auto each = waits_.lower_bound({node, 0});
             each != waits_.end() && each->first.first == node; ++each) {
            if (each->second != nullptr) each->second->request_stop();
        }
    }

  private:
    Reactor& reactor_;
    uint64_t last_ = 0;
    std::map<std::pair<NodeId, uint64_t>, StopSource*> waits_;  // null: it asks
};

// For a mount's process: `once` sets or tests the lock, and returns a lock in the way. Its error
// `busy` means that the store has just been opened and awaits other mounts. `pause` is false if the
// call was stopped.
template <class Once, class Pause>
Task<Result<std::optional<object::Lock>>> wait_for_lock(Reactor& reactor, const Call& call,
                                                        LockHow how, Once once, Pause pause) {
    Backoff pauses{.first = std::chrono::milliseconds(1), .longest = std::chrono::milliseconds(64)};
    for (;;) {
        const auto done = co_await once();
        const bool again = done ? done->has_value() && waits(how) : done.error().code == Code::busy;
        if (!again) co_return done;
        if (!co_await pause(pauses.next())) co_return fail(Code::cancelled);
        ROS2S_CO_TRY(call.check(reactor));
    }
}
template <class Once>
Task<Result<std::optional<object::Lock>>> wait_for_lock(Reactor& reactor, const Call& call,
                                                        LockHow how, Once once) {
    co_return co_await wait_for_lock(reactor, call, how, std::move(once), [&](Duration time) {
        return sleep_for(reactor, time, call.stop);
    });
}
// For a file system, which sees the locks of all its callers end. `ask(call, how)` asks once. The
// store finds deadlocks, also those over several clients, so it is told when a process waits no
// longer: a call that was stopped returns after that.
template <class Ask>
Task<Result<std::optional<object::Lock>>> wait_for_lock(LockWaits& waits, NodeId node,
                                                        Reactor& reactor, const Call& call,
                                                        LockHow how, Ask ask) {
    const LockHow once = how == LockHow::wait_or_deadlock ? LockHow::now_waiting
                         : fs::waits(how)                 ? LockHow::now
                                                          : how;
    std::optional<LockWaits::Wait> wait;
    const auto done = co_await wait_for_lock(
        reactor, call, how, [&] { return ask(call, once); },
        [&](Duration time) {
            if (!wait) wait.emplace(waits, node);
            return wait->pause(time, call.stop);
        });
    if (once == LockHow::now_waiting && !done && may_be_done(done.error())) {
        const Call telling{.deadline = reactor.now() + object::lock_waits_for};
        std::ignore = co_await ask(telling, LockHow::test);
    }
    co_return done;
}

}  // namespace ros2s::fs
