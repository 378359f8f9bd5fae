#include "ros2s/base/quota.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ros2s/base/random.h"

namespace ros2s {
namespace {

// Takes one after the other until it is refused.
size_t take_all(Quota& quota, Quota::Who who, std::vector<Quota::Share>& shares) {
    size_t count = 0;
    for (auto taken = quota.take(who); taken; taken = quota.take(who), ++count) {
        shares.push_back(std::move(*taken));
    }
    return count;
}

TEST(FairShare, UseEqualToTheFreeAmountExceedsIt) {
    EXPECT_FALSE(exceeds_fair_share(4, 4, 10));
    EXPECT_TRUE(exceeds_fair_share(5, 5, 10));
    EXPECT_FALSE(exceeds_fair_share(1, 8, 10));
    EXPECT_TRUE(exceeds_fair_share(1, 9, 10));
    EXPECT_TRUE(exceeds_fair_share(1, 11, 10));
    EXPECT_FALSE(exceeds_fair_share(0, 11, 10)) << "who has none";
}

TEST(Quota, TenantLeavesAsMuchAsItTakes) {
    Quota quota({.in_all = 120, .subjects_share = true});
    std::vector<Quota::Share> shares;
    std::vector<size_t> had;
    for (uint64_t tenant = 1; tenant <= 4; ++tenant) {
        size_t own = 0;
        for (uint64_t subject = 0; subject < 100; ++subject) {
            own += take_all(quota, {tenant, subject}, shares);
        }
        had.push_back(own);
    }
    EXPECT_EQ(had, (std::vector<size_t>{60, 30, 15, 8}));
    shares.clear();
    EXPECT_EQ(quota.used(), 0U);
}

TEST(Quota, SubjectLeavesItsTenantAsMuchAsItTakes) {
    Quota quota({.per_tenant = 60, .in_all = 1000, .subjects_share = true});
    std::vector<Quota::Share> shares;
    EXPECT_EQ(take_all(quota, {1, 1000}, shares), 30U);
    EXPECT_EQ(quota.take({1, 1000}).error(), Quota::Limit::subject);
    EXPECT_EQ(take_all(quota, {1, 1001}, shares), 15U);
    // Another tenant's user of the same number counts there.
    EXPECT_EQ(take_all(quota, {2, 1000}, shares), 30U);
    EXPECT_EQ(quota.used_by_tenant(1), 45U);
    EXPECT_EQ(quota.used({2, 1000}), 30U);
}

TEST(Quota, GuaranteedPartIsAlwaysGranted) {
    Quota quota({.in_all = 4, .sure = 1});
    std::vector<Quota::Share> shares;
    for (uint64_t tenant = 1; tenant <= 10; ++tenant) {
        EXPECT_GE(take_all(quota, {tenant, 0}, shares), 1U) << tenant;
    }
    EXPECT_EQ(quota.take({3, 1}).error(), Quota::Limit::tenant);
    Quota bounded({.per_subject = 0, .sure = 1});
    EXPECT_EQ(bounded.take({1, 1}).error(), Quota::Limit::subject);
}

TEST(Quota, RefusingLimitIsNamed) {
    Quota quota({.per_subject = 2, .per_tenant = 5, .in_all = 6, .subjects_share = true});
    std::vector<Quota::Share> shares;
    EXPECT_EQ(take_all(quota, {1, 1}, shares), 2U);
    EXPECT_EQ(quota.take({1, 1}).error(), Quota::Limit::subject);
    EXPECT_EQ(quota.take({1, 2}, 9).error(), Quota::Limit::subject);
    EXPECT_EQ(take_all(quota, {1, 2}, shares), 1U) << "half of what is free";
    EXPECT_EQ(quota.take({1, 3}).error(), Quota::Limit::tenant);
    EXPECT_EQ(quota.take({1, 3}, 5).error(), Quota::Limit::subject);
    EXPECT_EQ(take_all(quota, {2, 1}, shares), 1U);
    EXPECT_EQ(take_all(quota, {3, 1}, shares), 1U);
    EXPECT_EQ(take_all(quota, {4, 1}, shares), 1U);
    EXPECT_EQ(quota.take({5, 1}).error(), Quota::Limit::all);
}

TEST(Quota, SubjectsWithoutSharesAreLimitedByTheirBound) {
    QuotaOf<std::string, std::string> quota({.per_subject = 6, .in_all = 16});
    std::vector<QuotaOf<std::string, std::string>::Share> shares;
    const auto take_all_of = [&](const std::string& subject) {
        size_t count = 0;
        for (; auto taken = quota.take({"batch", subject}); ++count) {
            shares.push_back(std::move(*taken));
        }
        return count;
    };
    EXPECT_EQ(take_all_of("a"), 6U);
    EXPECT_EQ(take_all_of("b"), 2U) << "the tenant has half";
    EXPECT_EQ(take_all_of("c"), 0U);
}

TEST(Quota, SubjectOfSeveralTenantsHasOneBound) {
    Quota quota({.per_subject = 4, .in_all = 20});
    std::vector<Quota::Share> shares;
    EXPECT_EQ(take_all(quota, {1, 7}, shares), 4U);
    EXPECT_EQ(quota.take({2, 7}).error(), Quota::Limit::subject);
    EXPECT_EQ(quota.used({2, 7}), 4U);
    // Together it leaves as much as it takes.
    Quota wide({.in_all = 20});
    EXPECT_EQ(take_all(wide, {1, 7}, shares), 10U);
    EXPECT_EQ(wide.take({2, 7}).error(), Quota::Limit::tenant);
    EXPECT_TRUE(wide.check({2, 8}));
    shares.clear();
}

TEST(Quota, GrowingShareTellsWhenItIsBeyondALimit) {
    Quota quota({.per_subject = 3, .per_tenant = 4, .in_all = 20});
    Quota::Share one = quota.count({1, 1}, 0), other = quota.count({1, 2}, 0);
    EXPECT_FALSE(one.is_beyond());
    one.add(3);
    EXPECT_FALSE(one.check());
    EXPECT_FALSE(one.is_beyond());
    one.add();
    EXPECT_TRUE(one.is_beyond()) << "of the subject";
    one.subtract(1);
    other.add(2);
    EXPECT_TRUE(other.is_beyond()) << "of the tenant";
    EXPECT_EQ(one.of_tenant(), 5U);
    other = quota.count({2, 2}, other.amount());
    EXPECT_EQ(one.of_tenant(), 3U);
    EXPECT_EQ(quota.used_by_tenant(2), 2U);
    EXPECT_EQ(quota.used(), 5U);
}

// Whatever was taken and ended before: no tenant has more than was free before it took it last, the
// sums agree, and all of it can be taken again.
TEST(Quota, RandomUseKeepsCountsCorrect) {
    constexpr uint64_t seed = 11;
    Random random(seed);
    Quota quota(
        {.per_subject = 40, .per_tenant = 90, .in_all = 200, .sure = 2, .subjects_share = true});
    struct Taken {
        Quota::Share share;
        Quota::Who who;
        uint64_t amount;
    };
    std::vector<Taken> all;
    for (int i = 0; i < 20'000; ++i) {
        if (!all.empty() && random.one_in(2)) {
            std::swap(all[random.below(all.size())], all.back());
            all.pop_back();
            continue;
        }
        const Quota::Who who{random.below(5), random.below(4)};
        const uint64_t amount = 1 + random.below(8);
        const uint64_t free = 200 - std::min<uint64_t>(200, quota.used());
        auto taken = quota.take(who, amount);
        if (!taken) continue;
        all.push_back({std::move(*taken), who, amount});
        ASSERT_TRUE(quota.used_by_tenant(who.tenant) <= std::max<uint64_t>(free, 2)) << seed;
        uint64_t sum = 0;
        for (const Taken& each : all) sum += each.who == who ? each.amount : 0;
        ASSERT_EQ(quota.used(who), sum) << "seed " << seed;
        ASSERT_LE(quota.used(who), 40U);
    }
    all.clear();
    EXPECT_EQ(quota.used(), 0U);
    EXPECT_EQ(quota.used_by_tenant(1), 0U);
}

}  // namespace
}  // namespace ros2s
