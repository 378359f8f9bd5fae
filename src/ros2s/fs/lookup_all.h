// lookup_all: the attributes of the entries of a directory, which callers read with readdir().
#pragma once
#include <span>
#include <vector>

#include "ros2s/fs/file_system.h"
#include "ros2s/runtime/reactor.h"

namespace ros2s::fs {

// Looks the names up, many at a time; results are in the order of the entries. Each node that was
// found counts as looked up. A name that was removed meanwhile is not_found. `entries` outlives the
// task. A large directory is looked up in parts, because each part's references exist together.
Task<std::vector<Result<Attributes>>> lookup_all(Namespace& fs, Reactor& reactor, const Call& call,
                                                 NodeId parent,
                                                 std::span<const DirectoryEntry> entries);

// Entries that callers without a bound of their own look up together.
inline constexpr size_t lookups_together = 1024;

}  // namespace ros2s::fs
