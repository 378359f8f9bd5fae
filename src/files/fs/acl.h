// Acl: an access control list as of acl(5), and the bytes in which Linux passes one to programs.
//
// A node may have two, as the extended attributes that are named below: an access list, which is
// used instead of the permission bits of its mode, and, if it is a directory, a default list, which
// new nodes in it inherit. node_flags say which ones a node has.
//
// Plain values; any thread. Follows Linux (fs/posix_acl.c).
//
// Invariants
// - A list is valid: the entries of the owner, the group and the others are there once and in
//   order, and so is a mask if a user or group is named.
// - While a node has an access list, the group bits of its mode are the mask, and the other bits
//   are those of the list.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ros2s/base/bytes.h"
#include "ros2s/base/result.h"
#include "ros2s/fs/caller.h"
#include "ros2s/fs/file_system.h"

namespace ros2s::fs {

inline constexpr std::string_view access_acl_name = "system.posix_acl_access";
inline constexpr std::string_view default_acl_name = "system.posix_acl_default";
[[nodiscard]] constexpr bool is_acl(std::string_view attribute) {
    return attribute == access_acl_name || attribute == default_acl_name;
}

// What a program gets that is executed. Linux ends them with a change of the contents or the owner.
inline constexpr std::string_view capabilities_name = "security.capability";

// The one of node_flags that a node has with the attribute. 0: none.
[[nodiscard]] constexpr uint32_t flag_of_attribute(std::string_view attribute) {
    if (attribute == access_acl_name) return node_flags::has_access_acl;
    if (attribute == default_acl_name) return node_flags::has_default_acl;
    return attribute == capabilities_name ? node_flags::has_capabilities : 0;
}

// The kernel reads no more of a mounted file system.
inline constexpr size_t acl_bytes_max = 4096;

class Acl {
  public:
    enum class Tag : uint16_t {
        owner = 0x01,
        user = 0x02,
        owning_group = 0x04,
        group = 0x08,
        mask = 0x10,
        others = 0x20,
    };
    struct Entry {
        Tag tag{};
        uint16_t permissions = 0;  // Wanted
        uint32_t id = no_id;       // of a user or group
    };
    static constexpr uint32_t no_id = UINT32_MAX;

    // Errors: invalid; too_large.
    [[nodiscard]] static Result<Acl> decode(ConstBytes bytes);
    [[nodiscard]] std::string encode() const;

    [[nodiscard]] std::span<const Entry> entries() const { return entries_; }
    // Replaces the numbers of named users and groups. Errors: those of `user` and `group`, which
    // are given a number and return a Result of one.
    [[nodiscard]] Result<> replace_ids(auto user, auto group) {
        for (Entry& each : entries_) {
            if (each.tag == Tag::user) {
                ROS2S_TRY_ASSIGN(each.id, user(each.id));
            } else if (each.tag == Tag::group) {
                ROS2S_TRY_ASSIGN(each.id, group(each.id));
            }
        }
        return {};
    }

    // The permission bits of the mode of a node that has this list. If `is_mode()`, they say all
    // that the list does.
    [[nodiscard]] mode_t mode() const;
    [[nodiscard]] bool is_mode() const;
    // What chmod(2) does with the list.
    void change_mode(mode_t mode);
    // Turns a directory's default list into the access list of a new node. `mode` is the one that
    // the creator asked for. Returns the permission bits of the node.
    [[nodiscard]] mode_t inherit(mode_t mode);

    // Of a node with this list, and this owner and group.
    [[nodiscard]] bool allows(const Caller& caller, uint32_t uid, uint32_t gid,
                              uint32_t wanted) const;

  private:
    [[nodiscard]] Entry* find(Tag tag);
    // The entry that is the group bits of the mode.
    [[nodiscard]] Entry& group_class();

    std::vector<Entry> entries_;
};

}  // namespace ros2s::fs
