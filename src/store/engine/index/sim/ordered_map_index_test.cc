#include "ros2s/engine/index/sim/ordered_map_index.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <set>

#include "ros2s/engine/index/test_support/contract.h"

namespace ros2s::engine {
namespace {

class OrderedMapUnderTest final : public IndexUnderTest {
  public:
    std::unique_ptr<Index> open() override { return medium_.open(); }
    bool can_crash() const override { return true; }
    void crash(Random& random) override { medium_.crash(random); }
    int rounds() const override { return 200; }

  private:
    OrderedMapMedium medium_;
};
std::unique_ptr<IndexUnderTest> make_ordered_map() {
    return std::make_unique<OrderedMapUnderTest>();
}
INSTANTIATE_TEST_SUITE_P(OrderedMap, IndexContract,
                         testing::Values(MakeIndexUnderTest{"ordered map", make_ordered_map}));

IndexBatch one(std::string_view key, std::string_view value) {
    IndexBatch batch;
    batch.put(key, value);
    return batch;
}

TEST(OrderedMapMedium, CrashLosesAnyNumberOfUnflushedBatches) {
    std::set<std::string> survived;
    for (uint64_t seed = 0; seed < 100; ++seed) {
        OrderedMapMedium medium;
        auto index = medium.open();
        ASSERT_TRUE(index->apply(one("k", "flushed")));
        ASSERT_TRUE(index->flush());
        for (const char* value : {"1", "2", "3"}) ASSERT_TRUE(index->apply(one("k", value)));
        EXPECT_EQ(medium.unflushed(), 3u);
        Random random(seed);
        medium.crash(random);
        survived.insert(**medium.open()->get("k"));
    }
    EXPECT_EQ(survived, (std::set<std::string>{"1", "2", "3", "flushed"}));
}

TEST(OrderedMapMedium, SurvivorOfOneCrashSurvivesTheNext) {
    Random random(1);
    for (int round = 0; round < 50; ++round) {
        OrderedMapMedium medium;
        for (const char* value : {"1", "2", "3"})
            ASSERT_TRUE(medium.open()->apply(one("k", value)));
        medium.crash(random);
        const auto first = *medium.open()->get("k");
        medium.crash(random);
        EXPECT_EQ(*medium.open()->get("k"), first);
    }
}

TEST(OrderedMapMedium, IndexOpenedBeforeCrashFails) {
    OrderedMapMedium medium;
    Random random(1);
    auto index = medium.open();
    medium.crash(random);
    EXPECT_EQ(index->get("k").error().code, Code::io);
    EXPECT_EQ(index->apply(one("k", "v")).error().code, Code::io);
    EXPECT_EQ(*medium.open()->get("k"), std::nullopt);
}

TEST(OrderedMapMedium, InjectedFailureLastsUntilTheCrash) {
    OrderedMapMedium medium;
    Random random(1);
    auto index = medium.open();
    ASSERT_TRUE(index->apply(one("k", "v")));
    ASSERT_TRUE(index->flush());
    medium.fail_with(Error{Code::no_space, ENOSPC, 0});
    EXPECT_EQ(index->apply(one("k", "w")).error().code, Code::no_space);
    EXPECT_EQ(index->flush().error().code, Code::no_space);
    medium.crash(random);
    EXPECT_EQ(*medium.open()->get("k"), "v");
}

TEST(OrderedMapMedium, FullMediumIsReadOnly) {
    OrderedMapMedium medium;
    auto index = medium.open();
    ASSERT_TRUE(index->apply(one("k", "v")));
    ASSERT_TRUE(index->flush());
    medium.set_full(true);
    EXPECT_EQ(index->apply(one("k", "w")).error().code, Code::no_space);
    EXPECT_EQ(index->flush().error().code, Code::no_space);
    EXPECT_EQ(*index->get("k"), "v");
    medium.set_full(false);
    ASSERT_TRUE(index->apply(one("k", "w")));
    EXPECT_EQ(*index->get("k"), "w");
}

TEST(OrderedMapMedium, BytesAreCounted) {
    OrderedMapMedium medium;
    auto index = medium.open();
    ASSERT_TRUE(index->apply(one("ab", "cde")));
    EXPECT_EQ(index->memory_bytes(), 5u);
    ASSERT_TRUE(index->apply(one("ab", "c")));
    EXPECT_EQ(index->memory_bytes(), 3u);
    IndexBatch batch;
    batch.erase("ab");
    ASSERT_TRUE(index->apply(std::move(batch)));
    EXPECT_EQ(index->memory_bytes(), 0u);
}

}  // namespace
}  // namespace ros2s::engine
