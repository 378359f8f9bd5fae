#include "kernel_notices.h"

#include <linux/fuse.h>
#include <sys/uio.h>

#include <tuple>

namespace ros2s::fuse {
namespace {

// It fails if the kernel does not have the file or the name, or the file system is being unmounted.
template <class Body>
void notify(int fuse_descriptor, int code, Body body, const void* more = nullptr,
            size_t more_bytes = 0) noexcept {
    fuse_out_header header{.len = static_cast<uint32_t>(sizeof header + sizeof body + more_bytes),
                           .error = code,
                           .unique = 0};
    const iovec parts[] = {
        {&header, sizeof header}, {&body, sizeof body}, {const_cast<void*>(more), more_bytes}};
    std::ignore = ::writev(fuse_descriptor, parts, more_bytes == 0 ? 2 : 3);
}

}  // namespace

void drop_pages(int fuse_descriptor, fs::NodeId node, uint64_t begin, uint64_t end) noexcept {
    const uint64_t length = end == 0 ? 0 : end - begin;
    notify(fuse_descriptor, FUSE_NOTIFY_INVAL_INODE,
           fuse_notify_inval_inode_out{.ino = node.value,
                                       .off = static_cast<int64_t>(begin),
                                       .len = static_cast<int64_t>(length)});
}

void drop_name(int fuse_descriptor, fs::NodeId directory, const std::string& name,
               bool expires) noexcept {
    notify(fuse_descriptor, FUSE_NOTIFY_INVAL_ENTRY,
           fuse_notify_inval_entry_out{.parent = directory.value,
                                       .namelen = static_cast<uint32_t>(name.size()),
                                       .flags = expires ? FUSE_EXPIRE_ONLY : 0U},
           name.c_str(), name.size() + 1);
}

void store_byte(int fuse_descriptor, fs::NodeId node, uint64_t offset, std::byte value) noexcept {
    notify(fuse_descriptor, FUSE_NOTIFY_STORE,
           fuse_notify_store_out{.nodeid = node.value, .offset = offset, .size = 1, .padding = 0},
           &value, sizeof value);
}

}  // namespace ros2s::fuse
