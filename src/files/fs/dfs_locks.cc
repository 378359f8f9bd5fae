// Advisory locks. The store decides; this mount remembers what it has, to release it with its
// handle and to claim it in a new era. A lock that another mount may have had meanwhile is lost:
// calls through the handles of its owner give `io`.
#include <algorithm>
#include <cerrno>
#include <optional>

#include "dfs_mount.h"
#include "file_use.h"
#include "lock_wait.h"
#include "ros2s/object/locks.h"
#include "ros2s/object/sharing_rules.h"

namespace ros2s::fs {
namespace {

using object::Lock;
using object::LockMode;
using object::LockRequest;

LockOwner owner_of(const Lock& lock) { return {lock.space, lock.mount, lock.owner}; }

bool is_whole(const Lock& lock) { return lock.first == 0 && lock.last == UINT64_MAX; }

Lock unlocked_by(const LockOwner& owner) {
    return {
        .space = owner.space, .mode = LockMode::none, .mount = owner.mount, .owner = owner.number};
}

// An owner whose last lock ends is not kept.
void set_own(NodeLocks& locks, const Lock& lock) {
    auto& own = locks.by_owner[owner_of(lock)];
    object::set_range(own, lock);
    if (own.empty()) locks.by_owner.erase(owner_of(lock));
}

// A call that locks.
class Asking {
  public:
    Asking(NodeLocks& locks, const LockOwner& owner, bool locks_something) : locks_(locks) {
        if (locks_something) entry_ = locks.asking.insert(owner);
    }
    Asking& operator=(Asking&&) = delete;
    ~Asking() {
        if (entry_) locks_.asking.erase(*entry_);
    }

  private:
    NodeLocks& locks_;
    std::optional<std::multiset<LockOwner>::iterator> entry_;
};

// The first lock of another owner in the way.
std::optional<Lock> conflict(const NodeLocks& locks, const Lock& lock) {
    std::optional<Lock> first;
    for (const auto& [owner, own] : locks.by_owner) {
        if (owner == owner_of(lock)) continue;
        for (const Lock& each : own) {
            const bool is_earlier = !first || each.first < first->first;
            if (is_earlier && object::exclude_each_other(each, lock)) first = each;
        }
    }
    return first;
}

// As fcntl(2). The kernel of a mount asks itself, the library and the host link do not.
Result<> check_mode(const OpenFlags& flags, const Lock& lock) {
    if (lock.space != object::LockSpace::range) return {};
    const bool may = lock.mode == LockMode::exclusive ? flags.write : flags.read;
    return may ? Result<>() : fail(Error{.code = Code::denied, .os_errno = EBADF});
}

// Clients choose the numbers of owners.
void note_owner(OpenFile& file, const NodeLocks& locks, LockOwner owner) {
    auto& owners = file.lock_owners;
    if (std::ranges::find(owners, owner) != owners.end()) return;
    if (owners.size() > 16 + 2 * (locks.by_owner.size() + locks.lost.size())) {
        std::erase_if(owners, [&](const LockOwner& each) {
            return !locks.by_owner.contains(each) && !locks.lost.contains(each);
        });
    }
    owners.push_back(owner);
}

}  // namespace

Task<DfsMount::LockResult> DfsMount::ask_lock(const Call& call, NodeId node, const Lock& lock,
                                              LockRequest::How how, bool waits) {
    co_return co_await store_.lock(
        call, container_, holder_,
        {.object = object_of(node), .lock = lock, .how = how, .waits = waits});
}

Task<DfsMount::LockResult> DfsMount::lock(const Call& call, FileHandle handle, const Lock& lock,
                                          LockHow how) {
    if (!store_.features().locks) co_return fail(Code::unsupported);
    if (!waits(how)) co_return co_await lock_once(call, handle, lock, how);
    const OpenFile* const file = handles_.find(handle);
    if (file == nullptr) co_return fail(Code::stale);
    co_return co_await wait_for_lock(
        lock_waits_, file->node.node, reactor_, call, how,
        [&](const Call& asking, LockHow once) { return lock_once(asking, handle, lock, once); });
}

Task<DfsMount::LockResult> DfsMount::lock_once(const Call& call, FileHandle handle,
                                               const Lock& lock, LockHow how) {
    const FileUse file(handles_.find(handle));
    if (!file) co_return fail(Code::stale);
    co_return co_await lock_file(call, *file, lock, how);
}

Task<DfsMount::LockResult> DfsMount::lock_file(const Call& call, OpenFile& file, const Lock& lock,
                                               LockHow how) {
    NodeState& state = file.node;
    const LockOwner owner = owner_of(lock);
    const bool unlocks = lock.mode == LockMode::none;
    if (unlocks && how == LockHow::test) co_return std::nullopt;
    if (!unlocks && how != LockHow::test) ROS2S_CO_TRY(check_mode(file.flags, lock));
    if (state.locks == nullptr) {
        if (unlocks) co_return std::nullopt;
        state.locks = std::make_unique<NodeLocks>(reactor_);
    }
    NodeLocks& locks = *state.locks;
    if (unlocks && is_whole(lock)) locks.lost.erase(owner);
    const auto has_nothing = [&] {
        const auto is_own = [&](const Lock& each) { return owner_of(each) == owner; };
        return unlocks && !locks.by_owner.contains(owner) && !locks.asking.contains(owner) &&
               std::ranges::none_of(locks.uncertain, is_own);
    };
    // Each close of a file comes here. It must not wait for the requests of others.
    if (has_nothing()) co_return std::nullopt;
    const Asking asking(locks, owner, !unlocks && how != LockHow::test);
    if (unlocks) ++locks.unlocks;
    const uint64_t unlocks_before = locks.unlocks;
    if (!unlocks && locks.lost.contains(owner)) co_return fail(Code::io);
    ROS2S_CO_TRY(co_await locks.turn.acquire_for(call));
    std::optional<SemaphoreHold> turn(std::in_place, locks.turn);
    while (state.era != store_.pins_era()) {
        turn.reset();
        ROS2S_CO_TRY(co_await check_held(call, state));
        ROS2S_CO_TRY(co_await locks.turn.acquire_for(call));
        turn.emplace(locks.turn);
        // It must not lock after an unlock that came later.
        if (!unlocks && locks.unlocks != unlocks_before) co_return fail(Code::busy);
    }
    if (has_nothing()) co_return std::nullopt;
    // A lock may end before what is unknown is restored. The store may await others until then.
    const auto restored = co_await restore_locks(call, state);
    if (!restored && !unlocks) co_return fail(restored.error());
    // The store may have been restarted meanwhile, and not know them yet.
    auto other = conflict(locks, lock);
    const bool waits = how == LockHow::now_waiting;
    if (how == LockHow::test || (other && waits)) {
        auto found = co_await ask_lock(call, state.node, lock, LockRequest::How::test, waits);
        const bool is_own_first = found && other && (!*found || other->first <= (*found)->first);
        co_return is_own_first ? other : found;
    }
    const auto own = locks.by_owner.find(owner);
    const bool upgrades = own != locks.by_owner.end() && is_upgrade(own->second, lock);
    if (other && upgrades) ROS2S_CO_TRY(co_await set_lock(call, state, unlocked_by(owner)));
    if (other) co_return other;
    auto done = co_await set_lock(call, state, lock, waits);
    if (done && !done->has_value() && !unlocks) note_owner(file, locks, owner);
    if (upgrades && (done ? done->has_value() : may_be_done(done.error()))) {
        set_own(locks, unlocked_by(owner));
        lock_waits_.lock_ends(state.node);
    }
    co_return done;
}

// Its `turn` is taken. What the store may have done is found out later.
Task<DfsMount::LockResult> DfsMount::set_lock(const Call& call, NodeState& state, const Lock& lock,
                                              bool waits) {
    NodeLocks& locks = *state.locks;
    auto done = co_await ask_lock(call, state.node, lock, LockRequest::How::set, waits);
    const bool is_unknown = !done && may_be_done(done.error());
    if (is_unknown) {
        locks.uncertain.push_back(lock);
        restore_later(state);
    }
    const bool is_done = done && !done->has_value();
    if (is_done || (is_unknown && lock.mode == LockMode::none)) set_own(locks, lock);
    if (is_done && lock.mode != LockMode::exclusive) lock_waits_.lock_ends(state.node);
    co_return done;
}

// What the store may have done becomes what this mount has.
Task<Result<>> DfsMount::restore_locks(const Call& call, NodeState& state) {
    NodeLocks& locks = *state.locks;
    while (!locks.uncertain.empty()) {
        const Lock unknown = locks.uncertain.back();
        const auto found = locks.by_owner.find(owner_of(unknown));
        const auto own = found == locks.by_owner.end() ? std::vector<Lock>{} : found->second;
        for (const Lock& step : object::steps_back(own, unknown)) {
            const auto done = co_await ask_lock(call, state.node, step, LockRequest::How::set);
            if (!done && (may_be_done(done.error()) || done.error().code == Code::busy)) {
                co_return fail(done.error());
            }
            const bool is_refused = !done || done->has_value();
            if (is_refused && step.mode != LockMode::none) {
                ROS2S_CO_TRY(co_await lose_locks(call, state, owner_of(unknown)));
                break;
            }
        }
        locks.uncertain.pop_back();
    }
    co_return Result<>{};
}

// Without room for it, the next lock of the node restores.
void DfsMount::restore_later(NodeState& state) {
    if (!object::sharing_rules.restore_unknown) return state.locks->uncertain.clear();
    if (std::exchange(state.locks->restores, true)) return;
    ++state.pins;
    if (unpinning_.try_spawn(restore_in_time(*this, state))) return;
    --state.pins;
    state.locks->restores = false;
}

Task<> DfsMount::restore_in_time(DfsMount& self, NodeState& state) {
    constexpr Duration pause = std::chrono::milliseconds(100);
    NodeLocks& locks = *state.locks;
    while (self.reactor_.now() < self.unpin_until_) {
        const Call call{.deadline = self.unpin_until_};
        auto done = co_await self.check_held(call, state);
        if (done) done = co_await locks.turn.acquire_for(call);
        if (done) {
            const SemaphoreHold turn(locks.turn);
            if (state.era == self.store_.pins_era()) {
                if (co_await self.restore_locks(call, state)) break;
            }
        } else if (!may_be_done(done.error()) && done.error().code != Code::busy) {
            break;  // the node is gone
        }
        co_await sleep_for(self.reactor_, pause);
    }
    locks.restores = false;
    co_await self.unpin(state);
}

Task<> DfsMount::release_locks(OpenFile& file) {
    const auto owners = file.lock_owners;
    if (!object::sharing_rules.end_with_handle) co_return;
    for (const LockOwner& owner : owners) {
        const Lock none = unlocked_by(owner);
        const Call call{.deadline = unpin_until_};
        if (co_await lock_file(call, file, none, LockHow::now)) continue;
        // The handle ends all the same. The store hears of it later.
        NodeLocks& locks = *file.node.locks;
        co_await locks.turn.acquire();
        const SemaphoreHold turn(locks.turn);
        if (!locks.by_owner.contains(owner)) continue;
        set_own(locks, none);
        locks.uncertain.push_back(none);
        restore_later(file.node);
    }
}

Task<Result<>> DfsMount::claim_locks(const Call& call, NodeState& state) {
    if (state.locks == nullptr) co_return Result<>{};
    NodeLocks& locks = *state.locks;
    ROS2S_CO_TRY(co_await locks.turn.acquire_for(call));
    const SemaphoreHold turn(locks.turn);
    const auto all = locks.by_owner;
    for (const auto& [owner, own] : all) {
        for (const Lock& lock : own) {
            const auto done = co_await ask_lock(call, state.node, lock, LockRequest::How::claim);
            if (!done && may_be_done(done.error())) co_return fail(done.error());
            if (done && !done->has_value()) continue;
            ROS2S_CO_TRY(co_await lose_locks(call, state, owner));
            break;
        }
    }
    co_return Result<>{};
}

// The owner has none of its locks any more.
Task<Result<>> DfsMount::lose_locks(const Call& call, NodeState& state, LockOwner owner) {
    const auto done =
        co_await ask_lock(call, state.node, unlocked_by(owner), LockRequest::How::set);
    if (!done && may_be_done(done.error())) co_return fail(done.error());
    NodeLocks& locks = *state.locks;
    locks.by_owner.erase(owner);
    if (locks.lost.empty()) {
        options_.log.error(
            "{}: a lock of file {} is lost, because the server was away for too long and another "
            "mount may have had it. Reads and writes of the lock's owner fail with EIO until it "
            "unlocks or closes the file",
            options_.shown, state.node.value);
    }
    locks.lost.insert(owner);
    ++locks.losses;
    co_return Result<>{};
}

bool DfsMount::has_lost_lock(const OpenFile& file) {
    const NodeLocks* const locks = file.node.locks.get();
    return locks != nullptr && !locks->lost.empty() && object::sharing_rules.fence_lost &&
           std::ranges::any_of(file.lock_owners,
                               [&](const LockOwner& owner) { return locks->lost.contains(owner); });
}

Task<Result<>> DfsMount::check_locks(const Call& call, const OpenFile& file) {
    ROS2S_CO_TRY(co_await check_held(call, file.node));
    if (has_lost_lock(file)) co_return fail(Code::io);
    co_return Result<>{};
}

}  // namespace ros2s::fs
