// GroupStates: how far each group of a pool has come, and which step is permitted next.
//
//     open ──► ordered ──► written ──► durable ──► visible
//       sealed    all writes    flushed, and    applied on all cores,
//                 completed     all before it   and acknowledged
//
// Groups are sealed, and become durable and visible, in their order. Their writes and flushes end
// in any order. So one number for each state is enough: all groups up to it have reached it.
//
// Invariants
// - visible <= durable <= written <= ordered.
// - A group is durable only if all groups before it are.
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
        ROS2S_CHECK(group > upto_);
        if (group != upto_ + 1) {
            ahead_.push_back(group);
            return;
        }
        upto_ = group;
        while (std::erase(ahead_, upto_ + 1) > 0) ++upto_;
    }

  private:
    uint64_t upto_;
    std::vector<uint64_t> ahead_;  // later ones; fewer than are in flight
};

class GroupStates {
  public:
    // Groups up to `last` are durable and visible.
    explicit GroupStates(uint64_t last)
        : ordered_(last), written_(last), durable_(last), visible_(last) {}

    // The greatest group in each state.
    [[nodiscard]] uint64_t ordered() const { return ordered_; }
    [[nodiscard]] uint64_t written() const { return written_.upto(); }
    [[nodiscard]] uint64_t durable() const { return durable_.upto(); }
    [[nodiscard]] uint64_t visible() const { return visible_; }

    // The open group is sealed. Returns its number.
    uint64_t order() { return ++ordered_; }
    // All writes of the group have completed.
    void wrote(uint64_t group) {
        ROS2S_CHECK(group <= ordered_);
        written_.add(group);
    }
    // A flush that was issued after that has completed.
    void flushed(uint64_t group) { durable_.add(group); }
    // True if the group may be applied and acknowledged now.
    [[nodiscard]] bool may_show(uint64_t group) const {
        return group == visible_ + 1 && group <= durable();
    }
    void show(uint64_t group) {
        ROS2S_CHECK(may_show(group));
        visible_ = group;
    }

  private:
    uint64_t ordered_;
    GroupsReached written_, durable_;
    uint64_t visible_;
};

}  // namespace ros2s::engine
