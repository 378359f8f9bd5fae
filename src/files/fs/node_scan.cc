#include "node_scan.h"

namespace ros2s::fs {

Task<Result<std::vector<ScannedNode>>> NodeScan::next(const Call& call) {
    ROS2S_CO_TRY_ASSIGN(const auto objects, co_await next_page(call, store_, container_, objects_));
    std::vector<ScannedNode> nodes;
    for (const object::ListEntry& entry : objects) {
        const ObjectId object = object::parse_object_key(entry.key);
        if (object.high != object_class) ++foreign_objects_;
        // The counter and the list of orphans have no inode.
        const bool is_node = object.high == object_class &&
                             (object.low == root_node.value || object.low >= first_free_node);
        if (is_node) nodes.push_back({.node = {object.low}});
    }
    if (nodes.empty()) co_return nodes;
    std::vector<InodeRecord> inodes(nodes.size());
    std::vector<FetchItem> items;
    for (size_t i = 0; i < nodes.size(); ++i) {
        const NodeId node = nodes[i].node;
        items.push_back(record_item(object_of(node), record_dkey(), inode_akey(), inodes[i]));
        // Fetches only whether the record exists.
        items.push_back({.object = object_of(orphan_node),
                         .dkey = Dkey::integer(node.value),
                         .akey = orphan_akey()});
    }
    ROS2S_CO_TRY(co_await store_.fetch(call, container_, items));
    for (size_t i = 0; i < nodes.size(); ++i) {
        nodes[i].inode = record_of(items[2 * i], inodes[i]);
        const Result<>& orphan = items[2 * i + 1].status;
        nodes[i].has_orphan_record = orphan || orphan.error().code != Code::not_found;
    }
    co_return nodes;
}

}  // namespace ros2s::fs
