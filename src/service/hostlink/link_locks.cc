// Locks: the server has them. They end with the handles through which they were set, and so with a
// server that was started again: then the calls through such a handle give `io`, until its owner
// unlocks all of the file or the handle is closed.
#include <algorithm>

#include "link_ask.h"
#include "ros2s/fs/lock_wait.h"
#include "ros2s/object/locks.h"
#include "ros2s/object/sharing_rules.h"

namespace ros2s::hostlink {

using object::Lock;
using object::LockMode;

Task<Result<std::optional<Lock>>> LinkClient::lock(const Call& call, fs::FileHandle handle,
                                                   const Lock& lock, fs::LockHow how) {
    ROS2S_CO_TRY_ASSIGN(const Open* const file, opened(handle));
    co_return co_await fs::wait_for_lock(lock_waits_, file->node, reactor_, call, how,
                                         [&](const Call& asking, fs::LockHow once) {
                                             return lock_once(asking, handle, lock, once);
                                         });
}

Task<Result<std::optional<Lock>>> LinkClient::ask_lock(const Call& call, fs::FileHandle handle,
                                                       const Lock& lock, fs::LockHow how) {
    Buffer body;
    ReadAs<std::optional<Lock>> reader;
    const rpc::CallRequest request{.method = static_cast<uint16_t>(Method::lock),
                                   .repeatable = true};
    const auto encode = [&](const ServerHandle& at) {
        return rpc::build(
            body, lock_body_fields,
            LockBody{.mount = at.place.mount, .handle = at.handle, .how = how, .lock = lock});
    };
    ROS2S_CO_TRY(co_await ask(call, handle, request, reader, encode));
    co_return reader.value;
}

Task<Result<std::optional<Lock>>> LinkClient::lock_once(const Call& call, fs::FileHandle handle,
                                                        const Lock& lock, fs::LockHow how) {
    ROS2S_CO_TRY_ASSIGN(const Open* const file, opened(handle));
    const NodeId node = file->node;
    const LockOwner owner{lock.space, lock.owner};
    const bool unlocks = lock.mode == LockMode::none;
    if (unlocks && how == fs::LockHow::test) co_return std::nullopt;
    if (unlocks && lock.first == 0 && lock.last == UINT64_MAX) lost_.erase({node, owner});
    const auto found = locked_.find({node, owner});
    if (unlocks && found == locked_.end()) co_return std::nullopt;
    // A lock that the owner sets meanwhile is not part of the unlock.
    const auto before = unlocks ? found->second : std::vector<Lock>{};
    if (unlocks) set_own(node, lock);
    auto done = co_await ask_lock(call, handle, lock, how);
    if (how == fs::LockHow::test) co_return done;
    if (!done && !opened(handle)) co_return done;
    end_refused_upgrade(node, lock, done);
    if (!done && fs::may_be_done(done.error())) {
        if (object::sharing_rules.restore_unknown) {
            (void)closers_.try_spawn(restore_lock(*this, handle, node, lock));
        }
    } else if (!done) {
        for (const Lock& each : before) set_own(node, each);
    }
    const bool may_end = done && !done->has_value() && lock.mode != LockMode::exclusive;
    if (may_end) lock_waits_.lock_ends(node);
    if (!done || unlocks || done->has_value()) co_return done;
    const auto still = opened(handle);
    if (!still) co_return done;
    set_own(node, lock);
    auto& owners = (*still)->lock_owners;
    if (std::ranges::find(owners, owner) == owners.end()) owners.push_back(owner);
    co_return done;
}

// The server ends the lock that the owner had, too, if it does not grant this one.
void LinkClient::end_refused_upgrade(NodeId node, Lock lock,
                                     const Result<std::optional<Lock>>& done) {
    const auto found = locked_.find({node, LockOwner{lock.space, lock.owner}});
    if (found == locked_.end() || !object::is_upgrade(found->second, lock)) return;
    if (done ? !done->has_value() : !fs::may_be_done(done.error())) return;
    lock.mode = LockMode::none;
    set_own(node, lock);
    lock_waits_.lock_ends(node);
}

// Until the server has what the owner has here, or the file is closed.
Task<> LinkClient::restore_lock(LinkClient& self, fs::FileHandle handle, NodeId node, Lock lock) {
    constexpr Duration pause = std::chrono::milliseconds(100);
    while (self.opened(handle) && !self.is_closing()) {
        const Call call{.deadline = self.reactor_.now() + self.options_.close_within};
        const auto found = self.locked_.find({node, LockOwner{lock.space, lock.owner}});
        const auto own = found == self.locked_.end() ? std::vector<Lock>{} : found->second;
        bool is_done = true;
        for (const Lock& step : object::steps_back(own, lock)) {
            const auto done = co_await self.ask_lock(call, handle, step, fs::LockHow::now);
            is_done = is_done && (done || !fs::may_be_done(done.error()));
        }
        if (is_done) co_return;
        co_await sleep_for(self.reactor_, pause);
    }
}

void LinkClient::set_own(NodeId node, const Lock& lock) {
    const std::pair key{node, LockOwner{lock.space, lock.owner}};
    auto& own = locked_[key];
    object::set_range(own, lock);
    if (own.empty()) locked_.erase(key);
}

bool LinkClient::has_lost_lock(const Open& file) const {
    return !lost_.empty() && std::ranges::any_of(file.lock_owners, [&](const LockOwner& owner) {
        return lost_.contains({file.node, owner});
    });
}

// The handle is closed, or was opened again at another place.
void LinkClient::end_locks(const Open& file, bool are_lost) {
    if (!file.lock_owners.empty()) lock_waits_.lock_ends(file.node);
    for (const LockOwner& owner : file.lock_owners) {
        const bool had = locked_.erase({file.node, owner}) > 0;
        if (had && are_lost && object::sharing_rules.lose_with_server) {
            lost_.insert({file.node, owner});
        }
        if (!are_lost) lost_.erase({file.node, owner});
    }
}

}  // namespace ros2s::hostlink
