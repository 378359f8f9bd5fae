// The results of system calls: errno as an Error, descriptors that are closed.
#pragma once
#include <cerrno>
#include <string>

#include "ros2s/base/descriptor.h"
#include "ros2s/base/result.h"

namespace ros2s::foreign {

// For calls that return -1 and errno.
[[nodiscard]] inline Result<> checked(long result) {
    if (result < 0) return fail_errno(errno);
    return {};
}
[[nodiscard]] inline Result<Descriptor> opened(int fd) {
    if (fd < 0) return fail_errno(errno);
    return Descriptor(fd);
}
// The path of an O_PATH descriptor's file, for calls that take no such descriptor. Never use it for
// a symbolic link: these calls would follow it.
[[nodiscard]] inline std::string proc_path(int fd) { return "/proc/self/fd/" + std::to_string(fd); }

}  // namespace ros2s::foreign
