// The kernel's requests, one function each, translated to FileSystem calls. The kernel checks
// permissions (default_permissions) and resolves paths. It keeps file locks if all users of the
// file system use this mount. Otherwise the file system has them.
#pragma once
#include "fuse_api.h"
#include "server.h"

namespace ros2s::fuse {

// For fuse_session_new with a Server* as user data. Any field that is null is answered by the
// kernel or by libfuse with ENOSYS, which the kernel keeps.
[[nodiscard]] fuse_lowlevel_ops operations(Sharing sharing) noexcept;

}  // namespace ros2s::fuse
