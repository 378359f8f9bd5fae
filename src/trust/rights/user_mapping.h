// UserMapping: the users of its machine for whom a host may act, and their mapping to owners of
// files.
//
//     claim {uid, gid, groups} ─ squash ─ users, groups ─ uid_map, gid_map ─► fs::Caller
//
// Squashing comes first: user 0 of a host acts as nobody also if `users` does not have it, because
// root mounts, and looks at the root directory. Without root_squash it needs to be in `users`.
//
// Settings, each a text:
//
//     users, groups    any (the default), or numbers and ranges: "1000-1999, 5000"
//     root_squash      yes or no: user 0 and group 0 act as user nobody (65534)
//     squash           UID:GID: every user acts as this one
//     uid_map, gid_map HOST:STORED:COUNT, separated by commas: the host's numbers HOST and
//                      following are STORED and following in the container
//     may              devices, set_ids, privileged_attributes: what root of the host may make
//
// Plain values; any thread.
#pragma once
#include <array>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "ros2s/base/result.h"
#include "ros2s/fs/caller.h"
#include "ros2s/fs/file_system.h"

namespace ros2s::rights {

inline constexpr std::array<std::string_view, 7> user_setting_names{
    "users", "groups", "root_squash", "squash", "uid_map", "gid_map", "may"};
[[nodiscard]] bool is_user_setting(std::string_view name);

struct UserMapping {
    struct Range {
        uint32_t first = 0, last = 0;
        friend bool operator==(const Range&, const Range&) = default;
    };
    struct Shift {
        uint32_t host = 0, stored = 0, count = 0;
        friend bool operator==(const Shift&, const Shift&) = default;
    };
    std::vector<Range> users{}, groups{};  // empty: any
    bool root_squash = false;
    std::optional<std::pair<uint32_t, uint32_t>> squash{};  // uid, gid
    std::vector<Shift> uid_map{}, gid_map{};                // empty: the same numbers
    bool may_make_devices = false;
    bool may_set_ids = false;
    bool may_change_privileged = false;
    friend bool operator==(const UserMapping&, const UserMapping&) = default;

    // Users and owners are the same on both sides, and each may act, but for root_squash.
    [[nodiscard]] bool keeps_numbers() const {
        return users.empty() && groups.empty() && !squash && uid_map.empty() && gid_map.empty();
    }
    // Takes one of the settings above. Errors: invalid, with a sentence that begins with `where`.
    [[nodiscard]] Result<> set(std::string_view name, std::string_view text, std::string_view where,
                               Report& report);

    // Maps a claim to the user that acts. Leaves out groups that the host may not name, or that are
    // not mapped. The result uses the claim's memory. Errors: denied.
    [[nodiscard]] Result<fs::Caller> caller_for(fs::UserClaim& claim) const;
    // Owners as the host sees them. Numbers without a mapping become `nobody`.
    [[nodiscard]] fs::Attributes shown(fs::Attributes attributes) const;
    // Owners as the container stores them. Errors: invalid (a number has no mapping).
    [[nodiscard]] Result<uint32_t> stored_uid(uint32_t uid) const;
    [[nodiscard]] Result<uint32_t> stored_gid(uint32_t gid) const;
};

}  // namespace ros2s::rights
