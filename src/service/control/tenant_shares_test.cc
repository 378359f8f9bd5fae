#include "tenant_shares.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ros2s/base/quota.h"
#include "ros2s/base/random.h"
#include "ros2s/runtime/sim/world.h"

namespace ros2s::control {
namespace {

class TenantShareLimits : public testing::Test {
  protected:
    static std::string subject(uint64_t number) { return fmt::format("CN={}", number); }
    void belongs(uint64_t number, const std::string& tenant) {
        allowances_.accounts[subject(number)] = {{"pool", tenant}};
    }
    size_t take_all(TenantShares& shares, uint64_t number) {
        size_t taken = 0;
        while (shares.take(subject(number), &whose_)) ++taken;
        return taken;
    }

    sim::World world_{1};
    admission::Accounts accounts_{world_.core()};
    admission::Allowances allowances_;
    std::string whose_;
};

TEST_F(TenantShareLimits, SharesDoNotDependOnNumberOfSubjects) {
    for (uint64_t i = 0; i < 8; ++i) belongs(i, "batch");
    accounts_.set(allowances_);
    TenantShares shares(accounts_, 32, 10);
    EXPECT_EQ(take_all(shares, 0), 10u);
    EXPECT_EQ(whose_, "CN=0");
    EXPECT_EQ(take_all(shares, 1), 6u);
    EXPECT_EQ(whose_, "tenant 'batch'");
    EXPECT_EQ(take_all(shares, 2), 0u) << "also for one that has none";
    EXPECT_EQ(take_all(shares, 8), 8u) << "of no tenant";
    EXPECT_EQ(whose_, "CN=8");
    EXPECT_EQ(take_all(shares, 9), 4u);
    for (uint64_t i = 10; shares.take(subject(i), &whose_); ++i) ASSERT_LT(i, 14u);
    EXPECT_EQ(whose_, "this server");
    shares.give_back(subject(0));
    EXPECT_TRUE(shares.take(subject(20)));
}

TEST_F(TenantShareLimits, SharesFollowSubjectToAnotherTenant) {
    belongs(0, "batch");
    belongs(1, "batch");
    accounts_.set(allowances_);
    TenantShares shares(accounts_, 16, 16);
    EXPECT_EQ(take_all(shares, 0), 8u);
    EXPECT_EQ(take_all(shares, 1), 0u);
    belongs(0, "guests");
    accounts_.set(allowances_);
    EXPECT_EQ(take_all(shares, 1), 4u) << "nothing of batch is in use";
    for (int i = 0; i < 8; ++i) shares.give_back(subject(0));
    EXPECT_EQ(take_all(shares, 0), 6u) << "nothing of guests is in use";
}

TEST_F(TenantShareLimits, SharesMatchModel) {
    constexpr uint64_t subjects = 12, all = 40, per_subject = 15;
    for (uint64_t seed = 1; seed <= 20; ++seed) {
        SCOPED_TRACE(seed);
        Random random(seed);
        TenantShares shares(accounts_, all, per_subject);
        std::array<uint64_t, subjects> has{};
        std::array<uint64_t, subjects> tenant{};  // 0: none
        uint64_t used = 0;
        for (int step = 0; step < 2000; ++step) {
            const uint64_t who = random.next() % subjects;
            const uint64_t what = random.next() % 100;
            if (what == 0) {
                tenant[who] = random.next() % 4;
                allowances_ = {};
                for (uint64_t i = 0; i < subjects; ++i) {
                    if (tenant[i] != 0) belongs(i, fmt::format("t{}", tenant[i]));
                }
                accounts_.set(allowances_);
            } else if (what < 40) {
                if (has[who] == 0) continue;
                shares.give_back(subject(who));
                --has[who];
                --used;
            } else {
                uint64_t together = 0;
                for (uint64_t i = 0; i < subjects; ++i) {
                    const bool same = tenant[who] == 0 ? i == who : tenant[i] == tenant[who];
                    if (same) together += has[i];
                }
                const bool may = has[who] < per_subject && used < all &&
                                 !exceeds_fair_share(together, used, all);
                ASSERT_EQ(shares.take(subject(who)).has_value(), may) << "step " << step;
                has[who] += may ? 1 : 0;
                used += may ? 1 : 0;
            }
        }
        accounts_.set({});
        allowances_ = {};
    }
}

}  // namespace
}  // namespace ros2s::control
