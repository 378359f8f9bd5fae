#include "ros2s/rados/view.h"

#include <gtest/gtest.h>

namespace ros2s::rados {
namespace {

TEST(CachedOmap, RemovedKeyInKnownRangeTakesNoMemory) {
    CachedOmap omap(Head{}, "head");
    omap.cover("c", "s");
    const size_t before = omap.bytes();
    omap.set("ea", "value");
    omap.set("ea", {});
    EXPECT_TRUE(omap.has("ea"));
    EXPECT_EQ(omap.value("ea"), "");
    EXPECT_EQ(omap.bytes(), before);
    omap.set("z", {});
    EXPECT_TRUE(omap.has("z"));
    EXPECT_FALSE(omap.has("y"));
}

TEST(CachedOmap, RangesThatTouchAreOne) {
    CachedOmap omap(Head{}, "head");
    omap.cover("g", "k");
    omap.cover("c", "e");
    EXPECT_EQ(omap.until("d"), "e");
    EXPECT_EQ(omap.until("f"), "f");
    omap.cover("e", "h");
    EXPECT_EQ(omap.until("c"), "k");
    omap.cover("a", "z");
    omap.cover("d", "e");
    EXPECT_EQ(omap.until("x"), "z");
}

}  // namespace
}  // namespace ros2s::rados
