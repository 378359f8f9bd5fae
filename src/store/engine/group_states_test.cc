#include "group_states.h"

#include <gtest/gtest.h>

#include <charconv>
#include <string_view>

namespace ros2s::engine {
namespace {

// The steps of groups after group 10, and the states that follow. A step is a letter and a group:
// o ordered, w written, f flushed, v visible, F all up to it flushed. `may_show`: whether the next
// group may be shown if it waits for its flush, and if it is deferred.
struct Row {
    std::string_view steps;
    uint64_t ordered, written, durable, visible;
    bool may_show_durable, may_show_written;
};
constexpr Row rows[] = {
    {"", 10, 10, 10, 10, false, false},
    {"o11", 11, 10, 10, 10, false, false},
    {"o11 w11", 11, 11, 10, 10, false, true},
    {"o11 w11 f11", 11, 11, 11, 10, true, true},
    {"o11 w11 f11 v11", 11, 11, 11, 11, false, false},
    // Several in flight: writes and flushes end in any order, the groups keep theirs.
    {"o11 o12 w12", 12, 10, 10, 10, false, false},
    {"o11 o12 w12 f12", 12, 10, 10, 10, false, false},
    {"o11 o12 w12 f12 w11", 12, 12, 10, 10, false, true},
    {"o11 o12 w12 f12 w11 f11", 12, 12, 12, 10, true, true},
    {"o11 o12 w12 f12 w11 f11 v11", 12, 12, 12, 11, true, true},
    {"o11 o12 w12 f12 w11 f11 v11 v12", 12, 12, 12, 12, false, false},
    {"o11 o12 o13 w13 w12 w11 f13 f12", 13, 13, 10, 10, false, true},
    {"o11 o12 o13 w13 w12 w11 f13 f12 f11", 13, 13, 13, 10, true, true},
    {"o11 o12 o13 w11 f11 w13 f13 v11", 13, 11, 11, 11, false, false},
    // Deferred groups are visible first.
    {"o11 w11 v11", 11, 11, 10, 11, false, false},
    {"o11 w11 v11 o12 w12 v12", 12, 12, 10, 12, false, false},
    {"o11 w11 v11 o12 w12 v12 F11", 12, 12, 11, 12, false, false},
    {"o11 w11 v11 o12 w12 v12 F12", 12, 12, 12, 12, false, false},
    {"o11 w11 v11 o12 w12 v12 F12 F11", 12, 12, 12, 12, false, false},
    // A later group's own flush makes them durable only if they were visible when it was issued.
    {"o11 w11 v11 o12 w12 f12", 12, 12, 10, 11, false, true},
    {"o11 w11 v11 o12 w12 F11 f12", 12, 12, 12, 11, true, true},
    {"o11 o12 w12 f12 w11 v11", 12, 12, 10, 11, false, true},
    {"o11 o12 w12 f12 w11 v11 F11", 12, 12, 12, 11, true, true},
};

struct Step {
    char kind = ' ';
    uint64_t group = 0;
};
Step take_step(std::string_view& steps) {
    Step step{.kind = steps.front()};
    std::from_chars(steps.data() + 1, steps.data() + steps.size(), step.group);
    const size_t end = steps.find(' ');
    steps.remove_prefix(end == std::string_view::npos ? steps.size() : end + 1);
    return step;
}

GroupStates after(std::string_view steps) {
    GroupStates states(10);
    while (!steps.empty()) {
        const auto [kind, group] = take_step(steps);
        switch (kind) {
            case 'o': EXPECT_EQ(states.order(states.durable()), group); break;
            case 'w': states.wrote(group); break;
            case 'f': states.flushed(group); break;
            case 'F': states.flushed_upto(group); break;
            default: states.show(group);
        }
    }
    return states;
}

TEST(GroupStates, FollowTheTable) {
    using Shown = GroupStates::Shown;
    for (const Row& row : rows) {
        SCOPED_TRACE(row.steps);
        const GroupStates states = after(row.steps);
        EXPECT_EQ(states.ordered(), row.ordered);
        EXPECT_EQ(states.written(), row.written);
        EXPECT_EQ(states.durable(), row.durable);
        EXPECT_EQ(states.visible(), row.visible);
        EXPECT_EQ(states.has_volatile(), row.visible > row.durable);
        for (uint64_t group = 10; group < 15; ++group) {
            const bool next = group == row.visible + 1;
            EXPECT_EQ(states.may_show(group, Shown::durable), next && row.may_show_durable);
            EXPECT_EQ(states.may_show(group, Shown::written), next && row.may_show_written);
        }
    }
}

TEST(GroupStates, DurableRecordProvesWhatItStates) {
    EXPECT_EQ(after("o11 w11 f11").proven(), 10);
    EXPECT_EQ(after("o11 w11 f11 v11 o12").proven(), 10);
    EXPECT_EQ(after("o11 w11 f11 v11 o12 w12 f12").proven(), 11);
    // Two deferred groups were sealed before the first was durable: neither proves it.
    EXPECT_EQ(after("o11 w11 v11 o12 w12 v12 F12").proven(), 10);
    EXPECT_EQ(after("o11 w11 v11 o12 w12 v12 F11 o13 w13 v13 F12").proven(), 10);
    EXPECT_EQ(after("o11 w11 v11 o12 w12 v12 F11 o13 w13 v13 F13").proven(), 11);
}

}  // namespace
}  // namespace ros2s::engine
