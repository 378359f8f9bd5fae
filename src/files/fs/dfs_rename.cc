// Rename. It is one transaction. Moving a directory to another parent also increments a number that
// all such moves of the container share. The walk that proves that no loop arises therefore stays
// valid.
#include <algorithm>

#include "dfs_mount.h"

namespace ros2s::fs {

// A node whose name changes. Its record gets the time and, for a directory, the new parent.
struct DfsMount::Moved {
    NodeId node{};
    NodeId new_parent{};  // of a directory that gets another parent; else 0
    Inode inode;
};

struct DfsMount::Renaming {
    NodeId parent{};
    std::string_view name;
    NodeId new_parent{};
    std::string_view new_name;
    RenameFlags flags;

    Entry from, to;
    Inode from_parent, to_parent;
    InodeAndContents from_node, to_node;  // of names that exist
    bool holds_directory_lock = false;
    std::vector<Moved> moves;
    NodeId whiteout{};     // with that flag: the new node
    NumberRecord renames;  // the new value; used if a directory moves
    Epoch renames_epoch{};

    [[nodiscard]] bool moves_directory() const {
        return std::ranges::any_of(moves,
                                   [](const Moved& move) { return move.new_parent != NodeId{}; });
    }
};

Task<Result<>> DfsMount::check_no_loop(const Call& call, NodeId moved, NodeId new_parent) {
    NodeId at = new_parent;
    // Deeper than any path: only a damaged tree reaches it.
    for (int depth = 0; depth < 100'000; ++depth) {
        if (call.names_walked != nullptr) ++*call.names_walked;
        if (at == moved) co_return fail(Code::loop);
        if (at == root_node) co_return Result<>();
        const auto inode = co_await fetch_inode(call, at);
        if (!inode) {
            co_return inode.error().code == Code::stale ? fail(Code::not_found)
                                                        : fail(inode.error());
        }
        at = NodeId{inode->record.parent};
    }
    co_return fail(Code::corrupt);
}

Task<Result<>> DfsMount::plan_moves(const Call& call, Renaming& renaming) {
    if (renaming.moves_directory()) {
        NumberRecord fetched;
        FetchItem item = record_item(object_of(root_node), record_dkey(), rename_akey(), fetched);
        ROS2S_CO_TRY(co_await store_.fetch(call, container_, {&item, 1}));
        ROS2S_CO_TRY_ASSIGN(renaming.renames, record_of(item, fetched));
        renaming.renames_epoch = item.epoch;
        ++renaming.renames.number;
    }
    for (const Moved& move : renaming.moves) {
        if (move.new_parent == NodeId{}) continue;
        ROS2S_CO_TRY(co_await check_no_loop(call, move.node, move.new_parent));
    }
    co_return Result<>();
}

// Both names, their directories and their nodes, in one request.
Task<Result<>> DfsMount::find_both(const Call& call, Renaming& renaming) {
    ROS2S_CO_TRY(check_name(renaming.name));
    ROS2S_CO_TRY(check_name(renaming.new_name));
    RecordChain chain;
    ChainName names[2];
    ChainWhole nodes[2];
    chain.add({.node = renaming.parent}, renaming.name, names[0]);
    chain.add(names[0].node(), nodes[0]);
    chain.add({.node = renaming.new_parent}, renaming.new_name, names[1]);
    chain.add(names[1].node(), nodes[1]);
    ROS2S_CO_TRY(co_await fetch(call, chain));
    ROS2S_CO_TRY_ASSIGN(const EntryAndNode from, found_in(chain, names[0], nodes[0]));
    ROS2S_CO_TRY_ASSIGN(const EntryAndNode to, found_in(chain, names[1], nodes[1]));
    renaming.from = from.named.entry;
    renaming.from_parent = from.named.parent;
    renaming.to = to.named.entry;
    renaming.to_parent = to.named.parent;
    for (const EntryAndNode* found : {&from, &to}) {
        if (found->node || !found->named.entry.exists()) continue;
        const Error error = found->node.error();
        co_return error.code == Code::stale ? fail(Code::condition_failed) : fail(error);
    }
    if (from.node) renaming.from_node = *from.node;
    if (to.node) renaming.to_node = *to.node;
    co_return Result<>();
}

void DfsMount::add_moves(OperationSlots::HeldSlot& slot, Renaming& renaming) {
    if (renaming.moves_directory()) {
        slot.require({.kind = Condition::Kind::epoch_equals,
                      .object = object_of(root_node),
                      .dkey = record_dkey(),
                      .akey = rename_akey(),
                      .value = renaming.renames_epoch.value});
        slot.add(put(object_of(root_node), record_dkey(), rename_akey(), renaming.renames));
    }
    for (const Moved& move : renaming.moves) {
        slot.require(inode_is(move.node, move.inode.epoch));
        slot.add(put_inode(move.node, move.inode.record));
    }
}

Task<Result<>> DfsMount::rename_exchange(const Call& call, Renaming& renaming) {
    const EntryRecord here = renaming.to.record;
    const EntryRecord there = renaming.from.record;
    co_await slots_.wait();
    auto slot = slots_.take();
    slot.require(entry_is(renaming.parent, renaming.name, renaming.from.epoch));
    slot.require(entry_is(renaming.new_parent, renaming.new_name, renaming.to.epoch));
    add_moves(slot, renaming);
    slot.add(put(object_of(renaming.parent), name_dkey(renaming.name), entry_akey(), here));
    slot.add(
        put(object_of(renaming.new_parent), name_dkey(renaming.new_name), entry_akey(), there));
    const Leased from = lease_of(call, renaming.parent);
    const Leased to = lease_of(call, renaming.new_parent);
    const auto done = co_await commit_named(call, slot);
    note_changed(call, from, done);
    note_changed(call, to, done);
    if (!done) co_return fail(done.error());
    co_return Result<>();
}

Task<Result<>> DfsMount::rename_replace(const Call& call, Renaming& renaming) {
    const Entry& from = renaming.from;
    const Entry& to = renaming.to;
    Removal removal;
    if (to.exists()) {
        if (from.record.is_directory() && !to.record.is_directory()) {
            co_return fail(Code::not_directory);
        }
        if (!from.record.is_directory() && to.record.is_directory()) {
            co_return fail(Code::is_directory);
        }
        removal = plan_removal(renaming.new_parent, to, renaming.to_node);
    }
    const EntryRecord entry = from.record;
    const EntryRecord whiteout = EntryRecord::of(renaming.whiteout, whiteout_mode);
    const InodeRecord whiteout_inode = new_inode(renaming.parent, renaming.from_parent.record,
                                                 whiteout_mode, renaming.flags.owner);
    const Leased old_directory = lease_of(call, renaming.parent);
    const Leased new_directory = lease_of(call, renaming.new_parent);
    Result<Commit> done;
    {
        co_await slots_.wait();
        auto slot = slots_.take();
        slot.require(inode_is(renaming.new_parent, renaming.to_parent.epoch));
        slot.require(entry_is(renaming.parent, renaming.name, from.epoch));
        slot.require(entry_is(renaming.new_parent, renaming.new_name, to.epoch));
        add_moves(slot, renaming);
        if (to.exists()) add_removal(slot, removal);
        if (renaming.flags.whiteout) {
            slot.add(put_inode(renaming.whiteout, whiteout_inode));
            slot.add(
                put(object_of(renaming.parent), name_dkey(renaming.name), entry_akey(), whiteout));
        } else {
            slot.add(punch_entry(renaming.parent, renaming.name));
        }
        slot.add(
            put(object_of(renaming.new_parent), name_dkey(renaming.new_name), entry_akey(), entry));
        done = co_await commit_named(call, slot);
    }
    note_changed(call, old_directory, done);
    note_changed(call, new_directory, done);
    if (done && !done->replayed && to.exists()) co_await finish_removal(call, removal);
    // See unlink.
    if (done ? done->replayed : may_run_on(done.error().code)) sweep_later();
    if (done) co_return Result<>();
    const Error error = done.error();
    if (error.code == Code::condition_failed && to.exists() && to.record.is_directory() &&
        error.detail == removal.no_dkeys_condition) {
        co_return fail(Code::not_empty);
    }
    co_return fail(error);
}

Task<Result<>> DfsMount::rename_once(const Call& call, Renaming& renaming) {
    ROS2S_CO_TRY(co_await find_both(call, renaming));
    renaming.moves.clear();
    const Entry& from = renaming.from;
    const Entry& to = renaming.to;
    if (!from.exists()) co_return fail(Code::not_found);
    if (renaming.flags.no_replace && to.exists()) co_return fail(Code::exists);
    if (renaming.flags.exchange && !to.exists()) co_return fail(Code::not_found);
    // Two names of the same file: POSIX requires that both stay.
    if (to.exists() && from.node() == to.node()) co_return Result<>();
    ROS2S_CO_TRY(check_may_remove(renaming.from_parent.record, renaming.from_node.inode.record));
    ROS2S_CO_TRY(to.exists()
                     ? check_may_remove(renaming.to_parent.record, renaming.to_node.inode.record)
                     : check_may_add(renaming.to_parent.record));

    const auto add_move = [&](const Entry& moved, const InodeAndContents& node, NodeId to_parent) {
        const bool to_another =
            moved.record.is_directory() && renaming.parent != renaming.new_parent;
        Moved& move = renaming.moves.emplace_back(Moved{.node = moved.node(), .inode = node.inode});
        stamp_changed(move.inode.record, node.contents);
        move.inode.record.parent = to_parent.value;
        if (to_another) move.new_parent = to_parent;
    };
    add_move(from, renaming.from_node, renaming.new_parent);
    if (renaming.flags.exchange) add_move(to, renaming.to_node, renaming.parent);
    if (renaming.flags.whiteout && renaming.whiteout == NodeId{}) {
        ROS2S_CO_TRY_ASSIGN(renaming.whiteout, co_await next_node(call));
    }
    if (renaming.moves_directory() && !renaming.holds_directory_lock) {
        co_await directory_renames_.acquire();
        renaming.holds_directory_lock = true;
        co_return fail(Code::condition_failed);  // read everything again, now with the lock
    }
    ROS2S_CO_TRY(co_await plan_moves(call, renaming));
    co_return co_await (renaming.flags.exchange ? rename_exchange(call, renaming)
                                                : rename_replace(call, renaming));
}

Task<Result<>> DfsMount::rename(const Call& call, NodeId parent, std::string_view name,
                                NodeId new_parent, std::string_view new_name, RenameFlags flags) {
    if (flags.exchange && (flags.no_replace || flags.whiteout)) co_return fail(Code::invalid);
    Renaming renaming{.parent = parent,
                      .name = name,
                      .new_parent = new_parent,
                      .new_name = new_name,
                      .flags = flags};
    Result<> done = fail(Code::busy);
    for (int attempt = 0; attempt < attempts_max; ++attempt) {
        done = co_await rename_once(call, renaming);
        if (done || !co_await conflicted(done.error(), attempt)) break;
        done = fail(Code::busy);
    }
    if (renaming.holds_directory_lock) directory_renames_.release();
    co_return co_await unless_removed(call, done);
}

}  // namespace ros2s::fs
