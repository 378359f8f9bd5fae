// For users of Namespace::walk(): paths whose last name must exist, and the references of a result.
#pragma once
#include "ros2s/fs/file_system.h"

namespace ros2s::fs {

// The node that the path leads to; its reference is the caller's. Errors: those of walk();
// not_found also if only the last name is missing.
[[nodiscard]] Task<Result<Attributes>> resolve(Namespace& fs, const Call& call,
                                               std::string_view path,
                                               LastLink last = LastLink::follow);
// Returns the references that walk() added.
void forget(Namespace& fs, const Walked& walked);

}  // namespace ros2s::fs
