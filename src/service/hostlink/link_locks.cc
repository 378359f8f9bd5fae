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

namespace {

// `busy`: the store has just been opened, and awaits others.
bool may_pass_later(const Error& error) {
    return fs::may_be_done(error) || error.code == Code::busy;
}
// The owner has no lock of the file.
Lock nothing_of(Lock lock) {
    lock.mode = LockMode::none;
    lock.first = 0;
    lock.last = UINT64_MAX;
    return lock;
}

}  // namespace

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

// While it exists, the node's entry stays. Without uses it stays while something is uncertain.
class LinkClient::NodeLocksUse {
  public:
    NodeLocksUse(LinkClient& client, NodeId node)
        : client_(client), entry_(client.node_locks_.try_emplace(node, client.reactor_).first) {
        ++locks().uses;
    }
    NodeLocksUse& operator=(NodeLocksUse&&) = delete;
    ~NodeLocksUse() {
        --locks().uses;
        if (locks().uses == 0 && locks().uncertain.empty()) client_.node_locks_.erase(entry_);
    }
    [[nodiscard]] NodeLocks& locks() const { return entry_->second; }

  private:
    LinkClient& client_;
    std::map<NodeId, NodeLocks>::iterator entry_;
};

Task<Result<std::optional<Lock>>> LinkClient::lock_once(const Call& call, fs::FileHandle handle,
                                                        const Lock& lock, fs::LockHow how) {
    ROS2S_CO_TRY_ASSIGN(const Open* const file, opened(handle));
    const NodeId node = file->node;
    const LockOwner owner{lock.space, lock.owner};
    const bool unlocks = lock.mode == LockMode::none;
    if (unlocks && how == fs::LockHow::test) co_return std::nullopt;
    if (unlocks && lock.first == 0 && lock.last == UINT64_MAX) lost_.erase({node, owner});
    const auto has_nothing = [&] {
        return unlocks && !locked_.contains({node, owner}) && !is_uncertain(node, owner);
    };
    if (has_nothing()) co_return std::nullopt;
    const NodeLocksUse use(*this, node);
    NodeLocks& locks = use.locks();
    if (const auto acquired = co_await locks.turn.acquire_for(call); !acquired) {
        // The owner goes on without the lock.
        if (unlocks && opened(handle)) {
            ++locks.unlocks;
            set_own(node, lock);
            set_uncertain(locks, handle, node, lock);
        }
        co_return fail(acquired.error());
    }
    const SemaphoreHold turn(locks.turn);
    if (const auto restored = co_await restore_locks(call, node, locks); !restored && !unlocks) {
        co_return fail(restored.error());
    }
    ROS2S_CO_TRY(opened(handle));
    if (has_nothing()) co_return std::nullopt;
    // A lock that the owner sets meanwhile is not part of the unlock.
    const auto before = unlocks ? locked_[{node, owner}] : std::vector<Lock>{};
    if (unlocks) set_own(node, lock);
    const uint64_t unlocked = locks.unlocks;
    auto done = co_await ask_lock(call, handle, lock, how);
    if (how == fs::LockHow::test) co_return done;
    if (!done && !opened(handle)) co_return done;
    end_refused_upgrade(node, lock, done);
    if (!done && fs::may_be_done(done.error())) {
        set_uncertain(locks, handle, node, lock);
    } else if (!done) {
        for (const Lock& each : before) set_own(node, each);
    }
    const bool may_end = done && !done->has_value() && lock.mode != LockMode::exclusive;
    if (may_end) lock_waits_.lock_ends(node);
    if (!done || unlocks || done->has_value()) co_return done;
    const auto still = opened(handle);
    if (!still) co_return done;
    if (locks.unlocks != unlocked) {
        set_uncertain(locks, handle, node, lock);
        co_return done;
    }
    set_own(node, lock);
    note_owner(**still, owner);
    co_return done;
}

// Programs choose the numbers of owners.
void LinkClient::note_owner(Open& file, LockOwner owner) const {
    auto& owners = file.lock_owners;
    if (std::ranges::find(owners, owner) != owners.end()) return;
    if (owners.size() > 16 + 2 * (locked_.size() + lost_.size())) {
        std::erase_if(owners, [&](const LockOwner& each) {
            const std::pair key{file.node, each};
            return !locked_.contains(key) && !lost_.contains(key);
        });
    }
    owners.push_back(owner);
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

bool LinkClient::is_uncertain(NodeId node, LockOwner owner) const {
    const auto found = node_locks_.find(node);
    return found != node_locks_.end() &&
           std::ranges::any_of(found->second.uncertain, [&](const auto& each) {
               return LockOwner{each.second.space, each.second.owner} == owner;
           });
}

// Without room for the restoration, the next lock of the node does it.
void LinkClient::set_uncertain(NodeLocks& locks, fs::FileHandle handle, NodeId node,
                               const Lock& lock) {
    if (!object::sharing_rules.restore_unknown) return;
    locks.uncertain.emplace_back(handle, lock);
    if (std::exchange(locks.restores, true)) return;
    if (!closers_.try_spawn(restore_in_time(*this, node))) locks.restores = false;
}

// With the turn: what the server has becomes what the owners have here.
Task<Result<>> LinkClient::restore_locks(const Call& call, NodeId node, NodeLocks& locks) {
    while (!locks.uncertain.empty()) {
        const auto unknown = locks.uncertain.back();
        locks.uncertain.pop_back();
        const auto& [handle, lock] = unknown;
        const std::pair key{node, LockOwner{lock.space, lock.owner}};
        const auto found = locked_.find(key);
        const auto own = found == locked_.end() ? std::vector<Lock>{} : found->second;
        for (const Lock& step : object::steps_back(own, lock)) {
            if (!opened(handle)) break;
            auto done = co_await ask_lock(call, handle, step, fs::LockHow::now);
            const bool is_refused = done ? done->has_value() : !may_pass_later(done.error());
            const bool is_lost = is_refused && step.mode != LockMode::none;
            if (is_lost) done = co_await ask_lock(call, handle, nothing_of(lock), fs::LockHow::now);
            if (!done && may_pass_later(done.error())) {
                locks.uncertain.push_back(unknown);
                co_return fail(done.error());
            }
            if (!is_lost) continue;
            locked_.erase(key);
            lost_.insert(key);
            break;
        }
    }
    co_return Result<>{};
}

Task<> LinkClient::restore_in_time(LinkClient& self, NodeId node) {
    constexpr Duration pause = std::chrono::milliseconds(100);
    const NodeLocksUse use(self, node);
    NodeLocks& locks = use.locks();
    while (!self.is_closing()) {
        const Call call{.deadline = self.reactor_.now() + self.options_.close_within};
        if (co_await locks.turn.acquire_for(call)) {
            const SemaphoreHold turn(locks.turn);
            if (co_await self.restore_locks(call, node, locks)) break;
        }
        co_await sleep_for(self.reactor_, pause);
    }
    locks.restores = false;
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
void LinkClient::end_locks(fs::FileHandle handle, const Open& file, bool are_lost) {
    if (const auto found = node_locks_.find(file.node); found != node_locks_.end()) {
        std::erase_if(found->second.uncertain,
                      [&](const auto& each) { return each.first == handle; });
        if (found->second.uses == 0 && found->second.uncertain.empty()) node_locks_.erase(found);
    }
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
