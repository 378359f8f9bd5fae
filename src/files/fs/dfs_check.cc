// Finds objects without an inode: a file leaves one behind if it is written to after it was
// punched. Also finds keys in directories that are no entries: a client with rights to the
// container's objects has put them there. They are not listed, and prevent rmdir.
#include "dfs_mount.h"

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

// Fetches only whether the record exists.
FetchItem presence(const Condition& condition) {
    return {.object = condition.object, .dkey = condition.dkey, .akey = condition.akey};
}
bool is_absent(const FetchItem& item) {
    return !item.status && item.status.error().code == Code::not_found;
}

}  // namespace

Task<Result<DfsMount::Inspected>> DfsMount::inspect(const Call& call,
                                                    std::span<const NodeId> nodes) {
    std::vector<InodeRecord> inodes(nodes.size());
    std::vector<FetchItem> items;
    for (size_t i = 0; i < nodes.size(); ++i) {
        items.push_back(record_item(object_of(nodes[i]), record_dkey(), inode_akey(), inodes[i]));
        items.push_back(presence(no_orphan(nodes[i])));
    }
    ROS2S_CO_TRY(co_await store_.fetch(call, container_, items));
    Inspected inspected;
    for (size_t i = 0; i < nodes.size(); ++i) {
        const FetchItem& inode = items[2 * i];
        if (is_absent(inode) && is_absent(items[2 * i + 1])) inspected.leaks.push_back(nodes[i]);
        const auto record = record_of(inode, inodes[i]);
        if (record && S_ISDIR(record->mode)) inspected.directories.push_back(nodes[i]);
    }
    co_return inspected;
}

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
    Listing objects{
        {.what = object::ListRequest::What::objects, .limit = object::fetch_items_max / 2}};
    Leaks leaks;
    ROS2S_CO_TRY_ASSIGN(leaks.keys, co_await check_entries(call, root_node, free));
    while (objects.more) {
        ROS2S_CO_TRY_ASSIGN(const auto entries, co_await next_page(call, objects));
        std::vector<NodeId> nodes;
        for (const object::ListEntry& entry : entries) {
            const ObjectId object = object::parse_object_key(entry.key);
            // The counter and the list of orphans have no inode.
            const bool is_node = object.high == object_class && object.low >= first_free_node;
            if (is_node) nodes.push_back({object.low});
        }
        ROS2S_CO_TRY_ASSIGN(const Inspected inspected, co_await inspect(call, nodes));
        for (const NodeId node : inspected.directories) {
            ROS2S_CO_TRY_ASSIGN(const uint64_t keys, co_await check_entries(call, node, free));
            leaks.keys += keys;
        }
        for (const NodeId node : inspected.leaks) {
            ROS2S_CO_TRY_ASSIGN(const QueryReply contents,
                                co_await query_contents(call, node, S_IFREG));
            ++leaks.objects;
            leaks.bytes += contents.bytes_used;
            if (free) ROS2S_CO_TRY(co_await free_leak(call, node));
        }
    }
    co_return leaks;
}

}  // namespace ros2s::fs
