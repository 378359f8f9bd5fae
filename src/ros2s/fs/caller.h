// Caller: the user for whom a call is made, and the permission bits as Linux evaluates them.
//
// Plain values and functions; any thread. The groups belong to the code that made the Caller, and
// exist for the time of the call.
#pragma once
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <span>
#include <vector>

#include "ros2s/base/result.h"

namespace ros2s::fs {

inline constexpr uint32_t nobody = 65534;
inline constexpr size_t caller_groups_max = 32;

struct Caller {
    uint32_t uid = nobody;
    uint32_t gid = nobody;
    std::span<const uint32_t> groups{};  // others that the user is in
    bool may_make_devices = false;
    bool may_set_ids = false;            // S_ISUID, and S_ISGID of files
    bool may_change_privileged = false;  // attributes trusted.* and security.*, as root
    uint64_t holder = 0;                 // its open files count as the caller's

    [[nodiscard]] bool is_root() const { return uid == 0; }
    [[nodiscard]] bool in_group(uint32_t group) const {
        return group == gid || std::ranges::find(groups, group) != groups.end();
    }
};

// A user as a host names it. What the host may claim is decided elsewhere (rights::UserMapping).
struct UserClaim {
    uint32_t uid = 0;
    uint32_t gid = 0;
    std::vector<uint32_t> groups{};
};

// As in access(2).
struct Wanted {
    static constexpr uint32_t search = 1, write = 2, read = 4;
};

[[nodiscard]] inline bool allows(const Caller& caller, mode_t mode, uint32_t uid, uint32_t gid,
                                 uint32_t wanted) {
    if (caller.is_root()) return true;
    const int shift = caller.uid == uid ? 6 : caller.in_group(gid) ? 3 : 0;
    return (mode >> shift & wanted) == wanted;
}

// EACCES: permission bits forbid it. EPERM: it is for the owner or for root.
[[nodiscard]] inline std::unexpected<Error> fail_access() { return fail_errno(EACCES); }
[[nodiscard]] inline std::unexpected<Error> fail_permission() { return fail_errno(EPERM); }

}  // namespace ros2s::fs
