// The owner of the files that this process creates.
#pragma once
#include <unistd.h>

#include "ros2s/fs/file_system.h"

namespace ros2s::api::c {

[[nodiscard]] inline fs::Owner owner_of_new() { return {.uid = ::geteuid(), .gid = ::getegid()}; }

}  // namespace ros2s::api::c
