// Finds objects without an inode: a file leaves one behind if it is written to after it was
// punched. Also finds keys in directories that are no entries: a client with rights to the
// container's objects has put them there. They are not listed, and prevent rmdir.
#include "dfs_mount.h"
#include "node_scan.h"

namespace ros2s::fs {
namespace {

// The node has no inode record; no orphan record.
Condition no_inode(NodeId node) {
    return {.kind = Condition::Kind::absent,
            .object = object_of(node),
            .dkey = record_dkey(),
            .akey = inode_akey()};
}
Condition no_orphan(NodeId node) {
    return {.kind = Condition::Kind::absent,
            .object = object_of(orphan_node),
            .dkey = Dkey::integer(node.value),
            .akey = orphan_akey()};
}

}  // namespace

Task<Result<>> DfsMount::free_leak(const Call& call, NodeId node) {
    ROS2S_CO_TRY(co_await punch_chunks(call, node, 0));
    co_await slots_.wait();
    auto slot = slots_.take();
    slot.require(no_inode(node));
    slot.require(no_orphan(node));
    slot.add({.kind = Operation::Kind::punch_object, .object = object_of(node)});
    const auto done = co_await commit(call, slot);
    if (!done) co_return fail(done.error());
    co_return Result<>();
}

Task<Result<bool>> DfsMount::has_keys(const Call& call, NodeId node) {
    Listing keys{{.what = object::ListRequest::What::dkeys, .object = object_of(node), .limit = 1}};
    ROS2S_CO_TRY_ASSIGN(const auto found, co_await next_page(call, keys));
    co_return !found.empty();
}

Task<Result<uint64_t>> DfsMount::check_entries(const Call& call, NodeId directory, bool free) {
    Listing listing{{.what = object::ListRequest::What::dkeys,
                     .object = object_of(directory),
                     .akey = entry_akey(),
                     .limit = object::fetch_items_max}};
    uint64_t found = 0;
    while (listing.more) {
        ROS2S_CO_TRY_ASSIGN(const auto entries, co_await next_page(call, listing));
        for (const object::ListEntry& listed : entries) {
            if (!is_no_entry(listed)) continue;
            ++found;
            if (!free) continue;
            co_await slots_.wait();
            auto slot = slots_.take();
            slot.require(entry_is(directory, listed.key, listed.epoch));
            slot.add(punch_entry(directory, listed.key));
            const auto done = co_await commit(call, slot);
            // Another client may have replaced it meanwhile.
            if (!done && done.error().code != Code::condition_failed) co_return fail(done.error());
        }
    }
    co_return found;
}

Task<Result<Leaks>> DfsMount::check(const Call& call, bool free) {
    NodeScan scan(store_, container_);
    Leaks leaks;
    while (scan.more()) {
        ROS2S_CO_TRY_ASSIGN(const auto nodes, co_await scan.next(call));
        for (const ScannedNode& each : nodes) {
            if (!each.is_directory()) continue;
            ROS2S_CO_TRY_ASSIGN(const uint64_t keys, co_await check_entries(call, each.node, free));
            leaks.keys += keys;
        }
        for (const ScannedNode& each : nodes) {
            if (each.has_inode() || each.has_orphan_record || each.node == root_node) continue;
            // It may have been removed since it was listed.
            ROS2S_CO_TRY_ASSIGN(const bool is_left, co_await has_keys(call, each.node));
            if (!is_left) continue;
            ROS2S_CO_TRY_ASSIGN(const QueryReply contents,
                                co_await query_contents(call, each.node, S_IFREG));
            ++leaks.objects;
            leaks.bytes += contents.bytes_used;
            if (free) ROS2S_CO_TRY(co_await free_leak(call, each.node));
        }
    }
    co_return leaks;
}

}  // namespace ros2s::fs
