// GroupStates: how far each group of a pool has come, and which step is permitted next.
//
//     a group that waits for its flush   open ──► ordered ──► written ──► durable ──► visible
//     a deferred one                     open ──► ordered ──► written ──► visible ──► durable
//
//     ordered   sealed: its place among the groups is fixed
//     written   all its writes have completed. It survives the end of the process
//     durable   a flush that was issued after that has completed, and all groups before it are
//               durable. It survives a loss of power
//     visible   applied on all cores, and acknowledged
//
// Groups are sealed, and become durable and visible, in their order. Their writes and flushes end
// in any order. So one number for each state is enough: all groups up to it have reached it.
//
// Invariants
// - visible <= written and durable <= written <= ordered.
// - A group that is not deferred is visible only when it is durable. So all groups up to the last
//   visible one of these are durable.
//
// Used on core 0. Does no I/O and does not suspend.
#pragma once
#include <cstdint>
#include <vector>

#include "ros2s/base/check.h"

namespace ros2s::engine {

// The groups that have reached a state. They may reach it out of order.
class GroupsReached {
  public:
    explicit GroupsReached(uint64_t upto) : upto_(upto) {}
    // All groups up to this one.
    [[nodiscard]] uint64_t upto() const { return upto_; }
    void add(uint64_t group) {
        if (group > upto_ + 1) ahead_.push_back(group);
        add_upto(group == upto_ + 1 ? group : 0);
    }
    void add_upto(uint64_t group) {
        if (group <= upto_) return;
        upto_ = group;
        while (std::erase(ahead_, upto_ + 1) > 0) ++upto_;
        std::erase_if(ahead_, [this](uint64_t each) { return each <= upto_; });
    }

  private:
    uint64_t upto_;
    std::vector<uint64_t> ahead_;  // later ones; fewer than are in flight
};

class GroupStates {
  public:
    // When a group becomes visible.
    enum class Shown : uint8_t { durable, written };

    // Groups up to `last` are durable and visible.
    explicit GroupStates(uint64_t last)
        : ordered_(last), written_(last), durable_(last), visible_(last), proven_(last) {}

    // The greatest group in each state.
    [[nodiscard]] uint64_t ordered() const { return ordered_; }
    [[nodiscard]] uint64_t written() const { return written_.upto(); }
    [[nodiscard]] uint64_t durable() const { return durable_.upto(); }
    [[nodiscard]] uint64_t visible() const { return visible_; }
    // A loss of power would take visible groups back.
    [[nodiscard]] bool has_volatile() const { return visible_ > durable(); }
    // The greatest durable_upto of a durable record.
    [[nodiscard]] uint64_t proven() const { return proven_; }

    // The open group is sealed, with this statement in its record. Returns its number.
    uint64_t order(uint64_t durable_upto) {
        ++ordered_;
        const uint64_t before = statements_.empty() ? proven_ : statements_.back().durable_upto;
        if (durable_upto > before) statements_.push_back({ordered_, durable_upto});
        return ordered_;
    }
    // All writes of the group have completed.
    void wrote(uint64_t group) {
        ROS2S_CHECK(group <= ordered_);
        written_.add(group);
    }
    // A flush has completed that was issued after these writes ...
    void flushed(uint64_t group) {
        durable_.add(group);
        prove();
    }
    // ... or when this group was the last visible one. All groups up to it are durable then.
    void flushed_upto(uint64_t visible) {
        durable_.add_upto(visible);
        prove();
    }
    // True if the group may be applied and acknowledged now.
    [[nodiscard]] bool may_show(uint64_t group, Shown when) const {
        return group == visible_ + 1 && group <= (when == Shown::durable ? durable() : written());
    }
    void show(uint64_t group) { visible_ = group; }

  private:
    // From this group on, records state this.
    struct Statement {
        uint64_t group, durable_upto;
    };
    void prove() {
        std::erase_if(statements_, [this](const Statement& each) {
            if (each.group > durable()) return false;
            proven_ = each.durable_upto;
            return true;
        });
    }

    uint64_t ordered_;
    GroupsReached written_, durable_;
    uint64_t visible_;
    uint64_t proven_;
    // Of groups that are not durable: one for each flush that has ended since the last durable
    // group was sealed.
    std::vector<Statement> statements_;
};

}  // namespace ros2s::engine
