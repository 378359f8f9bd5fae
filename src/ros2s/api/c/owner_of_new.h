// Whose the files are that this process makes.
#pragma once
#include <unistd.h>

#include "ros2s/fs/file_system.h"

namespace ros2s::api::c {

[[nodiscard]] inline fs::Owner owner_of_new() { return {.uid = ::geteuid(), .gid = ::getegid()}; }

}  // namespace ros2s::api::c
