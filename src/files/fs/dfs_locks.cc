// Advisory locks. The store decides; this mount remembers what it has, to release it with its
// handle and to claim it in a new era. A lock that another mount may have had meanwhile is lost:
// calls through the handles of its owner give `io`.
#include <algorithm>
#include <optional>

#include "dfs_mount.h"
#include "file_use.h"
#include "lock_wait.h"
#include "ros2s/object/locks.h"

namespace ros2s::fs {
namespace {

using object::Lock;
using object::LockMode;
using object::LockRequest;

LockOwner owner_of(const Lock& lock) { return {lock.space, lock.mount, lock.owner}; }

}  // namespace

Task<DfsMount::LockResult> DfsMount::ask_lock(const Call& call, NodeId node, const Lock& lock,
                                              LockRequest::How how) {
    co_return co_await store_.lock(call, container_, holder_,
                                   {.object = object_of(node), .lock = lock, .how = how});
}

Task<DfsMount::LockResult> DfsMount::lock(const Call& call, FileHandle handle, const Lock& lock,
                                          LockHow how) {
    const FileUse file(handles_.find(handle));
    if (!file) co_return fail(Code::stale);
    if (!store_.features().locks) co_return fail(Code::unsupported);
    const auto once = how == LockHow::test ? LockRequest::How::test : LockRequest::How::set;
    co_return co_await wait_for_lock(reactor_, call, how,
                                     [&] { return lock_once(call, *file, lock, once); });
}

Task<DfsMount::LockResult> DfsMount::lock_once(const Call& call, OpenFile& file, const Lock& lock,
                                               LockRequest::How how) {
    NodeState& state = file.node;
    if (state.locks == nullptr) {
        if (lock.mode == LockMode::none) co_return std::nullopt;
        state.locks = std::make_unique<NodeLocks>(reactor_);
    }
    NodeLocks& locks = *state.locks;
    ROS2S_CO_TRY(co_await locks.turn.acquire_for(call));
    std::optional<SemaphoreHold> turn(std::in_place, locks.turn);
    while (state.era != store_.pins_era()) {
        turn.reset();
        ROS2S_CO_TRY(co_await check_held(call, state));
        ROS2S_CO_TRY(co_await locks.turn.acquire_for(call));
        turn.emplace(locks.turn);
    }
    const LockOwner owner = owner_of(lock);
    const bool unlocks = lock.mode == LockMode::none;
    if (unlocks && !locks.by_owner.contains(owner)) {
        // It may have lost what it had.
        if (lock.first == 0 && lock.last == UINT64_MAX) file.has_lost_lock = false;
        co_return std::nullopt;
    }
    if (!unlocks && file.has_lost_lock) co_return fail(Code::io);
    // The store may have been restarted meanwhile, and not know them yet.
    for (const auto& [other, own] : locks.by_owner) {
        if (other == owner) continue;
        for (const Lock& each : own) {
            if (object::exclude_each_other(each, lock)) co_return each;
        }
    }
    auto done = co_await ask_lock(call, state.node, lock, how);
    if (how == LockRequest::How::test) co_return done;
    if (!done) {
        const bool is_known = done.error().code == Code::busy ||
                              done.error().code == Code::no_memory ||
                              done.error().code == Code::invalid;
        if (!is_known) {
            ++state.pins;
            co_await letting_go_.spawn(undo_lock(*this, state, lock));
        }
        co_return done;
    }
    if (done->has_value()) co_return done;
    auto& own = locks.by_owner[owner];
    set_range(own, lock);
    if (own.empty()) locks.by_owner.erase(owner);
    if (!unlocks && std::ranges::find(file.lock_owners, owner) == file.lock_owners.end()) {
        file.lock_owners.push_back(owner);
    }
    co_return done;
}

Task<> DfsMount::undo_lock(DfsMount& self, NodeState& state, Lock lock) {
    const Call call{.deadline = self.unpin_until_};
    {
        NodeLocks& locks = *state.locks;
        co_await locks.turn.acquire();
        const SemaphoreHold turn(locks.turn);
        Lock none = lock;
        none.mode = LockMode::none;
        (void)co_await self.ask_lock(call, state.node, none, LockRequest::How::set);
        const LockOwner owner = owner_of(lock);
        const auto found = locks.by_owner.find(owner);
        const auto had = found == locks.by_owner.end() ? std::vector<Lock>{} : found->second;
        for (const Lock& each : had) {
            const auto again =
                co_await self.ask_lock(call, state.node, each, LockRequest::How::set);
            if (!again || again->has_value()) self.lose_locks(state, owner);
        }
    }
    co_await self.unpin(state);
}

Task<> DfsMount::release_locks(OpenFile& file) {
    for (const LockOwner& owner : file.lock_owners) {
        const Lock all{.space = owner.space,
                       .mode = LockMode::none,
                       .mount = owner.mount,
                       .owner = owner.number};
        (void)co_await lock_once({.deadline = unpin_until_}, file, all, LockRequest::How::set);
    }
}

Task<Result<>> DfsMount::claim_locks(const Call& call, NodeState& state) {
    if (state.locks == nullptr) co_return Result<>{};
    ROS2S_CO_TRY(co_await state.locks->turn.acquire_for(call));
    const SemaphoreHold turn(state.locks->turn);
    const auto all = state.locks->by_owner;
    for (const auto& [owner, locks] : all) {
        for (const Lock& lock : locks) {
            const auto done = co_await ask_lock(call, state.node, lock, LockRequest::How::claim);
            if (!done && done.error().code != Code::stale) co_return fail(done.error());
            if (!done || done->has_value()) lose_locks(state, owner);
        }
    }
    co_return Result<>{};
}

void DfsMount::lose_locks(const NodeState& state, LockOwner owner) {
    state.locks->by_owner.erase(owner);
    for (const FileHandle handle : handles_.all()) {
        OpenFile& file = *handles_.find(handle);
        if (&file.node == &state &&
            std::ranges::find(file.lock_owners, owner) != file.lock_owners.end()) {
            file.has_lost_lock = true;
        }
    }
    options_.log.error(
        "{}: a lock of file {} is lost, because the server was away for too long and another mount "
        "may have had it. Reads and writes of the lock's owner fail with EIO until it unlocks or "
        "closes the file",
        options_.shown, state.node.value);
}

Task<Result<>> DfsMount::check_locks(const Call& call, OpenFile& file) {
    if (file.lock_owners.empty()) co_return Result<>{};
    ROS2S_CO_TRY(co_await check_held(call, file.node));
    if (file.has_lost_lock) co_return fail(Code::io);
    co_return Result<>{};
}

}  // namespace ros2s::fs
