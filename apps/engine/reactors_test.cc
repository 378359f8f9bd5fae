#include "reactors.h"

#include <gtest/gtest.h>

#include "ros2s/daemon/reactor_source.h"

namespace ros2s::engined {
namespace {

TEST(Reactors, AsManyAsSuitTheMachineWhereNoneAreAskedFor) {
    struct Case {
        uint32_t asked, cpus, chosen;
    };
    for (const Case& each : {Case{0, 1, 1},
                             {0, 2, 1},
                             {0, 7, 1},
                             {0, 8, 2},
                             {0, 15, 3},
                             {0, 96, 4},
                             {1, 96, 1},
                             {3, 2, 3},
                             {64, 8, 64}}) {
        EXPECT_EQ(choose_reactors(each.asked, each.cpus), each.chosen)
            << each.asked << " of " << each.cpus;
    }
    EXPECT_GE(usable_cpus(), 1U);
}

TEST(Reactors, RunBesideEachOther) {
    Reactors reactors;
    Report report;
    ASSERT_TRUE(reactors.start(2, Duration{0}, report)) << report.text();
    ASSERT_EQ(reactors.list().size(), 2U);
    EXPECT_NE(reactors.list()[0], reactors.list()[1]);
    const std::vector<OsReactor*> all = reactors.all();
    ASSERT_EQ(all.size(), 2U);
    EXPECT_EQ(all[1], reactors.list()[1]);
    EXPECT_EQ(daemon::reactor_source(*all[1], 2).labels.front().second, "2");
}

}  // namespace
}  // namespace ros2s::engined
