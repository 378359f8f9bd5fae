#include "records.h"

namespace ros2s::fs {

Attributes attributes_of(NodeId node, const InodeRecord& inode, const object::QueryReply& contents,
                         uint64_t chunk_bytes) {
    const auto time = [&](int64_t ns, uint64_t epoch) {
        return contents.last_epoch.value > epoch ? contents.last_time : from_ns(ns);
    };
    Attributes attributes{.node = node,
                          .mode = inode.mode,
                          .links = inode.links,
                          .uid = inode.uid,
                          .gid = inode.gid,
                          .device = inode.device,
                          .accessed = from_ns(inode.accessed_ns),
                          .modified = time(inode.modified_ns, inode.modified_epoch),
                          .changed = time(inode.changed_ns, inode.changed_epoch),
                          .created = from_ns(inode.created_ns),
                          .flags = inode.flags & (node_flags::all | node_flags::told)};
    if (S_ISREG(inode.mode)) {
        attributes.size = file_size(contents, chunk_bytes);
        attributes.bytes_used = contents.bytes_used;
    } else if (S_ISLNK(inode.mode)) {
        attributes.size = inode.target_bytes;
    }
    return attributes;
}

}  // namespace ros2s::fs
