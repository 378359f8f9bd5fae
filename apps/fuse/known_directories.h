// KnownDirectories: the attributes of directories that the kernel got lately. A program may have a
// directory as its working directory, without a handle, when it is removed. The file system has
// nothing of it then (`stale`). In Linux it still has attributes, and no name can be made in it.
// Nothing is listed or changed here: after a restart of a server `stale` may be of one that exists.
//
//     `stale` for a directory ─┬─ found by its name lately ─► ESTALE: the kernel looks the path up
//                              │                             again and finds what has the name now
//                              └─ otherwise ────────────────► it was removed while in use
//
// Used on one core. Bounded: the older half is dropped when the newer half is full.
#pragma once
#include <optional>
#include <unordered_map>
#include <utility>

#include "ros2s/fs/file_system.h"
#include "ros2s/runtime/time.h"

namespace ros2s::fuse {

class KnownDirectories {
  public:
    // Longer than the kernel takes from a look-up to its next request for the same call.
    static constexpr Duration lately = std::chrono::seconds(1);

    explicit KnownDirectories(size_t directories_max = 4096) : half_(directories_max / 2) {}

    // Of a directory. `by_name`: they are the reply to a look-up.
    void see(const fs::Attributes& attributes, Time now, bool by_name) {
        Directory directory{.attributes = attributes, .found_at = {}};
        if (const Directory* const before = find(attributes.node))
            directory.found_at = before->found_at;
        if (by_name) directory.found_at = now;
        if (newer_.size() >= half_ && !newer_.contains(attributes.node.value)) {
            older_ = std::exchange(newer_, {});
        }
        newer_.insert_or_assign(attributes.node.value, directory);
    }
    // If the directory is gone, it went while a program used it, and not while a path was followed.
    [[nodiscard]] bool is_in_use(fs::NodeId node, Time now) const {
        const Directory* const directory = find(node);
        return directory == nullptr || !directory->found_at || now - *directory->found_at >= lately;
    }
    // Of a directory that is gone: without links.
    [[nodiscard]] std::optional<fs::Attributes> attributes(fs::NodeId node) const {
        const Directory* const directory = find(node);
        if (directory == nullptr) return std::nullopt;
        fs::Attributes attributes = directory->attributes;
        attributes.links = 0;
        return attributes;
    }
    // When its names were changed last, as far as it is known.
    [[nodiscard]] std::optional<WallTime> changed(fs::NodeId node) const {
        const Directory* const directory = find(node);
        if (directory == nullptr) return std::nullopt;
        return directory->attributes.modified;
    }
    void forget(fs::NodeId node) {
        newer_.erase(node.value);
        older_.erase(node.value);
    }

  private:
    struct Directory {
        fs::Attributes attributes;
        std::optional<Time> found_at;
    };
    [[nodiscard]] const Directory* find(fs::NodeId node) const {
        for (const auto* nodes : {&newer_, &older_}) {
            if (const auto found = nodes->find(node.value); found != nodes->end()) {
                return &found->second;
            }
        }
        return nullptr;
    }
    const size_t half_;
    std::unordered_map<uint64_t, Directory> newer_, older_;
};

}  // namespace ros2s::fuse
