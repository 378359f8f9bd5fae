// LeasedNames: the names of files, and absent names, that the kernel keeps under leases of their
// directories, on a mount whose file system others change, too. The kernel cannot be told to drop
// all names of a directory, so each is remembered here.
//
// The kernel drops a name only when no change of the directory by this mount is in progress. Such a
// change may wait for the very mount that waits for the names, until their time is over. So this
// time is a part of the time for which nobody has changed the directory.
//
// Invariants: at most names_max names, per_directory_max of one directory, and directories_max
// directories; others are not kept.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ros2s/fs/leases.h"
#include "ros2s/runtime/time.h"

namespace ros2s::fuse {

class LeasedNames {
  public:
    static constexpr size_t names_max = 65'536;
    static constexpr size_t per_directory_max = 8'192;
    static constexpr size_t directories_max = 8'192;
    static constexpr int part_of_rest = 5;
    // Less is not worth the request that drops the name.
    static constexpr Duration least = std::chrono::milliseconds(20);
    // The kernel has dealt with a reply after this time, also on a busy machine.
    static constexpr Duration taken_within = std::chrono::milliseconds(250);
    // No longer rest is remembered.
    static constexpr Duration rest_max = std::chrono::seconds(10);

    struct Name {
        std::string text;
        Time told{};  // when the kernel last got it
    };
    struct Taken {
        fs::NodeId directory{};
        std::vector<Name> names;
        Time until{};  // the kernel keeps none of them longer
    };

    // The kernel is about to get the name. Returns how long it may keep it, at most `most`.
    // `unchanged`: for how long the directory has not been changed, if nothing is known here.
    [[nodiscard]] Duration note(Time now, fs::NodeId directory, std::string_view name,
                                Duration most, Duration unchanged);
    // Around each change by this mount.
    void change_begins(Time now, fs::NodeId directory);
    void change_ends(Time now, fs::NodeId directory);
    // This mount is about to move a name, or to exchange two. If the kernel keeps it, it then keeps
    // the new one.
    struct Entry {
        fs::NodeId directory{};
        std::string_view name;
    };
    void move(Time now, Entry from, Entry to, bool is_exchange);
    // Removes and returns the names of a directory that somebody else is about to change.
    [[nodiscard]] Taken take(Time now, fs::NodeId directory);
    // Removes all names.
    void clear();
    [[nodiscard]] size_t count() const { return count_; }
    [[nodiscard]] uint64_t moves() const { return moves_; }  // so far

  private:
    struct Directory {
        Time changed{};
        size_t changes = 0;  // in progress
        Time until{};
        std::unordered_map<std::string, Time> names;  // when told
    };
    [[nodiscard]] bool has_room() const {
        return count_ < names_max && directories_.size() < directories_max;
    }
    Directory& of(Time changed, fs::NodeId directory) {
        return directories_.try_emplace(directory.value, Directory{.changed = changed})
            .first->second;
    }
    void add(Directory& directory, std::string_view name, Time now);
    void drop_names(Directory& directory);
    void make_room(Time now);

    std::unordered_map<uint64_t, Directory> directories_;
    size_t count_ = 0;
    uint64_t moves_ = 0;
    Time room_made_ = Time::min();
};

}  // namespace ros2s::fuse
