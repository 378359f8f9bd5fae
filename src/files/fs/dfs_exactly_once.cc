// Calls that a host may repeat after it lost its DPU. Call::update names such a call. The
// transaction that decides it carries the name, so the store keeps the reply with the change. All
// other transactions of a mount have names of the mount.
#include "dfs_mount.h"

namespace ros2s::fs {

Task<Result<Commit>> DfsMount::commit_named(const Call& call, OperationSlots::HeldSlot& slot,
                                            uint32_t part) {
    if (call.update != nullptr) {
        // The high bits of the slot are free for the part.
        const UpdateName& name = *call.update;
        constexpr uint32_t parts_max = UINT32_MAX / UpdateName::slots_max;
        if (part >= parts_max) co_return fail(Code::too_large, parts_max);
        // The digest is the call's own, because a transaction that is planned again may differ.
        slot.name({.client = name.client,
                   .slot = name.slot + part * UpdateName::slots_max,
                   .sequence = name.sequence,
                   .owner = name.owner,
                   .digest = Digest().add(name.digest).value()},
                  !call.repeated);
    }
    co_return co_await commit(call, slot);
}

Task<Result<std::optional<Commit>>> DfsMount::done_before(const Call& call, uint32_t part) {
    if (!call.repeated) co_return std::nullopt;
    co_await slots_.wait();
    auto slot = slots_.take();
    // Never true: the transaction succeeds only if the store has a reply for the name.
    slot.require({.kind = Condition::Kind::absent,
                  .object = object_of(root_node),
                  .dkey = record_dkey(),
                  .akey = superblock_akey()});
    const auto done = co_await commit_named(call, slot, part);
    if (done) co_return *done;
    if (done.error().code == Code::condition_failed) co_return std::nullopt;
    co_return fail(done.error());
}

Task<Result<bool>> DfsMount::was_done(const Call& call) {
    ROS2S_CO_TRY_ASSIGN(const auto before, co_await done_before(call));
    if (before) sweep_later();  // it may have left an orphan
    co_return before.has_value();
}

Task<Result<>> DfsMount::unless_done(const Call& call, Result<> outcome) {
    if (outcome) co_return outcome;
    ROS2S_CO_TRY_ASSIGN(const auto before, co_await done_before(call));
    co_return before ? Result<>() : outcome;
}

// Only the store knows whether the first execution left an orphan.
Task<Result<>> DfsMount::unless_removed(const Call& call, Result<> outcome) {
    const auto removed = co_await unless_done(call, outcome);
    if (removed && !outcome) sweep_later();
    co_return removed;
}

}  // namespace ros2s::fs
