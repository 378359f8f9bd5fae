// Attributes: stat, chmod, chown, utimens, truncate.
#include "dfs_mount.h"

namespace ros2s::fs {

Task<Result<DfsMount::Inode>> DfsMount::fetch_inode(const Call& call, NodeId node) {
    InodeRecord fetched;
    FetchItem item = record_item(object_of(node), record_dkey(), inode_akey(), fetched);
    ROS2S_CO_TRY(co_await store_.fetch(call, container_, {&item, 1}));
    const auto record = record_of(item, fetched);
    if (!record) {
        co_return record.error().code == Code::not_found ? fail(Code::stale) : fail(record.error());
    }
    co_return Inode{.record = *record, .epoch = item.epoch};
}

Result<DfsMount::InodeAndContents> DfsMount::whole_of(const RecordChain& chain,
                                                      const ChainWhole& node) {
    const FetchItem& item = chain.item(node.at);
    const auto record = record_of(item, node.inode);
    if (!record) {
        return record.error().code == Code::not_found ? fail(Code::stale) : fail(record.error());
    }
    ROS2S_TRY_ASSIGN(QueryReply contents, chain.contents_of(node, record->mode));
    return InodeAndContents{.inode = {.record = *record, .epoch = item.epoch},
                            .contents = std::move(contents)};
}

Task<Result<DfsMount::InodeAndContents>> DfsMount::fetch_whole(const Call& call, NodeId node) {
    RecordChain chain;
    ChainWhole whole;
    chain.add({.node = node}, whole);
    ROS2S_CO_TRY(co_await fetch(call, chain));
    co_return whole_of(chain, whole);
}

Task<Result<DfsMount::InodeAndContents>> DfsMount::fetch_known(const Call& call, NodeId node) {
    auto whole = co_await fetch_whole(call, node);
    const NodeState* state = nodes_.find(node);
    if (state == nullptr || state->directory == nullptr) co_return whole;
    if (whole) {
        *state->directory = whole->inode.record;
    } else if (whole.error().code == Code::stale) {
        state->directory->links = 0;
        co_return InodeAndContents{.inode = {.record = *state->directory}, .contents = {}};
    }
    co_return whole;
}

Task<Result<QueryReply>> DfsMount::query_contents(const Call& call, NodeId node, mode_t mode) {
    if (!S_ISREG(mode) && !S_ISDIR(mode)) co_return QueryReply{};
    const Akey akey = S_ISDIR(mode) ? entry_akey() : data_akey();
    co_return co_await store_.query(call, container_, object_of(node), akey);
}

void DfsMount::stamp_changed(InodeRecord& record, const QueryReply& contents) const {
    record.changed_ns = now_ns();
    record.changed_epoch = contents.last_epoch.value;
}

Task<Result<Attributes>> DfsMount::get_attributes(const Call& call, NodeId node) {
    ROS2S_CO_TRY_ASSIGN(const InodeAndContents whole, co_await fetch_known(call, node));
    co_return attributes_of(node, whole.inode.record, whole.contents, chunk_bytes_);
}

Task<Result<Attributes>> DfsMount::set_attributes(const Call& call, NodeId node,
                                                  const SetAttributes& changes) {
    if (changes.flags && (*changes.flags & ~node_flags::all) != 0) co_return fail(Code::invalid);
    // The size first: times that are set in the same call must be later than the contents' last
    // update.
    if (changes.size) {
        ROS2S_CO_TRY(co_await set_size(call, node, *changes.size, 0));
        const auto which = changes.keeps_set_ids ? std::optional(SetIds::none) : std::nullopt;
        ROS2S_CO_TRY(co_await clear_set_ids_of(call, node, which));
    }
    const bool others = changes.mode || changes.uid || changes.gid || changes.accessed ||
                        changes.modified || changes.flags || changes.clears_set_ids;
    std::optional<Attributes> after;
    if (others) {
        ROS2S_CO_TRY_ASSIGN(after, co_await change_inode(call, node, changes, 1));
    }
    if (after) co_return *after;
    co_return co_await get_attributes(call, node);
}

Task<Result<std::optional<Attributes>>> DfsMount::change_inode(const Call& call, NodeId node,
                                                               const SetAttributes& changes,
                                                               uint32_t part) {
    for (int attempt = 0; attempt < attempts_max; ++attempt) {
        ROS2S_CO_TRY_ASSIGN(InodeAndContents whole, co_await fetch_known(call, node));
        InodeRecord& record = whole.inode.record;
        const QueryReply& contents = whole.contents;
        const bool is_owners = changes.mode || changes.uid || changes.gid;
        const bool is_times = changes.accessed || changes.modified || changes.clears_set_ids;
        const uint32_t forbidden = is_owners  ? node_flags::all
                                   : is_times ? node_flags::immutable
                                              : 0;
        if (const auto may = check_flags(record, forbidden); !may) {
            ROS2S_CO_TRY_ASSIGN(const auto before, co_await done_before(call, part));
            if (!before) co_return fail(may.error());
            co_return std::nullopt;
        }
        // As in Linux: a new owner must not inherit the old owner's set-id program.
        if (changes.uid || changes.gid || changes.clears_set_ids) {
            record.mode &= ~set_ids_of(record.mode, cleared_by_owner(call.caller, record.gid));
        }
        const bool drops_capabilities = (changes.uid || changes.gid || changes.clears_set_ids) &&
                                        (record.flags & node_flags::has_capabilities) != 0;
        if (drops_capabilities) record.flags &= ~node_flags::has_capabilities;
        record.uid = changes.uid.value_or(record.uid);
        record.gid = changes.gid.value_or(record.gid);
        std::string acl;
        if (changes.mode) {
            record.mode = (record.mode & S_IFMT) | (*changes.mode & permission_bits);
            const bool has_acl = (record.flags & node_flags::has_access_acl) != 0;
            if (has_acl && whole.inode.epoch != Epoch{}) {
                auto list = co_await fetch_acl(call, node, access_acl_name);
                if (!list && list.error().code == Code::no_attribute) continue;  // just removed
                if (!list) co_return fail(list.error());
                list->change_mode(record.mode);
                acl = list->encode();
            }
        }
        if (changes.flags) {
            record.flags = (record.flags & ~node_flags::all) | (*changes.flags & node_flags::all);
        }
        if (changes.accessed) record.accessed_ns = to_ns(*changes.accessed);
        if (changes.modified) {
            record.modified_ns = to_ns(*changes.modified);
            record.modified_epoch = contents.last_epoch.value;
        }
        stamp_changed(record, contents);
        if (whole.inode.epoch == Epoch{}) {  // a directory that is gone, and open in this mount
            NodeState* const state = nodes_.find(node);
            if (state == nullptr || state->directory == nullptr) co_return fail(Code::stale);
            *state->directory = record;
            co_return std::nullopt;
        }

        co_await slots_.wait();
        auto slot = slots_.take();
        slot.require(inode_is(node, whole.inode.epoch));
        slot.add(put_inode(node, record));
        if (!acl.empty()) slot.add(put_acl(node, access_acl_name, acl));
        if (drops_capabilities) slot.add(punch_xattr(node, capabilities_name));
        FoundSuperblock superblock;
        if (changes.flags && *changes.flags != 0) {
            ROS2S_CO_TRY(
                co_await require_feature(call, slot, Superblock::has_node_flags, superblock));
        }
        const auto done = co_await commit_named(call, slot, part);
        if (done) {
            NodeState* state = nodes_.find(node);
            // Of a repetition it is not known which mode it left.
            const mode_t any = S_IFREG | S_ISUID | S_ISGID;
            if (state != nullptr) state->set_id_mode = done->replayed ? any : record.mode;
            if (done->replayed) co_return std::nullopt;
            if (state != nullptr) state->flags = record.flags;
            co_return attributes_of(node, record, contents, chunk_bytes_);
        }
        if (!co_await conflicted(done.error(), attempt)) co_return fail(done.error());
    }
    co_return fail(Code::busy);
}

Task<Result<>> DfsMount::require_feature(const Call& call, OperationSlots::HeldSlot& slot,
                                         uint32_t feature, FoundSuperblock& superblock) {
    ROS2S_CO_TRY_ASSIGN(superblock, co_await find_superblock(call, store_, container_));
    if ((superblock.record.features_needed & feature) != 0) co_return Result<>();
    superblock.record.features_needed |= feature;
    slot.require(superblock.unchanged());
    slot.add(superblock.put());
    co_return Result<>();
}

// One transaction, whatever the file's size. Only if more chunks are removed than one transaction
// punches, the file shrinks in steps, from its end.
Task<Result<>> DfsMount::set_size(const Call& call, NodeId node, uint64_t size, uint32_t part) {
    if (size > file_bytes_max) co_return fail(Code::too_large, file_bytes_max);
    // Before chunks are removed: other mounts may have written since the first execution.
    ROS2S_CO_TRY_ASSIGN(const auto before, co_await done_before(call, part));
    if (before) co_return Result<>();
    ROS2S_CO_TRY_ASSIGN(const Inode inode, co_await fetch_inode(call, node));
    if (S_ISDIR(inode.record.mode)) co_return fail(Code::is_directory);
    if (!S_ISREG(inode.record.mode)) co_return fail(Code::invalid);
    ROS2S_CO_TRY(check_flags(inode.record, node_flags::all));
    const uint64_t last_chunk = size == 0 ? 0 : (size - 1) / chunk_bytes_;
    ROS2S_CO_TRY(co_await punch_chunks(call, node, last_chunk + 1));

    co_await slots_.wait();
    auto slot = slots_.take();
    slot.require(node_exists(node));
    slot.add({.kind = Operation::Kind::set_size,
              .object = object_of(node),
              .dkey = chunk_dkey(last_chunk),
              .akey = data_akey(),
              .size = size - last_chunk * chunk_bytes_});
    slot.add({.kind = Operation::Kind::punch_dkeys,
              .object = object_of(node),
              .dkey = chunk_dkey(last_chunk + 1),
              .dkey_end = chunks_end()});
    const auto done = co_await commit_named(call, slot, part);
    if (done) co_return Result<>();
    co_return done.error().code == Code::condition_failed ? fail(Code::stale) : fail(done.error());
}

Task<Result<>> DfsMount::clear_set_ids_of(const Call& call, NodeId node,
                                          std::optional<SetIds> which) {
    const NodeState* known = nodes_.find(node);
    if (known != nullptr && !known->may_have(which.value_or(SetIds::all))) co_return Result<>();
    NodeState& state = co_await pin(node);
    const auto cleared = co_await clear_set_ids(call, state, which);
    co_await unpin(state);
    co_return cleared;
}

Task<Result<>> DfsMount::clear_set_ids(const Call& call, NodeState& state,
                                       std::optional<SetIds> which) {
    for (int attempt = 0; attempt < attempts_max; ++attempt) {
        ROS2S_CO_TRY_ASSIGN(Inode inode, co_await fetch_inode(call, state.node));
        const mode_t before = inode.record.mode;
        inode.record.mode &=
            ~set_ids_of(before, which.value_or(cleared_by_writer(call.caller, inode.record.gid)));
        state.set_id_mode = inode.record.mode;
        const bool has_capabilities = (inode.record.flags & node_flags::has_capabilities) != 0;
        inode.record.flags &= ~node_flags::has_capabilities;
        if (inode.record.mode == before && !has_capabilities) co_return Result<>();
        co_await slots_.wait();
        auto slot = slots_.take();
        slot.require(inode_is(state.node, inode.epoch));
        slot.add(put_inode(state.node, inode.record));
        if (has_capabilities) slot.add(punch_xattr(state.node, capabilities_name));
        const auto done = co_await commit(call, slot);
        if (done) {
            state.flags = inode.record.flags;
            metrics_.set_ids_cleared.add();
            co_return Result<>();
        }
        state.set_id_mode = before;
        if (!co_await conflicted(done.error(), attempt)) co_return fail(done.error());
    }
    co_return fail(Code::busy);
}

}  // namespace ros2s::fs
