// What the kernel asks, one function each, translated to FileSystem calls. The kernel checks
// permissions (default_permissions) and locks (flock and POSIX locks stay in it: no operation for
// them here), and resolves paths.
#pragma once
#include "fuse_api.h"

namespace ros2s::fuse {

// For fuse_session_new with a Server* as user data. Any field that is null is answered by the
// kernel or by libfuse with ENOSYS, which the kernel remembers.
[[nodiscard]] fuse_lowlevel_ops operations() noexcept;

}  // namespace ros2s::fuse
