// check_names(): compares the names of a container's file system with its nodes. Changes nothing.
//
// - Each name leads to a node that exists and has the type of the name.
// - Each node has as many names as it counts links, or an orphan record and none.
// - Each directory has one name, in its parent, and its parents lead to the root.
// - Each object belongs to a node. Node ids are below the counter. Chunks are not larger than the
//   chunk size, targets of symbolic links have their length.
//
// Nobody may change the container meanwhile. It works on the objects of a container, also of an
// encrypted one: names and records are not encrypted.
#pragma once
#include <functional>
#include <string>

#include "ros2s/object/object_store.h"

namespace ros2s::fs {

struct NamesCheckOptions {
    // Nodes that are in memory at once. Of more nodes, names are read once for each such part.
    size_t nodes_at_once = size_t{1} << 20;
    // Receives each problem in a sentence: what, where, what to do.
    std::function<void(std::string)> problem;
    // The nodes that were looked at, may be empty.
    std::function<void(uint64_t nodes)> progress;
};

struct CheckedNames {
    uint64_t directories = 0, files = 0, others = 0;  // nodes with an inode
    uint64_t names = 0;
    uint64_t orphans = 0;          // nodes without a name, to be removed
    uint64_t foreign_objects = 0;  // that belong to no file system
    bool is_encrypted = false;
};

// Errors: not_found (there is no file system; or it is a cache), bad_version (it needs a newer
// program), those of the store, corrupt among them.
[[nodiscard]] Task<Result<CheckedNames>> check_names(const Call& call, object::ObjectStore& store,
                                                     object::ContainerId container,
                                                     const NamesCheckOptions& options);

}  // namespace ros2s::fs
