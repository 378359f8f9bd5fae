// The removal of names: unlink, rmdir.
//
// A node that loses its last name becomes an orphan: the same transaction records it under
// orphan_node. It stays usable for a while, and is then punched (dfs_orphans.cc).
#include "dfs_mount.h"

namespace ros2s::fs {

DfsMount::Removal DfsMount::plan_removal(NodeId parent, const Entry& entry,
                                         const InodeAndContents& node) const {
    const auto& [inode, contents] = node;
    Removal removal{.node = entry.node(), .inode = inode, .left = inode.record};
    InodeRecord& left = removal.left;
    left.links = S_ISDIR(left.mode) || left.links == 0 ? 0 : left.links - 1;
    stamp_changed(left, contents);
    removal.last_name = left.links == 0;
    removal.bytes = contents.bytes_used;
    // Its other names may be in other directories, which are unknown here.
    if (!removal.last_name && left.parent == parent.value) left.parent = 0;
    return removal;
}

void DfsMount::add_removal(OperationSlots::HeldSlot& slot, Removal& removal) {
    const NodeId node = removal.node;
    slot.require(inode_is(node, removal.inode.epoch));
    if (S_ISDIR(removal.inode.record.mode)) {
        removal.no_dkeys_condition = slot.transaction().conditions.size();
        slot.require(
            {.kind = Condition::Kind::no_dkeys, .object = object_of(node), .akey = entry_akey()});
    }
    slot.add(put_inode(node, removal.left));
    if (!removal.last_name) return;
    slot.add(put(object_of(orphan_node), Dkey::integer(node.value), orphan_akey(), removal.orphan));
}

Task<> DfsMount::finish_removal(const Call& call, const Removal& removal) {
    if (!removal.last_name) co_return;
    add_orphan({.node = removal.node, .bytes = removal.bytes}, spared_until(removal.left));
    // A caller that removes faster than the reaper helps it.
    constexpr Duration together = std::chrono::milliseconds(100);
    if (orphans_.size() > orphans_max && !spares_all()) {
        (void)co_await reap_until(call, orphans_.begin()->first + together);
    }
}

Task<Result<>> DfsMount::remove_name(const Call& call, NodeId parent, std::string_view name,
                                     bool directory) {
    for (int attempt = 0; attempt < attempts_max; ++attempt) {
        ROS2S_CO_TRY_ASSIGN(const EntryAndNode found, co_await find_node(call, parent, name));
        const Entry& entry = found.named.entry;
        if (!entry.exists()) co_return fail(Code::not_found);
        if (entry.record.is_directory() != directory) {
            co_return fail(directory ? Code::not_directory : Code::is_directory);
        }
        if (!found.node) {
            if (found.node.error().code != Code::stale) co_return fail(found.node.error());
            co_await yield(reactor_);
            continue;
        }
        ROS2S_CO_TRY(check_may_remove(found.named.parent.record, found.node->inode.record));
        Removal removal = plan_removal(parent, entry, *found.node);
        const Leased held = lease_of(call, parent);
        Result<Commit> done;
        {
            co_await slots_.wait();
            auto slot = slots_.take();
            slot.require(entry_is(parent, name, entry.epoch));
            add_removal(slot, removal);
            slot.add(punch_entry(parent, name));
            done = co_await commit_named(call, slot);
        }
        note_changed(call, held, done);
        if (done && !done->replayed) co_await finish_removal(call, removal);
        // If it was done, only the store has the record of whether it left an orphan.
        if (done ? done->replayed : may_run_on(done.error().code)) sweep_later();
        if (done) co_return Result<>();
        const Error error = done.error();
        if (directory && error.code == Code::condition_failed &&
            error.detail == removal.no_dkeys_condition) {
            co_return fail(Code::not_empty);
        }
        if (!co_await conflicted(error, attempt)) co_return fail(error);
    }
    co_return fail(Code::busy);
}

Task<Result<>> DfsMount::unlink(const Call& call, NodeId parent, std::string_view name) {
    const auto removed = co_await remove_name(call, parent, name, false);
    co_return co_await unless_removed(call, removed);
}

Task<Result<>> DfsMount::rmdir(const Call& call, NodeId parent, std::string_view name) {
    const auto removed = co_await remove_name(call, parent, name, true);
    co_return co_await unless_removed(call, removed);
}

Task<Result<>> DfsMount::punch_chunks(const Call& call, NodeId node, uint64_t first) {
    for (;;) {
        ROS2S_CO_TRY_ASSIGN(const QueryReply contents,
                            co_await query_contents(call, node, S_IFREG));
        const uint64_t end = contents.exists ? contents.highest_dkey.number() + 1 : 0;
        if (end <= first || end - first <= punch_chunks_max_) co_return Result<>();
        co_await slots_.wait();
        auto slot = slots_.take();
        slot.add(punch_chunks_from(node, end - punch_chunks_max_));
        const auto done = co_await commit(call, slot);
        if (!done) co_return fail(done.error());
    }
}

}  // namespace ros2s::fs
