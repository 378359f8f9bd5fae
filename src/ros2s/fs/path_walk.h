// Paths for users of the library: a file system itself knows only nodes and names, because the
// kernel walks for FUSE. Symbolic links are followed inside the file system: an absolute target
// starts at its root, and ".." of the root is the root.
//
// References: the nodes of a result count as looked up (FileSystem::forget); give them back with
// forget(). Errors: loop (more than 40 links), not_directory, not_found (a directory on the way),
// name_too_long, and the file system's own.
#pragma once
#include <optional>
#include <string>

#include "ros2s/fs/file_system.h"

namespace ros2s::fs {

enum class LastLink : uint8_t { follow, keep };

inline constexpr int links_followed_max = 40;

// Where a path leads. The last name need not exist: then there are no attributes, and (parent,
// name) is where it can be made.
struct Walked {
    NodeId parent{};
    std::string name;  // empty where the path ends in "/", "." or ".." of a directory
    std::optional<Attributes> attributes;
};
// Relative paths start at the root. A path with a trailing slash names a directory: what is there
// must be one.
[[nodiscard]] Task<Result<Walked>> walk(FileSystem& fs, const Call& call, std::string path,
                                        LastLink last = LastLink::follow);
// The same, and the last name must exist.
[[nodiscard]] Task<Result<Attributes>> resolve(FileSystem& fs, const Call& call, std::string path,
                                               LastLink last = LastLink::follow);
// Drops the references that `walk` gave.
void forget(FileSystem& fs, const Walked& walked);

}  // namespace ros2s::fs
