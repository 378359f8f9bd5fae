#include "space.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <set>

#include "ros2s/base/random.h"

namespace ros2s::engine {
namespace {

SpaceMap one_device(uint64_t blocks) {
    SpaceMap space;
    space.add_device(10, 10 + blocks);
    space.make_available();
    return space;
}
std::vector<BlockRun> allocate(SpaceMap& space, uint64_t blocks, uint32_t device = 0) {
    std::vector<BlockRun> runs;
    EXPECT_TRUE(space.reserve(device, blocks));
    space.allocate(device, blocks, runs);
    return runs;
}
// For tests without discards.
bool release(SpaceMap& space, uint64_t group) {
    std::vector<BlockRun> apart;
    const bool any = space.release(group, apart);
    EXPECT_TRUE(apart.empty());
    return any;
}
void use(SpaceMap& space, const std::vector<BlockRun>& runs) {
    for (const BlockRun& run : runs) {
        for (uint32_t i = 0; i < run.blocks; ++i) EXPECT_TRUE(space.mark_used(run.first + i));
    }
}

TEST(SpaceMap, ContiguousSpaceGivesOneRun) {
    SpaceMap space = one_device(1000);
    const auto a = allocate(space, 32);
    EXPECT_EQ(a, (std::vector<BlockRun>{{BlockAddress::make(0, 10), 32}}));
    const auto b = allocate(space, 100);
    EXPECT_EQ(b, (std::vector<BlockRun>{{BlockAddress::make(0, 42), 100}}));
}

TEST(SpaceMap, ReservedBlocksCanBeAllocated) {
    SpaceMap space = one_device(64);
    EXPECT_TRUE(space.reserve(0, 60));
    EXPECT_FALSE(space.reserve(0, 5));
    EXPECT_TRUE(space.reserve(0, 4));
    space.unreserve(0, 4);
    std::vector<BlockRun> runs;
    space.allocate(0, 60, runs);
    EXPECT_EQ(space.available_blocks(0), 4U);
}

TEST(SpaceMap, FreedBlockWaitsUntilItsGroupIsDurable) {
    SpaceMap space = one_device(4);
    use(space, allocate(space, 4));
    EXPECT_TRUE(space.mark_free(BlockAddress::make(0, 11), 5));
    EXPECT_TRUE(space.mark_free(BlockAddress::make(0, 12), 5));
    EXPECT_TRUE(space.mark_free(BlockAddress::make(0, 10), 6));
    EXPECT_FALSE(space.mark_free(BlockAddress::make(0, 10), 6));  // twice
    EXPECT_EQ(space.used_blocks(), 1U);
    EXPECT_EQ(space.quarantined_blocks(), 3U);
    EXPECT_EQ(space.oldest_quarantined(), 5U);
    EXPECT_EQ(space.available_blocks(0), 0U);
    EXPECT_FALSE(release(space, 4));
    EXPECT_TRUE(release(space, 5));
    EXPECT_EQ(space.available_blocks(0), 2U);
    EXPECT_EQ(allocate(space, 2), (std::vector<BlockRun>{{BlockAddress::make(0, 11), 2}}));
    EXPECT_TRUE(release(space, 9));
    EXPECT_EQ(space.quarantined_blocks(), 0U);
}

TEST(SpaceMap, DiscardableRunIsAvailableAfterDiscard) {
    SpaceMap space = one_device(8);
    use(space, allocate(space, 8));
    for (const uint64_t block : {10, 11, 12, 14, 16}) {
        EXPECT_TRUE(space.mark_free(BlockAddress::make(0, block), 5));
    }
    space.set_discard(0, 2);
    std::vector<BlockRun> apart;
    EXPECT_FALSE(space.release(4, apart));
    EXPECT_TRUE(apart.empty());
    EXPECT_TRUE(space.release(5, apart));
    ASSERT_EQ(apart, (std::vector<BlockRun>{{BlockAddress::make(0, 10), 3}}));
    EXPECT_EQ(space.available_blocks(0), 2U);
    EXPECT_EQ(space.quarantined_blocks(), 3U);
    EXPECT_EQ(space.oldest_quarantined(), 0U);
    EXPECT_EQ(allocate(space, 2), (std::vector<BlockRun>{{BlockAddress::make(0, 14), 1},
                                                         {BlockAddress::make(0, 16), 1}}));
    space.discarded(apart[0]);
    EXPECT_EQ(space.quarantined_blocks(), 0U);
    EXPECT_EQ(allocate(space, 3), apart);
}

TEST(SpaceMap, FragmentedSpaceGivesFewRuns) {
    SpaceMap space = one_device(100);
    use(space, allocate(space, 100));
    for (uint64_t i = 0; i < 100; i += 10) {  // pieces of 3
        for (uint64_t k = 0; k < 3; ++k) space.mark_free(BlockAddress::make(0, 10 + i + k), 1);
    }
    release(space, 1);
    EXPECT_EQ(allocate(space, 9).size(), 3U);
    EXPECT_EQ(allocate(space, 21).size(), 7U);
    EXPECT_FALSE(space.reserve(0, 1));
}

// Free space in pieces of random length, all within one window of the search.
SpaceMap in_pieces(Random& random, uint64_t blocks, std::vector<uint64_t>& lengths) {
    SpaceMap space = one_device(blocks);
    use(space, allocate(space, blocks));
    for (uint64_t at = 10; at < 10 + blocks;) {
        const uint64_t length = std::min(1 + random.below(20), 10 + blocks - at);
        for (uint64_t i = 0; i < length; ++i) space.mark_free(BlockAddress::make(0, at + i), 1);
        lengths.push_back(length);
        at += length + 1 + random.below(5);
    }
    release(space, 1);
    std::ranges::sort(lengths, std::greater());
    return space;
}

TEST(SpaceMap, AllocationTakesTheFewestRuns) {
    for (uint64_t seed = 1; seed <= 50; ++seed) {
        Random random(seed);
        std::vector<uint64_t> lengths;
        SpaceMap space = in_pieces(random, 2000, lengths);
        const uint64_t want = 20 + random.below(400);
        size_t fewest = 0;
        for (uint64_t sum = 0; sum < want; ++fewest) sum += lengths[fewest];
        const auto runs = allocate(space, want);
        EXPECT_EQ(runs.size(), fewest) << "seed " << seed;
        EXPECT_TRUE(std::ranges::is_sorted(runs, {},
                                           [](const BlockRun& run) { return run.first.block(); }));
    }
}

// One by one they are at the same addresses as together, in as few runs.
TEST(SpaceMap, LookAheadGivesTheSameRunsInPieces) {
    for (uint64_t seed = 1; seed <= 50; ++seed) {
        Random random(seed);
        std::vector<uint64_t> lengths;
        SpaceMap together = in_pieces(random, 2000, lengths);
        SpaceMap one_by_one = together;
        const uint64_t want = 20 + random.below(400);
        one_by_one.look_ahead(0, want);
        EXPECT_EQ(one_by_one.available_blocks(0), together.available_blocks(0));
        std::vector<BlockRun> runs;
        for (uint64_t left = want; left > 0;) {
            const uint64_t some = std::min(1 + random.below(4), left);
            EXPECT_TRUE(one_by_one.reserve(0, some));
            one_by_one.allocate(0, some, runs);
            left -= some;
        }
        EXPECT_EQ(runs, allocate(together, want)) << "seed " << seed;
    }
}

TEST(SpaceMap, LookAheadDoesNotSplitLargeAllocation) {
    SpaceMap space = one_device(1000);
    use(space, allocate(space, 1000));
    for (uint64_t i = 0; i < 100; ++i) space.mark_free(BlockAddress::make(0, 500 + i), 1);
    for (uint64_t i = 0; i < 8; ++i) space.mark_free(BlockAddress::make(0, 20 + i), 1);
    release(space, 1);
    space.look_ahead(0, 4);
    EXPECT_EQ(allocate(space, 1), (std::vector<BlockRun>{{BlockAddress::make(0, 20), 1}}));
    EXPECT_EQ(allocate(space, 50), (std::vector<BlockRun>{{BlockAddress::make(0, 500), 50}}));
}

// The search continues at the end of the last one, and wraps at the device's end.
TEST(SpaceMap, FragmentedSpaceIsUsedToTheLastBlock) {
    for (uint64_t seed = 1; seed <= 20; ++seed) {
        Random random(seed);
        std::vector<uint64_t> lengths;
        SpaceMap space = in_pieces(random, 3000, lengths);
        std::set<uint64_t> taken;
        while (space.available_blocks(0) > 0) {
            const uint64_t want = std::min(1 + random.below(100), space.available_blocks(0));
            for (const BlockRun& run : allocate(space, want)) {
                for (uint32_t i = 0; i < run.blocks; ++i) {
                    EXPECT_TRUE(taken.insert(run.first.block() + i).second) << "seed " << seed;
                }
            }
        }
        EXPECT_EQ(taken.size(), std::accumulate(lengths.begin(), lengths.end(), uint64_t{0}));
    }
}

struct Regions final : SpaceMap::CutSink {
    std::map<std::pair<uint32_t, uint32_t>, std::string> taken;
    void region(uint32_t device, uint32_t region, std::string_view bits) override {
        taken[{device, region}] = bits;
    }
};

TEST(SpaceMap, CutKeepsOneMomentDespiteChanges) {
    SpaceMap space;
    space.add_device(0, 3 * SpaceMap::region_blocks);
    space.make_available();
    const auto in_region = [](uint64_t region, uint64_t i) {
        return BlockAddress::make(0, region * SpaceMap::region_blocks + i);
    };
    for (uint64_t region = 0; region < 2; ++region) space.mark_used(in_region(region, 1));
    Regions sink;
    space.begin_cut(sink);
    space.mark_used(in_region(0, 2));  // after the cut: in a region of it, and in another
    space.mark_used(in_region(2, 2));
    while (space.take()) {
    }
    ASSERT_EQ(sink.taken.size(), 2U);
    for (const auto& [at, bits] : sink.taken) EXPECT_EQ(bits[0], 2) << at.second;
    // Later changes belong to the next cut.
    Regions next;
    space.begin_cut(next);
    while (space.take()) {
    }
    ASSERT_EQ(next.taken.size(), 2U);
    EXPECT_EQ((next.taken[{0, 0}][0]), 6);
    EXPECT_EQ((next.taken[{0, 2}][0]), 4);
    // They load as the same state.
    SpaceMap loaded;
    loaded.add_device(0, 3 * SpaceMap::region_blocks);
    EXPECT_TRUE(loaded.load_region(0, 0, next.taken[{0, 0}]).has_value());
    EXPECT_FALSE(loaded.load_region(0, 9, next.taken[{0, 0}]).has_value());
    EXPECT_FALSE(loaded.load_region(1, 0, next.taken[{0, 0}]).has_value());
    EXPECT_FALSE(loaded.load_region(0, 0, "short").has_value());
    EXPECT_EQ(loaded.used_blocks(), 2U);
}

// Otherwise more blocks could be used than there are.
TEST(SpaceMap, UsedBlockOutsideDataAreaIsRefused) {
    const auto loads = [](uint64_t block) {
        SpaceMap space;
        space.add_device(10, 100);
        std::string bits(SpaceMap::region_blocks / 8, '\0');
        bits[block / 8] = static_cast<char>(1 << block % 8);
        return space.load_region(0, 0, bits).has_value();
    };
    for (const uint64_t block : {10, 63, 64, 99}) EXPECT_TRUE(loads(block)) << block;
    for (const uint64_t block : {0, 9, 100, 127, 128}) EXPECT_FALSE(loads(block)) << block;
}

// Random use against a set of blocks: nothing is allocated twice, nothing is lost.
TEST(SpaceMap, RandomUseAgreesWithAModel) {
    for (uint64_t seed = 1; seed <= 20; ++seed) {
        Random random(seed);
        SpaceMap space = one_device(500);
        std::set<uint64_t> used;
        uint64_t group = 1;
        for (int step = 0; step < 400; ++step) {
            ++group;
            const uint64_t want = 1 + random.below(40);
            if (random.one_in(3) && space.available_blocks(0) >= want) space.look_ahead(0, want);
            if (random.one_in(2) && space.reserve(0, want)) {
                std::vector<BlockRun> runs;
                space.allocate(0, want, runs);
                uint64_t got = 0;
                for (const BlockRun& run : runs) {
                    for (uint32_t i = 0; i < run.blocks; ++i, ++got) {
                        EXPECT_TRUE(used.insert(run.first.block() + i).second) << "seed " << seed;
                        EXPECT_TRUE(space.mark_used(run.first + i));
                    }
                }
                EXPECT_EQ(got, want);
            } else {
                for (uint64_t i = 0; i < want && !used.empty(); ++i) {
                    const auto victim =
                        std::next(used.begin(), static_cast<ptrdiff_t>(random.below(used.size())));
                    EXPECT_TRUE(space.mark_free(BlockAddress::make(0, *victim), group));
                    used.erase(victim);
                }
            }
            if (random.one_in(3)) release(space, group);
            EXPECT_EQ(space.used_blocks(), used.size());
            EXPECT_EQ(space.available_blocks(0) + space.quarantined_blocks() + used.size(), 500U);
        }
    }
}

// Sections of 16 blocks; in each of the first `aged` every second block is used.
SpaceMap aged_device(uint64_t sections, uint64_t aged) {
    SpaceMap space;
    space.set_section_blocks(16);
    space.add_device(0, sections * 16);
    for (uint64_t i = 0; i < aged * 16; i += 2) {
        EXPECT_TRUE(space.mark_used(BlockAddress::make(0, i)));
    }
    space.make_available();
    return space;
}
uint64_t section_of(const BlockRun& run) { return run.first.block() / 16; }

TEST(SpaceMap, LargeAllocationPrefersAClearSection) {
    SpaceMap space = aged_device(1024, 1000);
    EXPECT_EQ(space.clear_blocks(0), 24U * 16);
    // The window after the cursor has pieces of one block.
    const auto large = allocate(space, 20);
    ASSERT_EQ(large.size(), 1U);
    EXPECT_GE(section_of(large[0]), 1000U);
    EXPECT_EQ(space.clear_blocks(0), 22U * 16);
    // One block is no reason to take one.
    space = aged_device(1024, 1000);
    EXPECT_EQ(allocate(space, 1), (std::vector<BlockRun>{{BlockAddress::make(0, 1), 1}}));
    EXPECT_EQ(space.clear_blocks(0), 24U * 16);
}

TEST(SpaceMap, SmallAllocationsSpareClearSections) {
    SpaceMap space = aged_device(1024, 1008);
    // 524 sections' worth of blocks is not used: small allocations leave one in 16 of these.
    const auto small = allocate(space, 8);
    EXPECT_EQ(small.size(), 8U);
    EXPECT_EQ(space.clear_blocks(0), 16U * 16);
    std::vector<BlockRun> moved;
    ASSERT_TRUE(space.reserve(0, 8));
    space.allocate(0, 8, moved, SpaceMap::Purpose::move);
    EXPECT_EQ(moved.size(), 1U);
    EXPECT_EQ(allocate(space, 32).size(), 1U);
    EXPECT_EQ(space.clear_blocks(0), 13U * 16);
}

TEST(SpaceMap, EmptiestSectionsAreChosenAndAvoided) {
    SpaceMap space = aged_device(8, 8);
    // Section 3 has one used block, section 5 has two.
    std::vector<BlockRun> apart;
    for (const uint64_t i :
         {3 * 16 + 2, 3 * 16 + 4, 3 * 16 + 6, 3 * 16 + 8, 3 * 16 + 10, 3 * 16 + 12, 3 * 16 + 14,
          5 * 16 + 4, 5 * 16 + 6, 5 * 16 + 8, 5 * 16 + 10, 5 * 16 + 12, 5 * 16 + 14}) {
        EXPECT_TRUE(space.mark_free(BlockAddress::make(0, i), 1));
    }
    EXPECT_TRUE(space.release(1, apart));
    EXPECT_EQ(space.choose_victims(0, 20, 100), 3U);
    for (uint64_t i = 0; i < 8 * 16; ++i) {
        EXPECT_EQ(space.is_victim(BlockAddress::make(0, i)), i / 16 == 3 || i / 16 == 5) << i;
    }
    for (uint64_t i = 0; i < 6 * 8; ++i) {
        for (const BlockRun& run : allocate(space, 1)) {
            EXPECT_FALSE(section_of(run) == 3 || section_of(run) == 5);
        }
    }
    // Nothing else is left.
    const auto last = allocate(space, 1);
    EXPECT_TRUE(section_of(last[0]) == 3 || section_of(last[0]) == 5);
    EXPECT_FALSE(space.is_victim(BlockAddress::make(0, 3 * 16)));
}

TEST(SpaceMap, ClearedVictimBecomesOrdinarySection) {
    SpaceMap space = aged_device(4, 1);
    EXPECT_EQ(space.choose_victims(0, 1, 7), 0U);  // it would need eight moves
    EXPECT_EQ(space.choose_victims(0, 1, 8), 8U);
    for (uint64_t i = 0; i < 16; i += 2) {
        EXPECT_TRUE(space.is_victim(BlockAddress::make(0, i)));
        EXPECT_TRUE(space.mark_free(BlockAddress::make(0, i), 1));
    }
    EXPECT_EQ(space.clear_blocks(0), 3U * 16);
    EXPECT_TRUE(release(space, 1));
    EXPECT_EQ(space.clear_blocks(0), 4U * 16);
    EXPECT_FALSE(space.is_victim(BlockAddress::make(0, 0)));
    // One that cannot be emptied is not chosen again.
    space = aged_device(4, 1);
    space.spare(BlockAddress::make(0, 2));
    EXPECT_EQ(space.choose_victims(0, 1, 100), 0U);
}

}  // namespace
}  // namespace ros2s::engine
