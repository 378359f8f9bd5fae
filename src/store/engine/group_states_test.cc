#include "group_states.h"

#include <gtest/gtest.h>

#include <charconv>
#include <string>
#include <string_view>

namespace ros2s::engine {
namespace {

// The steps of groups after group 10, and the states that follow. A step is a letter and a group:
// o ordered, w written, f flushed, v visible.
struct Row {
    std::string_view steps;
    uint64_t ordered, written, durable, visible;
    uint64_t may_show;  // the group that may be shown next; 0: none
};
constexpr Row rows[] = {
    {"", 10, 10, 10, 10, 0},
    {"o11", 11, 10, 10, 10, 0},
    {"o11 w11", 11, 11, 10, 10, 0},
    {"o11 w11 f11", 11, 11, 11, 10, 11},
    {"o11 w11 f11 v11", 11, 11, 11, 11, 0},
    // Several in flight: writes and flushes end in any order, the groups keep theirs.
    {"o11 o12 w12", 12, 10, 10, 10, 0},
    {"o11 o12 w12 f12", 12, 10, 10, 10, 0},
    {"o11 o12 w12 f12 w11", 12, 12, 10, 10, 0},
    {"o11 o12 w12 f12 w11 f11", 12, 12, 12, 10, 11},
    {"o11 o12 w12 f12 w11 f11 v11", 12, 12, 12, 11, 12},
    {"o11 o12 w12 f12 w11 f11 v11 v12", 12, 12, 12, 12, 0},
    {"o11 o12 o13 w13 w12 w11 f13 f12", 13, 13, 10, 10, 0},
    {"o11 o12 o13 w13 w12 w11 f13 f12 f11", 13, 13, 13, 10, 11},
    {"o11 o12 o13 w11 f11 w13 f13 v11", 13, 11, 11, 11, 0},
};

GroupStates after(std::string_view steps) {
    GroupStates states(10);
    while (!steps.empty()) {
        uint64_t group = 0;
        std::from_chars(steps.data() + 1, steps.data() + steps.size(), group);
        switch (steps.front()) {
            case 'o': EXPECT_EQ(states.order(), group); break;
            case 'w': states.wrote(group); break;
            case 'f': states.flushed(group); break;
            default: states.show(group);
        }
        const size_t end = steps.find(' ');
        steps.remove_prefix(end == std::string_view::npos ? steps.size() : end + 1);
    }
    return states;
}

TEST(GroupStates, FollowTheTable) {
    for (const Row& row : rows) {
        SCOPED_TRACE(row.steps);
        const GroupStates states = after(row.steps);
        EXPECT_EQ(states.ordered(), row.ordered);
        EXPECT_EQ(states.written(), row.written);
        EXPECT_EQ(states.durable(), row.durable);
        EXPECT_EQ(states.visible(), row.visible);
        for (uint64_t group = 10; group < 15; ++group) {
            EXPECT_EQ(states.may_show(group), group == row.may_show) << group;
        }
    }
}

}  // namespace
}  // namespace ros2s::engine
