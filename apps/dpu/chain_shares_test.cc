// Which tenants may hand a DPU another capability chain, and whose unused chains are dropped for
// it.
#include "chain_shares.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace ros2s::dpud {
namespace {

TenantOfPool named(size_t number) { return {"pool", fmt::format("tenant-{}", number)}; }

// A DPU whose chains are all in use, or all unused.
class Dpu {
  public:
    explicit Dpu(bool in_use) : in_use_(in_use) {}
    // Takes a chain as DelegatedChains does.
    Result<> take(size_t tenant) {
        size_t taken = 0;
        for (const auto& each : counts) taken += each.second.all;
        ROS2S_TRY_ASSIGN(const TenantOfPool* const loser,
                         tenant_to_make_room(counts, named(tenant), taken));
        if (loser != nullptr) add(counts.at(*loser), -1);
        add(counts[named(tenant)], 1);
        return {};
    }
    size_t take_all(size_t tenant) {
        for (size_t i = 0; i < 1000 && take(tenant); ++i) {
        }
        return counts[named(tenant)].all;
    }
    std::map<TenantOfPool, ChainCount> counts;

  private:
    void add(ChainCount& count, int change) const {
        count.all += static_cast<size_t>(change);
        if (!in_use_) count.unused += static_cast<size_t>(change);
    }
    bool in_use_;
};

TEST(ChainShares, GreedyTenantsLeaveRoomForOthers) {
    Dpu dpu(true);
    for (size_t i = 0; i < 8; ++i) EXPECT_EQ(dpu.take_all(i), 32U);
    for (size_t i = 8; i < 16; ++i) EXPECT_GE(dpu.take_all(i), 8U) << i;
    EXPECT_TRUE(dpu.take(16));
    EXPECT_EQ(dpu.take(0).error().code, Code::busy);
}

// Each tenant gets a smaller share, but all chains are used.
TEST(ChainShares, LastPlaceGoesToTenantWithoutOne) {
    Dpu dpu(true);
    size_t tenants = 0, taken = 0;
    for (;; ++tenants) {
        const size_t has = dpu.take_all(tenants);
        if (has == 0) break;
        taken += has;
    }
    EXPECT_EQ(taken, ChainBounds().in_all);
    EXPECT_GE(tenants, 19U);
}

TEST(ChainShares, SixtyFourTenantsHaveFourContainersEach) {
    Dpu dpu(true);
    for (size_t tenant = 0; tenant < 64; ++tenant) {
        for (int i = 0; i < 4; ++i) EXPECT_TRUE(dpu.take(tenant)) << tenant;
    }
}

TEST(ChainShares, LargestTenantLosesUnusedChainsFirst) {
    Dpu dpu(false);
    for (size_t tenant = 0; tenant < 40; ++tenant) EXPECT_GE(dpu.take_all(tenant), 1U);
    size_t least = 100, most = 0;
    for (const auto& each : dpu.counts) {
        least = std::min(least, each.second.all);
        most = std::max(most, each.second.all);
    }
    EXPECT_GE(least, 11U) << "of 480 for 40 tenants";
    EXPECT_LE(most, 13U);
}

// The largest tenant uses all its chains, so it loses none.
TEST(ChainShares, UsedChainsAreNotDropped) {
    std::map<TenantOfPool, ChainCount> counts{{named(0), {.all = 6, .unused = 0}},
                                              {named(1), {.all = 2, .unused = 1}},
                                              {named(2), {.all = 1, .unused = 1}}};
    const ChainBounds bounds{.per_tenant = 8, .in_all = 9};
    EXPECT_EQ(**tenant_to_make_room(counts, named(3), 9, bounds), named(1));
    EXPECT_EQ(**tenant_to_make_room(counts, named(2), 9, bounds), named(1));
    // Its own, because no tenant with more chains has an unused one.
    EXPECT_EQ(**tenant_to_make_room(counts, named(1), 9, bounds), named(1));
    EXPECT_EQ(tenant_to_make_room(counts, named(0), 9, bounds).error().code, Code::busy);
    // A tenant with the same name in another pool is a different tenant.
    EXPECT_EQ(**tenant_to_make_room(counts, {"other", "tenant-0"}, 9, bounds), named(1));
}

TEST(ChainShares, TenantAtItsBoundReplacesItsOwn) {
    std::map<TenantOfPool, ChainCount> counts{{named(0), {.all = 4, .unused = 1}},
                                              {named(1), {.all = 9, .unused = 9}}};
    const ChainBounds bounds{.per_tenant = 4, .in_all = 100};
    EXPECT_EQ(**tenant_to_make_room(counts, named(0), 13, bounds), named(0));
    counts.at(named(0)).unused = 0;
    EXPECT_EQ(tenant_to_make_room(counts, named(0), 13, bounds).error().code, Code::busy);
    EXPECT_EQ(*tenant_to_make_room(counts, named(2), 13, bounds), nullptr);
}

}  // namespace
}  // namespace ros2s::dpud
