// SeenNodes: modes and owners of nodes, as look-ups and changes returned them in the last second.
// Checks of permissions use them, so that they need no requests of their own.
//
// Used on one core. Bounded: the older half is dropped after a second, or when the newer half is
// full.
#pragma once
#include <optional>
#include <unordered_map>
#include <utility>

#include "ros2s/fs/file_system.h"
#include "ros2s/runtime/time.h"

namespace ros2s::access {

struct Rights {
    mode_t mode = 0;
    uint32_t uid = 0, gid = 0;
};

class SeenNodes {
  public:
    // How long a change by another program may stay unnoticed.
    static constexpr Duration lifetime = std::chrono::seconds(1);
    static constexpr size_t nodes_max = 4096;

    void see(const fs::Attributes& attributes, Time now) {
        if (newer_.size() >= nodes_max / 2 || now - newer_since_ >= lifetime) {
            older_ = std::exchange(newer_, {});
            newer_since_ = now;
        }
        newer_.insert_or_assign(attributes.node.value,
                                Seen{{attributes.mode, attributes.uid, attributes.gid}, now});
    }
    [[nodiscard]] std::optional<Rights> find(fs::NodeId node, Time now) const {
        for (const auto* nodes : {&newer_, &older_}) {
            const auto found = nodes->find(node.value);
            if (found == nodes->end()) continue;
            if (now - found->second.at >= lifetime) return std::nullopt;
            return found->second.rights;
        }
        return std::nullopt;
    }
    void drop(fs::NodeId node) {
        newer_.erase(node.value);
        older_.erase(node.value);
    }

  private:
    struct Seen {
        Rights rights;
        Time at{};
    };
    std::unordered_map<uint64_t, Seen> newer_, older_;
    Time newer_since_{};
};

}  // namespace ros2s::access
