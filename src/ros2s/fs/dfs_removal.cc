// The removal of names: unlink, rmdir.
//
// If a file that is not open loses its last name, the same transaction punches it. If it is open,
// here or in another mount, or too large for one transaction, it becomes an orphan: it is recorded
// under orphan_node, and punched when it is no longer open (dfs_pins.cc).
#include "dfs_mount.h"

namespace ros2s::fs {

Task<> DfsMount::plan_removal(NodeId parent, const Entry& entry, const Whole& node,
                              Removal& removal) {
    if (entry.record.is_directory()) co_return;
    NodeState& state = co_await pin(entry.node());
    const auto& [inode, contents] = node;
    removal.inode = inode;
    removal.state = &state;
    removal.left = inode.record;
    if (removal.left.links > 0) --removal.left.links;
    stamp_changed(removal.left, contents);
    removal.last_name = removal.left.links == 0;
    if (!removal.last_name) {
        // Its other names may be in other directories, which are unknown here.
        if (removal.left.parent == parent.value) removal.left.parent = 0;
        co_return;
    }
    const bool large = contents.exists && S_ISREG(inode.record.mode) &&
                       contents.highest_dkey.number() >= punch_chunks_max_;
    removal.becomes_orphan = large || state.pins > 1 || removal.open_elsewhere || spares_all();
    removal.orphan.node = entry.record.node;
    // From here on no call starts to use the node. A call that wants to waits, and then finds it
    // gone.
    if (!removal.becomes_orphan) state.removing = true;
}

void DfsMount::add_removal(OperationSlots::Lease& lease, const Entry& entry, Removal& removal) {
    const NodeId node = entry.node();
    if (entry.record.is_directory()) {
        removal.no_dkeys_condition = lease.transaction().conditions.size();
        lease.require(
            {.kind = Condition::Kind::no_dkeys, .object = object_of(node), .akey = entry_akey()});
    } else {
        lease.require(inode_is(node, removal.inode.epoch));
        if (!removal.last_name) {
            lease.add(put_inode(node, removal.left));
            return;
        }
        if (removal.becomes_orphan) {
            lease.add(put_inode(node, removal.left));
            lease.add(put(object_of(orphan_node), Dkey::integer(node.value), orphan_akey(),
                          removal.orphan));
            return;
        }
        removal.unpinned_condition = lease.transaction().conditions.size();
        lease.require(unpinned(node));
    }
    lease.add({.kind = Operation::Kind::punch_object, .object = object_of(node)});
}

Task<> DfsMount::finish_removal(Removal& removal, bool committed) {
    if (removal.state == nullptr) co_return;
    NodeState& state = *removal.state;
    if (removal.last_name && removal.becomes_orphan) {
        state.orphaned = state.orphaned || committed;
    } else if (removal.last_name) {
        state.removing = false;
        state.removal_ended.wake_all();
    }
    (void)co_await unpin(state);
}

Task<Result<>> DfsMount::remove_name(const Call& call, NodeId parent, std::string_view name,
                                     bool directory) {
    bool open_elsewhere = false;
    for (int attempt = 0; attempt < attempts_max; ++attempt) {
        ROS2S_CO_TRY_ASSIGN(const Found found, co_await find_node(call, parent, name));
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
        Removal removal{.open_elsewhere = open_elsewhere};
        co_await plan_removal(parent, entry, *found.node, removal);
        Result<Commit> done;
        {
            co_await slots_.wait();
            auto lease = slots_.take();
            lease.require(entry_is(parent, name, entry.epoch));
            add_removal(lease, entry, removal);
            lease.add(punch_entry(parent, name));
            done = co_await commit_named(call, lease);
        }
        co_await finish_removal(removal, done && !done->replayed);
        // It was done before. Only the store has the record of whether it left an orphan.
        if (done && done->replayed) sweep_later();
        if (done) co_return Result<>();
        const Error error = done.error();
        if (directory && error.code == Code::condition_failed &&
            error.detail == removal.no_dkeys_condition) {
            co_return fail(Code::not_empty);
        }
        open_elsewhere = open_elsewhere || removal.was_open_elsewhere(error);
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
        auto lease = slots_.take();
        lease.add({.kind = Operation::Kind::punch_dkeys,
                   .object = object_of(node),
                   .dkey = chunk_dkey(end - punch_chunks_max_),
                   .dkey_end = chunks_end()});
        const auto done = co_await commit(call, lease);
        if (!done) co_return fail(done.error());
    }
}

}  // namespace ros2s::fs
