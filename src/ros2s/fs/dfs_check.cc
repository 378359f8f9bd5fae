// Finds objects without an inode: a file leaves one behind if it is written to after it was
// punched.
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

Task<Result<std::vector<NodeId>>> DfsMount::without_records(const Call& call,
                                                            std::span<const NodeId> nodes) {
    std::vector<FetchItem> items;
    for (const NodeId node : nodes) {
        items.push_back(presence(no_inode(node)));
        items.push_back(presence(no_orphan(node)));
    }
    ROS2S_CO_TRY(co_await store_.fetch(call, container_, items));
    std::vector<NodeId> leaks;
    for (size_t i = 0; i < nodes.size(); ++i) {
        if (is_absent(items[2 * i]) && is_absent(items[2 * i + 1])) leaks.push_back(nodes[i]);
    }
    co_return leaks;
}

Task<Result<>> DfsMount::free_leak(const Call& call, NodeId node) {
    ROS2S_CO_TRY(co_await punch_chunks(call, node, 0));
    co_await slots_.wait();
    auto lease = slots_.take();
    lease.require(no_inode(node));
    lease.require(no_orphan(node));
    lease.add({.kind = Operation::Kind::punch_object, .object = object_of(node)});
    const auto done = co_await commit(call, lease);
    if (!done) co_return fail(done.error());
    co_return Result<>();
}

Task<Result<Leaks>> DfsMount::check(const Call& call, bool free) {
    object::ListRequest request{.what = object::ListRequest::What::objects,
                                .limit = object::fetch_items_max / 2};
    Leaks leaks;
    for (bool more = true; more;) {
        ROS2S_CO_TRY_ASSIGN(const object::ListReply reply,
                            co_await store_.list(call, container_, request));
        std::vector<NodeId> nodes;
        for (const object::ListEntry& entry : reply.entries) {
            request.after = entry.key;
            const ObjectId object = object::parse_object_key(entry.key);
            // The counter and the list of orphans have no inode.
            const bool is_node = object.high == object_class && object.low >= first_free_node;
            if (is_node) nodes.push_back({object.low});
        }
        ROS2S_CO_TRY_ASSIGN(const auto found, co_await without_records(call, nodes));
        for (const NodeId node : found) {
            ROS2S_CO_TRY_ASSIGN(const QueryReply contents,
                                co_await query_contents(call, node, S_IFREG));
            ++leaks.objects;
            leaks.bytes += contents.bytes_used;
            if (free) ROS2S_CO_TRY(co_await free_leak(call, node));
        }
        more = reply.more;
    }
    co_return leaks;
}

}  // namespace ros2s::fs
