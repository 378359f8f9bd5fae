// SeenLately: what look-ups and changes returned about nodes in the last second. Checks use it, so
// that they need no requests of their own.
//
// What leases cover is used for longer.
//
// Used on one core. Bounded: the older half is dropped after a second, or when the newer half is
// full.
#pragma once
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>

#include "ros2s/fs/acl.h"
#include "ros2s/fs/file_system.h"
#include "ros2s/runtime/time.h"

namespace ros2s::access {

template <class Fact>
class SeenLately {
  public:
    // The longest time for which a change by another program may stay unnoticed.
    static constexpr Duration lifetime = std::chrono::seconds(1);

    explicit SeenLately(size_t nodes_max) : nodes_max_(nodes_max) {}

    void see(fs::NodeId node, Fact fact, Time at) {
        if (newer_.size() >= nodes_max_ / 2 || at - newer_since_ >= lifetime) {
            older_ = std::exchange(newer_, {});
            newer_since_ = at;
        }
        newer_.insert_or_assign(node.value, Seen{std::move(fact), at});
    }
    // `is_leased(fact)`: whether it is still leased; none: it never was, and its age decides.
    [[nodiscard]] std::optional<Fact> find(fs::NodeId node, Time now, auto is_leased) {
        for (const auto* nodes : {&newer_, &older_}) {
            const auto found = nodes->find(node.value);
            if (found == nodes->end()) continue;
            const Seen seen = found->second;
            const bool is_young = now - seen.at < lifetime;
            const std::optional<bool> leased = is_leased(seen.fact);
            if (!leased.value_or(is_young)) return std::nullopt;
            if (!is_young) see(node, seen.fact, now);
            return seen.fact;
        }
        return std::nullopt;
    }
    [[nodiscard]] std::optional<Fact> find(fs::NodeId node, Time now) {
        return find(node, now, [](const Fact&) { return std::optional<bool>(); });
    }
    void drop(fs::NodeId node) {
        newer_.erase(node.value);
        older_.erase(node.value);
    }

  private:
    struct Seen {
        Fact fact;
        Time at{};
    };
    const size_t nodes_max_;
    std::unordered_map<uint64_t, Seen> newer_, older_;
    Time newer_since_{};
};

struct Rights {
    mode_t mode = 0;
    uint32_t uid = 0, gid = 0;
    bool has_acl = false;
    std::shared_ptr<const fs::Acl> acl{};  // null: not read yet
    uint64_t era = 0, lease = 0;           // under which they were read; 0: none
};
using SeenNodes = SeenLately<Rights>;
using SeenParents = SeenLately<fs::NodeId>;  // a directory that has the node

}  // namespace ros2s::access
