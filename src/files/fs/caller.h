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

// A user as a host names it. rights::UserMapping decides which users a host may claim.
struct UserClaim {
    uint32_t uid = 0;
    uint32_t gid = 0;
    std::vector<uint32_t> groups{};
};

// Of a mode: who may read, write and execute.
inline constexpr mode_t access_bits = S_IRWXU | S_IRWXG | S_IRWXO;

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

// The set-id bits that a change clears, as in Linux: S_ISUID, and S_ISGID if it has an effect (the
// group may execute the file) or if the user is not in the group.
enum class SetIds : uint8_t { none, effective, all };

[[nodiscard]] inline mode_t set_ids_of(mode_t mode, SetIds which) {
    if (S_ISDIR(mode) || which == SetIds::none) return 0;
    const bool takes_both = which == SetIds::all || (mode & S_IXGRP) != 0;
    return mode & (takes_both ? mode_t{S_ISUID | S_ISGID} : mode_t{S_ISUID});
}
// Cleared by a writer of a file of this group who has not the right to keep them.
[[nodiscard]] inline SetIds cleared_by_writer(const Caller* caller, uint32_t gid) {
    const bool is_member = caller != nullptr && !caller->is_root() && caller->in_group(gid);
    return is_member ? SetIds::effective : SetIds::all;
}
// Cleared when the owner or group is set, also by root.
[[nodiscard]] inline SetIds cleared_by_owner(const Caller* caller, uint32_t gid) {
    const bool is_privileged = caller == nullptr || caller->is_root();
    return is_privileged ? SetIds::effective : cleared_by_writer(caller, gid);
}

// EACCES: permission bits forbid it. EPERM: it is for the owner or for root.
[[nodiscard]] inline std::unexpected<Error> fail_access() { return fail_errno(EACCES); }
[[nodiscard]] inline std::unexpected<Error> fail_permission() { return fail_errno(EPERM); }

}  // namespace ros2s::fs
