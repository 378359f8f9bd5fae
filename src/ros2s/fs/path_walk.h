// Paths for users of the library. A file system knows only nodes and names, because for FUSE the
// kernel walks paths. Symbolic links are followed inside the file system: an absolute target starts
// at its root, and ".." of the root is the root.
//
// References: the nodes of a result count as looked up (FileSystem::forget); return them with
// forget(). Errors: loop (more than 40 links), not_directory, not_found (a directory of the path),
// name_too_long, and those of the file system.
#pragma once
#include <optional>
#include <string>

#include "ros2s/fs/file_system.h"

namespace ros2s::fs {

// A symbolic link as the last name; `unasked`: the last name is not looked up at all, unless the
// path ends in '/'.
enum class LastLink : uint8_t { follow, keep, unasked };

inline constexpr int links_followed_max = 40;

// The result of a walk. The last name need not exist: then, or if it was not looked up, there are
// no attributes, and (parent, name) is the place to create it.
struct Walked {
    NodeId parent{};
    std::string name;  // empty if the path ends in "/", "." or ".." of a directory
    std::optional<Attributes> attributes;
};
// Relative paths start at the root. A path with a trailing slash names a directory; if something
// else exists there, it is an error.
[[nodiscard]] Task<Result<Walked>> walk(FileSystem& fs, const Call& call, std::string path,
                                        LastLink last = LastLink::follow);
// The same, but the last name must exist.
[[nodiscard]] Task<Result<Attributes>> resolve(FileSystem& fs, const Call& call, std::string path,
                                               LastLink last = LastLink::follow);
// Returns the references that `walk` added.
void forget(FileSystem& fs, const Walked& walked);

}  // namespace ros2s::fs
