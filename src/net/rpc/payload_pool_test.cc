// Memory for payload is reused without asking the kernel, up to a bound.
#include "ros2s/rpc/payload_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "ros2s/runtime/ring.h"
#include "ros2s/runtime/sim/world.h"
#include "ros2s/runtime/test_support/made_reactor.h"

namespace ros2s::rpc {
namespace {

constexpr uint64_t pool_mib = uint64_t{1} << 20;

struct PoolStage {
    sim::World world{1};
    ServerGroup group{world.core()};
    Counter held;
    PayloadPool pool{group, held};

    // Takes pieces at the same time, and returns all of them.
    std::vector<const std::byte*> use(uint64_t size, size_t pieces) {
        std::vector<const std::byte*> where;
        std::vector<PayloadMemory> all;
        for (size_t i = 0; i < pieces; ++i) {
            all.push_back(pool.take(size));
            EXPECT_EQ(all.back().bytes().size(), size);
            where.push_back(all.back().bytes().data());
        }
        EXPECT_EQ(held.value(), size * pieces);
        all.clear();
        EXPECT_EQ(held.value(), 0U);
        EXPECT_LE(pool.kept_bytes(), pool.kept_bytes_max());
        return where;
    }
};

#ifndef ROS2S_SANITIZED
TEST(PayloadPool, PieceIsReusedBySimilarSizes) {
    PoolStage stage;
    const auto first = stage.use(pool_mib, 1);
    EXPECT_EQ(stage.use(pool_mib - 4096, 1), first);
    const auto block = stage.use(4096, 1);
    EXPECT_NE(block, first);
    constexpr uint64_t small_page = 64 << 10;
    EXPECT_EQ(stage.pool.kept_bytes(), 2 * pool_mib + small_page);
    EXPECT_EQ(stage.use(1, 1), block);
    const auto larger = stage.use(5000, 1);
    EXPECT_EQ(stage.use(8192, 1), larger);
    EXPECT_EQ(stage.pool.kept_bytes(), 2 * pool_mib + small_page);
    stage.use(60 << 10, 2);
    EXPECT_EQ(stage.pool.kept_bytes(), 2 * pool_mib + 2 * small_page);
}

TEST(PayloadPool, PiecesShareHugePages) {
    PoolStage stage;
    const auto page_of = [](const void* address) {
        return reinterpret_cast<uintptr_t>(address) / StagingMemory::huge_page_bytes;
    };
    const auto whole = stage.use(2 * pool_mib, 1);
    EXPECT_EQ(page_of(whole[0] + 2 * pool_mib - 1), page_of(whole[0]));
    const auto halves = stage.use(pool_mib, 2);
    EXPECT_EQ(page_of(halves[0]), page_of(whole[0]));
    EXPECT_EQ(page_of(halves[1]), page_of(whole[0]));
    stage.use(64 << 10, 32);
    EXPECT_EQ(stage.pool.kept_bytes(), 2 * pool_mib);
    stage.use(64 << 10, 33);
    EXPECT_EQ(stage.pool.kept_bytes(), 4 * pool_mib);
}

TEST(PayloadPool, SmallPiecesAreAdjacentBlocks) {
    PoolStage stage;
    const auto first = stage.use(4096, 16);
    for (size_t i = 1; i < first.size(); ++i) EXPECT_EQ(first[i], first[0] + i * 4096);
    EXPECT_EQ(stage.use(4096, 17)[15], first[15]);
    EXPECT_EQ(stage.pool.kept_bytes(), uint64_t{128} << 10);
}

TEST(PayloadPool, FirstSmallPagesAreRegistered) {
    const auto reactor = made_reactor();
    if (reactor->ring()->kind() != Ring::Kind::io_uring) GTEST_SKIP() << "it needs io_uring";
    ServerGroup group(*reactor);
    group.payload_ring = reactor->ring();
    Counter held;
    PayloadPool pool(group, held);
    // More often than the ring has room for: what is freed is not registered any more.
    for (int round = 0; round < 6; ++round) {
        std::vector<PayloadMemory> all;
        for (size_t page = 1; page <= ServerGroup::registered_pages_max + 4; ++page) {
            for (int block = 0; block < 16; ++block) all.push_back(pool.take(4096));
            EXPECT_EQ(group.registered_pages, std::min(page, ServerGroup::registered_pages_max));
        }
        all.push_back(pool.take(pool_mib));
        EXPECT_EQ(group.registered_pages, ServerGroup::registered_pages_max);
        all.clear();
        pool.drop_spare();
        EXPECT_EQ(group.registered_pages, 0U);
        EXPECT_EQ(pool.kept_bytes(), 0U);
    }
}

TEST(PayloadPool, LargePieceReusesUnusedPages) {
    PoolStage stage;
    stage.use(pool_mib, 64);
    EXPECT_EQ(stage.pool.kept_bytes(), 64 * pool_mib);
    const auto large = stage.use(32 * pool_mib, 1);
    EXPECT_EQ(stage.use(32 * pool_mib, 1), large);
}

TEST(PayloadPool, PieceOfSeveralPagesIsReusedBySimilarSizes) {
    PoolStage stage;
    const auto first = stage.use(6 * pool_mib, 1);
    EXPECT_EQ(stage.use(5 * pool_mib + 1, 1), first);
    const auto smaller = stage.use(4 * pool_mib, 1);
    EXPECT_NE(smaller, first);
    EXPECT_EQ(stage.use(4 * pool_mib, 1), smaller);
    EXPECT_EQ(stage.pool.kept_bytes(), 10 * pool_mib);
}

TEST(PayloadPool, KeptMemoryFollowsDemand) {
    PoolStage stage;
    stage.use(64 << 10, 2048);
    EXPECT_EQ(stage.pool.kept_bytes(), stage.pool.kept_bytes_max());
    const auto large = stage.use(pool_mib, 1);
    EXPECT_EQ(stage.use(pool_mib, 1), large);
}

TEST(PayloadPool, SpareMemoryOfAllPoolsIsDropped) {
    PoolStage stage;
    PayloadPool other(stage.group, stage.held);
    stage.use(pool_mib, 8);
    const PayloadMemory used = other.take(pool_mib);
    (void)other.take(2 * pool_mib);
    EXPECT_EQ(stage.group.kept_bytes, 12 * pool_mib);
    stage.group.drop_spare();
    EXPECT_EQ(stage.group.kept_bytes, 2 * pool_mib);  // the page that is used
    EXPECT_EQ(stage.pool.kept_bytes() + other.kept_bytes(), 2 * pool_mib);
    used.bytes()[pool_mib - 1] = std::byte{1};  // is not spare
}
#endif

TEST(PayloadPool, PiecesOfAllSizesDoNotOverlap) {
    PoolStage stage;
    Random& random = stage.world.random();
    struct Piece {
        PayloadMemory memory;
        std::byte mark;
    };
    std::vector<Piece> pieces;
    const auto check = [](const Piece& piece) {
        const Bytes bytes = piece.memory.bytes();
        EXPECT_EQ(reinterpret_cast<uintptr_t>(bytes.data()) % block_bytes, 0U);
        for (size_t at = 0; at < bytes.size(); at += 512) ASSERT_EQ(bytes[at], piece.mark);
        ASSERT_EQ(bytes.back(), piece.mark);
    };
    for (int i = 0; i < 3000; ++i) {
        if (pieces.size() == 100 || (!pieces.empty() && random.below(3) == 0)) {
            const size_t at = random.below(pieces.size());
            check(pieces[at]);
            std::swap(pieces[at], pieces.back());
            pieces.pop_back();
            continue;
        }
        const uint64_t most = uint64_t{1} << (10 + random.below(13));  // up to 4 MiB
        Piece piece{stage.pool.take(1 + random.below(most)), static_cast<std::byte>(i)};
        std::ranges::fill(piece.memory.bytes(), piece.mark);
        pieces.push_back(std::move(piece));
        EXPECT_LE(stage.pool.kept_bytes(), stage.pool.kept_bytes_max());
        EXPECT_EQ(stage.group.kept_bytes, stage.pool.kept_bytes());
    }
    for (const Piece& piece : pieces) check(piece);
}

TEST(PayloadPool, ReturnedMemoryOverLimitIsFreed) {
    PoolStage stage;
    stage.use(2 * pool_mib, 128);
    stage.use(100 * pool_mib, 1);
}

TEST(PayloadPool, KeptMemoryOfGroupIsBounded) {
    PoolStage stage;
    std::vector<std::unique_ptr<PayloadPool>> pools;
    for (int i = 0; i < 10; ++i) {
        pools.push_back(std::make_unique<PayloadPool>(stage.group, stage.held));
        (void)pools.back()->take(60 * pool_mib);
        EXPECT_LE(stage.group.kept_bytes, ServerGroup::kept_bytes_max);
    }
    pools.clear();
    EXPECT_EQ(stage.group.kept_bytes, 0U);
}

}  // namespace
}  // namespace ros2s::rpc
