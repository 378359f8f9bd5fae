// Notifications to the kernel about its caches, for which not every libfuse has a call. Most wait
// for pages that are being read, or for inodes that other requests use, so they are sent on a
// thread that answers no requests.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "ros2s/fs/file_system.h"

namespace ros2s::fuse {

// Makes the kernel drop the pages from `begin` to `end`; those of the whole file if `end` is 0.
void drop_pages(int fuse_descriptor, fs::NodeId node, uint64_t begin = 0,
                uint64_t end = 0) noexcept;
// `expires`: the name is asked again, and stays.
void drop_name(int fuse_descriptor, fs::NodeId directory, const std::string& name,
               bool expires) noexcept;
// Makes the kernel's size of the file at least `offset` + 1. It has a page with this byte then.
void store_byte(int fuse_descriptor, fs::NodeId node, uint64_t offset, std::byte value) noexcept;

}  // namespace ros2s::fuse
