#include "seen_tenants.h"

#include <gtest/gtest.h>

#include "ros2s/runtime/sim/world.h"
#include "test_support/test_tenants.h"

namespace ros2s::tenancy {
namespace {

admission::Allowances allowances_of(std::initializer_list<std::pair<std::string, Tenant>> tenants) {
    admission::Allowances allowances;
    for (const auto& [pool, tenant] : tenants) add_account(allowances, pool, tenant);
    return allowances;
}

// Pools in the order of their names: the first one's tenant has no limits.
TEST(TenantAccounts, SubjectHasLimitsOfItsTenantInEachPool) {
    sim::World world(1);
    admission::Accounts accounts(
        world.core(),
        allowances_of(
            {{"p1", tenant_of("guests", {{"subjects", "CN=s"}})},
             {"p2", tenant_of("batch", {{"subjects", "CN=s; CN=t"}, {"bytes", "10MiB"}})}}));
    EXPECT_EQ(accounts.open("CN=s", "p1")->name, "guests");
    EXPECT_FALSE(accounts.open("CN=s", "p1")->has_rates());
    EXPECT_EQ(accounts.open("CN=s", "p2")->name, "batch");
    EXPECT_TRUE(accounts.open("CN=s", "p2")->has_rates());
    EXPECT_EQ(accounts.open("CN=t", "p2"), accounts.open("CN=s", "p2"));
}

TEST(TenantAccounts, SameNameInTwoPoolsIsTwoTenants) {
    sim::World world(1);
    admission::Accounts accounts(
        world.core(),
        allowances_of({{"p1", tenant_of("guests", {{"subjects", "CN=s"}, {"weight", "1000"}})},
                       {"p2", tenant_of("guests", {{"subjects", "CN=t"}, {"bytes", "10MiB"}})}}));
    EXPECT_EQ(accounts.open("CN=s", "p1")->name, "guests");
    EXPECT_FALSE(accounts.open("CN=s", "p1")->has_rates());
    EXPECT_EQ(accounts.open("CN=t", "p2")->name, "p2/guests");
    EXPECT_TRUE(accounts.open("CN=t", "p2")->has_rates());
    EXPECT_EQ(accounts.open("CN=t", "p2")->weight(), 1U);
    // As a session with a capability does: by the tenant's name.
    EXPECT_EQ(accounts.open("guests", "p2"), accounts.open("CN=t", "p2"));
}

}  // namespace
}  // namespace ros2s::tenancy
