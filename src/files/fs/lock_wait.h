// Waiting for a lock. No server keeps a waiting request: a caller that waits asks again after a
// while, as clients of NFS do. So it holds nothing there, and can be stopped at any time. A lock
// that ends in the same client is not waited for longer.
#pragma once
#include <algorithm>
#include <cerrno>
#include <functional>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "ros2s/fs/file_system.h"
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
//
// It finds deadlocks of processes as Linux does: a process waits for the owner of one lock in the
// way, and so on, for some steps. A cycle is complete when a call begins to wait, or waits for
// another owner than before. Then it is looked for. All processes of a cycle wait, in one of their
// threads, for locks that their owners have now.
class LockWaits {
  public:
    // A lock of another owner of this client in the way.
    using InTheWay = std::function<std::optional<object::Lock>(NodeId, const object::Lock&)>;
    LockWaits(Reactor& reactor, InTheWay in_the_way)
        : reactor_(reactor), in_the_way_(std::move(in_the_way)) {}

  private:
    using Owner = std::pair<uint64_t, uint64_t>;  // its mount and number
    using Processes = std::multimap<Owner, std::pair<NodeId, object::Lock>>;
    static Owner owner_of(const object::Lock& lock) { return {lock.mount, lock.owner}; }

  public:
    // A call that waits for a lock of the node.
    class Wait {
      public:
        Wait(LockWaits& waits, NodeId node, const object::Lock& lock, LockHow how)
            : waits_(waits),
              lock_(lock),
              entry_(waits.waits_.try_emplace({node, ++waits.last_}).first) {
            if (how == LockHow::wait_or_deadlock) process_ = waits.add_process(node, lock_);
        }
        ~Wait() {
            waits_.waits_.erase(entry_);
            if (process_) waits_.processes_.erase(*process_);
        }
        Wait& operator=(Wait&&) = delete;
        // Whether the process waits for itself.
        [[nodiscard]] bool is_deadlock() {
            if (!process_) return false;
            const auto other = waits_.in_the_way_(entry_->first.first, lock_);
            const auto before = waits_for_;
            waits_for_.reset();
            if (other) waits_for_ = owner_of(*other);
            return other && waits_for_ != before && waits_.leads_to(*other, owner_of(lock_));
        }
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
        const object::Lock lock_;
        std::map<std::pair<NodeId, uint64_t>, StopSource*>::iterator entry_;
        std::optional<Processes::iterator> process_;
        std::optional<Owner> waits_for_;
    };
    void lock_ends(NodeId node) {
        for (auto each = waits_.lower_bound({node, 0});
             each != waits_.end() && each->first.first == node; ++each) {
            if (each->second != nullptr) each->second->request_stop();
        }
    }

  private:
    static constexpr int steps_max = 16;
    Processes::iterator add_process(NodeId node, const object::Lock& lock) {
        return processes_.emplace(owner_of(lock), std::pair(node, lock));
    }
    // The owner of `other` waits for `owner`, or for one that does.
    [[nodiscard]] bool leads_to(object::Lock other, const Owner& owner) const {
        for (int step = 0; step < steps_max; ++step) {
            const auto wait = processes_.find(owner_of(other));
            if (wait == processes_.end()) return false;
            const auto next = in_the_way_(wait->second.first, wait->second.second);
            if (!next) return false;
            if (owner_of(*next) == owner) return true;
            other = *next;
        }
        return false;
    }

    Reactor& reactor_;
    const InTheWay in_the_way_;
    uint64_t last_ = 0;
    std::map<std::pair<NodeId, uint64_t>, StopSource*> waits_;  // null: it asks
    Processes processes_;                                       // that wait
};

// For a mount's process: `once` sets or tests the lock, and returns a lock in the way. Its error
// `busy` means that the store has just been opened and awaits other mounts. `pause` is false if the
// call was stopped.
template <class Once, class Pause>
Task<Result<std::optional<object::Lock>>> wait_for_lock(Reactor& reactor, const Call& call,
                                                        LockHow how, Once once, Pause pause) {
    constexpr Duration longest = std::chrono::milliseconds(64);
    for (Duration time = std::chrono::milliseconds(1);; time = std::min(2 * time, longest)) {
        const auto done = co_await once();
        const bool again = done ? done->has_value() && waits(how) : done.error().code == Code::busy;
        if (!again) co_return done;
        if (!co_await pause(time)) co_return fail(Code::cancelled);
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
// For a file system, which sees the locks of all its callers end.
template <class Once>
Task<Result<std::optional<object::Lock>>> wait_for_lock(LockWaits& waits, NodeId node,
                                                        Reactor& reactor, const Call& call,
                                                        const object::Lock& lock, LockHow how,
                                                        Once once) {
    std::optional<LockWaits::Wait> wait;
    // It is awaited here only, where all that it captures is.
    // NOLINTNEXTLINE(cppcoreguidelines-avoid-capturing-lambda-coroutines)
    const auto ask = [&]() -> Task<Result<std::optional<object::Lock>>> {
        auto done = co_await once();
        if (!done || !*done || !fs::waits(how)) co_return done;
        if (!wait) wait.emplace(waits, node, lock, how);
        if (wait->is_deadlock()) co_return fail_errno(EDEADLK);
        co_return done;
    };
    co_return co_await wait_for_lock(reactor, call, how, ask, [&](Duration time) {
        if (!wait) wait.emplace(waits, node, lock, how);
        return wait->pause(time, call.stop);
    });
}

}  // namespace ros2s::fs
