#include "local_nodes.h"

#include <gtest/gtest.h>

namespace ros2s::foreign {
namespace {

FoundNode file_numbered(ino_t number) {
    FoundNode found;
    found.status.st_ino = number;
    found.status.st_mode = S_IFDIR;
    return found;
}

class LocalNodeChains : public testing::Test {
  protected:
    LocalNodeChains() { nodes.add_root(file_numbered(1)); }
    // Below `above`. Nothing else refers to it.
    LocalNode* add_chain(LocalNode* above, size_t length) {
        for (size_t i = 0; i < length; ++i) {
            LocalNode& below = nodes.add(file_numbered(++last_), above, "d");
            if (above->id != fs::root_node) nodes.forget(above->id, 1);
            above = &below;
        }
        return above;
    }

    size_t wakes = 0;
    LocalNodes nodes{
        7, {.descriptors_max = 16, .nodes_max = SIZE_MAX}, [](Descriptor) {}, [this] { ++wakes; }};

  private:
    ino_t last_ = 1;
};

TEST_F(LocalNodeChains, ChainIsDroppedInSlices) {
    constexpr size_t slice = LocalNodes::slice_of_nodes;
    LocalNode* const end = add_chain(nodes.find(fs::root_node), 1 + 4 * slice);
    ASSERT_EQ(nodes.count(), 2 + 4 * slice);
    nodes.forget(end->id, 1);
    EXPECT_EQ(nodes.count(), 1 + 3 * slice);
    EXPECT_EQ(wakes, 1U);
    EXPECT_TRUE(nodes.drop_some());
    EXPECT_TRUE(nodes.drop_some());
    EXPECT_EQ(nodes.count(), 1 + slice);
    EXPECT_FALSE(nodes.drop_some());
    EXPECT_EQ(nodes.count(), 1U) << "the root stays";
    EXPECT_FALSE(nodes.drop_some());
}

TEST_F(LocalNodeChains, ManyChainsShareASlice) {
    constexpr size_t slice = LocalNodes::slice_of_nodes;
    std::vector<fs::NodeId> ends;
    for (int i = 0; i < 10; ++i) {
        ends.push_back(add_chain(nodes.find(fs::root_node), 1 + slice + 16)->id);
    }
    for (const fs::NodeId end : ends) nodes.forget(end, 1);
    EXPECT_EQ(nodes.count(), 1 + 160U);
    EXPECT_TRUE(nodes.drop_some());
    EXPECT_EQ(nodes.count(), 1 + 160 - slice);
    EXPECT_TRUE(nodes.drop_some());
    EXPECT_FALSE(nodes.drop_some());
    EXPECT_EQ(nodes.count(), 1U);
}

TEST_F(LocalNodeChains, NodeUsedAgainStays) {
    constexpr size_t slice = LocalNodes::slice_of_nodes;
    LocalNode* const kept = add_chain(nodes.find(fs::root_node), 10);
    LocalNode* const end = add_chain(kept, 1 + slice);
    nodes.forget(end->id, 1);
    ASSERT_EQ(nodes.count(), 11U) << "it waits";
    nodes.begin_use(*kept);
    EXPECT_FALSE(nodes.drop_some());
    EXPECT_EQ(nodes.count(), 11U);
    nodes.end_use(*kept);
    EXPECT_EQ(nodes.count(), 1U);
}

}  // namespace
}  // namespace ros2s::foreign
