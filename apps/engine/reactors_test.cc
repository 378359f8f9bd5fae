#include "reactors.h"

#include <gtest/gtest.h>

#include "ros2s/daemon/reactor_source.h"

namespace ros2s::engined {
namespace {

TEST(Reactors, StartedReactorsAreDistinct) {
    EXPECT_GE(usable_cpus(), 1U);
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
