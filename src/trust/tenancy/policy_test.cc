// What tenants mean at a DPU.
#include "policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ros2s/runtime/sim/world.h"
#include "test_support/test_tenants.h"

namespace ros2s::tenancy {
namespace {

using session::Right;

session::AccessTable access_of(const session::AccessTable::Settings& settings) {
    Report report;
    auto access = session::AccessTable::parse(settings, "settings", report);
    EXPECT_TRUE(access) << report.text();
    return *access;
}

TEST(TenantPolicy, RightsOfSettingsAndTenantsAreAdded) {
    Policy settings{.access = access_of({{"CN=alice", {{"read", "pool/old, lustre/*"}}},
                                         {"CN=bob", {{"read", "pool/images"}}}})};
    SeenTenants tenants;
    tenants["alice"] = {
        .tenant = tenant_of(
            "alice", {{"subjects", "CN=alice; CN=alice-2"}, {"write", "alice-*"}, {"weight", "4"}}),
        .active = true};
    const Policy policy = with_tenants(settings, {{"pool", tenants}});
    for (const char* const subject : {"CN=alice", "CN=alice-2"}) {
        EXPECT_TRUE(policy.access.allows(subject, Right::write, "pool", "alice-1"));
        EXPECT_FALSE(policy.access.allows(subject, Right::write, "other", "alice-1"));
        EXPECT_FALSE(policy.access.allows(subject, Right::destroy, "pool", "alice-1"));
        EXPECT_EQ(policy.allowances.accounts.at(subject).at("pool"), "alice");
    }
    EXPECT_TRUE(policy.access.allows("CN=alice", Right::read, "pool", "old"));
    EXPECT_TRUE(policy.access.allows("CN=bob", Right::read, "pool", "images"));
    EXPECT_EQ(policy.allowances.by_account.at("alice").weight, 4U);

    // A tenant without rights in a pool has none there by the settings either.
    tenants["alice"].active = false;
    const Policy revoked = with_tenants(settings, {{"pool", tenants}});
    EXPECT_FALSE(revoked.access.sees_pool("CN=alice", "pool"));
    EXPECT_TRUE(revoked.access.allows("CN=alice", Right::read, "lustre", "x"));
    EXPECT_FALSE(revoked.access.covers(policy.access, "CN=alice", "pool"));
    EXPECT_TRUE(revoked.access.covers(policy.access, "CN=alice", "lustre"));
    EXPECT_TRUE(revoked.access.covers(policy.access, "CN=bob", "pool"));
}

SeenTenants only(const std::string& name, config::Entries settings) {
    return {{name, {.tenant = tenant_of(name, std::move(settings)), .active = true}}};
}

// Pools in the order of their names: the first one's tenant has no limits.
TEST(TenantPolicy, SubjectHasLimitsOfItsTenantInEachPool) {
    sim::World world(1);
    const Policy policy =
        with_tenants({}, {{"p1", only("guests", {{"subjects", "CN=s"}})},
                          {"p2", only("batch", {{"subjects", "CN=s; CN=t"}, {"bytes", "10MiB"}})}});
    admission::Accounts accounts(world.core(), policy.allowances);
    EXPECT_EQ(accounts.open("CN=s", "p1")->name, "guests");
    EXPECT_FALSE(accounts.open("CN=s", "p1")->has_rates());
    EXPECT_EQ(accounts.open("CN=s", "p2")->name, "batch");
    EXPECT_TRUE(accounts.open("CN=s", "p2")->has_rates());
    EXPECT_EQ(accounts.open("CN=t", "p2"), accounts.open("CN=s", "p2"));
}

TEST(TenantPolicy, SameNameInTwoPoolsIsTwoTenants) {
    sim::World world(1);
    const Policy policy =
        with_tenants({}, {{"p1", only("guests", {{"subjects", "CN=s"}, {"weight", "1000"}})},
                          {"p2", only("guests", {{"subjects", "CN=t"}, {"bytes", "10MiB"}})}});
    admission::Accounts accounts(world.core(), policy.allowances);
    EXPECT_EQ(accounts.open("CN=s", "p1")->name, "guests");
    EXPECT_FALSE(accounts.open("CN=s", "p1")->has_rates());
    EXPECT_EQ(accounts.open("CN=t", "p2")->name, "p2/guests");
    EXPECT_TRUE(accounts.open("CN=t", "p2")->has_rates());
    EXPECT_EQ(accounts.open("CN=t", "p2")->weight(), 1U);
    // As a session with a capability does: by the tenant's name.
    EXPECT_EQ(accounts.open("guests", "p2"), accounts.open("CN=t", "p2"));
}

TEST(TenantPolicy, TenantMayHaveADirectory) {
    SeenTenants tenants;
    tenants["alice"] = {
        .tenant = tenant_of("alice", {{"subjects", "CN=alice"}, {"read", "c/data, all"}}),
        .active = true};
    const Policy policy = with_tenants({}, {{"pool", tenants}});
    EXPECT_THAT(policy.access.subtrees_of("CN=alice", "pool", "c"),
                testing::ElementsAre(access::Subtree{.path = "data"}));
    EXPECT_FALSE(policy.access.allows("CN=alice", Right::read, "pool", "c"));
    EXPECT_TRUE(policy.access.allows("CN=alice", Right::read, "pool", "all"));
}

TEST(TenantPolicy, NarrowRightsDoNotCoverWideOnes) {
    const auto wide = access_of({{"CN=a", {{"read", "pool/*"}}}});
    const auto narrow = access_of({{"CN=a", {{"read", "pool/run-*"}}}});
    const auto one = access_of({{"CN=a", {{"read", "pool/run-1"}}}});
    EXPECT_TRUE(wide.covers(narrow, "CN=a", "pool"));
    EXPECT_TRUE(narrow.covers(one, "CN=a", "pool"));
    EXPECT_FALSE(narrow.covers(wide, "CN=a", "pool"));
    EXPECT_FALSE(one.covers(narrow, "CN=a", "pool"));
    EXPECT_TRUE(one.covers(one, "CN=a", "pool"));
    EXPECT_TRUE(one.covers(wide, "CN=b", "pool"));
    // The right to write includes reading.
    const auto written = access_of({{"CN=a", {{"write", "pool/run-1"}}}});
    EXPECT_TRUE(written.covers(one, "CN=a", "pool"));
    EXPECT_FALSE(one.covers(written, "CN=a", "pool"));
}

}  // namespace
}  // namespace ros2s::tenancy
