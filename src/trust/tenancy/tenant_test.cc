// Tenants' settings and their file.
#include "tenant.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test_support/test_tenants.h"

namespace ros2s::tenancy {
namespace {

using testing::HasSubstr;

TEST(TenantSettings, SettingsAreParsed) {
    const Tenant alice = tenant_of("alice", {{"subjects", "CN=alice; CN=alice-2"},
                                             {"read", "images, run-*, c/data"},
                                             {"until", "2027-01-31"},
                                             {"weight", "4"},
                                             {"bytes", "1MiB"},
                                             {"sessions", "8"},
                                             {"handles", "1000"},
                                             {"requests_in_flight", "16"},
                                             {"bytes_in_flight", "64MiB"}});
    EXPECT_THAT(alice.subjects, testing::ElementsAre("CN=alice", "CN=alice-2"));
    using rights::Right;
    EXPECT_THAT(alice.grants,
                testing::ElementsAre(rights::Grant{"", {"images"}, "", {Right::read}},
                                     rights::Grant{"", {"run-*"}, "", {Right::read}},
                                     rights::Grant{"", {"c"}, "data", {Right::read}}));
    ASSERT_TRUE(alice.allowance);
    EXPECT_EQ(alice.allowance->weight, 4U);
    EXPECT_EQ(alice.allowance->bytes, 1U << 20);
    EXPECT_EQ(alice.allowance->sessions, 8U);
    EXPECT_EQ(alice.allowance->handles, 1000U);
    EXPECT_EQ(alice.allowance->requests_in_flight, 16U);
    EXPECT_EQ(alice.allowance->bytes_in_flight, 64U << 20);
    // 2027-01-31 in seconds since 1970.
    EXPECT_TRUE(alice.is_active(WallTime(std::chrono::seconds(1801353599))));
    EXPECT_FALSE(alice.is_active(WallTime(std::chrono::seconds(1801353600))));
}

// As RFC 2253 writes the name in a certificate.
TEST(TenantSettings, SubjectMayContainCommasAndSemicolons) {
    const Tenant tenant = tenant_of("a", {{"subjects", R"(CN=a\,b,O=Example; CN=c\;d;)"}});
    EXPECT_THAT(tenant.subjects, testing::ElementsAre(R"(CN=a\,b,O=Example)", R"(CN=c\;d)"));
}

TEST(TenantSettings, InvalidSettingIsRefusedWithAdvice) {
    const auto refused = [](const std::string& name, config::Entries settings) {
        Tenant tenant{.name = name, .settings = std::move(settings)};
        Report report;
        EXPECT_FALSE(parse_settings(tenant, "tenant", report));
        return report.text();
    };
    EXPECT_THAT(refused("a/b", {{"subjects", "CN=a"}}), HasSubstr("not the name of a tenant"));
    EXPECT_THAT(refused("a", {}), HasSubstr("'subjects' names no certificate"));
    EXPECT_THAT(refused("a", {{"subjects", "CN=a"}, {"read", "c/a//b"}}),
                HasSubstr("tenant: read: 'c/a//b': a name in its path is empty"));
    EXPECT_THAT(refused("a", {{"subjects", "CN=a"}, {"destroy", "c/a"}}),
                HasSubstr("tenant: destroy: 'c/a': this right is for whole containers"));
    EXPECT_THAT(refused("a", {{"subjects", "alice"}}), HasSubstr("tenant: subjects: 'alice'"));
    EXPECT_THAT(
        refused("a", {{"subjects", "CN=a"}, {"raed", "x"}}),
        HasSubstr("tenant: raed: there is no such setting; the settings are subjects, read"));
    EXPECT_THAT(refused("a", {{"subjects", "CN=a"}, {"read", "po*l"}}),
                HasSubstr("tenant: read: 'po*l' is not the name of a container"));
    EXPECT_THAT(refused("a", {{"subjects", "CN=a"}, {"until", "soon"}}), HasSubstr("2027-01-31"));
    EXPECT_THAT(refused("a", {{"subjects", "CN=a"}, {"until", "9999-01-01"}}), HasSubstr("2200"));
    EXPECT_THAT(refused("a", {{"subjects", "CN=a"}, {"until", "1027-01-31"}}), HasSubstr("1970"));
    EXPECT_THAT(refused("a", {{"subjects", "CN=a"}, {"weight", "0"}}), HasSubstr("weight"));
    EXPECT_THAT(refused("a", {{"subjects", "CN=a"}, {"sessions", "-1"}}),
                HasSubstr("sessions: \"-1\" is not a whole number"));
    EXPECT_THAT(refused("a", {{"subjects", "CN=a"}, {"bytes_in_flight", "2TiB"}}),
                HasSubstr("bytes_in_flight: \"2TiB\" is out of range"));
    EXPECT_THAT(refused("a", {{"subjects", "CN=a, CN=b"}}), HasSubstr("write a ; between two"));
    EXPECT_THAT(refused("a", {{"subjects", "CN=a\nrevoked: no"}}), HasSubstr("one line"));
}

TEST(TenantSettings, FileRoundTrips) {
    TenantsOfPool pool{.removed_generation = 5};
    pool.tenants.emplace("alice",
                         tenant_of("alice", {{"subjects", R"(CN=al"ice\)"}, {"read", "*"}}));
    Tenant bob = tenant_of("bob", {{"subjects", "CN=bob: yes #"}, {"burst", "1s"}});
    bob.generation = 7;
    bob.first_generation = 6;
    bob.revoked = true;
    bob.revocations = 300;
    const Secrets secrets;
    for (size_t i = 0; i < revoked_capabilities_max; ++i) {
        RevokedCapability& revoked = bob.revoked_capabilities[Uuid::make(secrets)];
        revoked.until = WallTime(Duration(1785000000000000000 + static_cast<int64_t>(i)));
        if (i % 2 == 0) revoked.program.emplace().fill(static_cast<uint8_t>(i));
    }
    pool.tenants.emplace("bob", bob);
    Report report;
    const auto read = parse_document(document_of(pool), "tenants.yaml", report);
    ASSERT_TRUE(read) << report.text();
    EXPECT_EQ(*read, pool);
    const auto none = parse_document(document_of({}), "tenants.yaml", report);
    ASSERT_TRUE(none) << report.text();
    EXPECT_TRUE(none->tenants.empty());
}

// Programs that know only format 1 can read it until a tenant was removed.
TEST(TenantSettings, FileUsesTheOldestSufficientFormat) {
    const std::string head =
        "# The tenants of this pool. `ros2store tenant` changes them while the engine runs.\n";
    TenantsOfPool pool;
    pool.tenants.emplace("bob", tenant_of("bob", {{"subjects", "CN=bob"}}));
    EXPECT_EQ(document_of(pool), head +
                                     "format: 1\n"
                                     "tenants:\n"
                                     "  \"bob\":\n"
                                     "    generation: 1\n"
                                     "    subjects: \"CN=bob\"\n");
    pool.removed_generation = 7;
    Tenant alice = pool.make("alice");
    alice.settings = {{"subjects", "CN=alice"}};
    pool.tenants.emplace("alice", alice);
    EXPECT_EQ(document_of(pool), head +
                                     "format: 2\n"
                                     "removed_generation: 7\n"
                                     "tenants:\n"
                                     "  \"alice\":\n"
                                     "    generation: 8\n"
                                     "    first_generation: 8\n"
                                     "    subjects: \"CN=alice\"\n"
                                     "  \"bob\":\n"
                                     "    generation: 1\n"
                                     "    subjects: \"CN=bob\"\n");
}

TEST(TenantSettings, FileKeepsClockMinimumAndExpiry) {
    Tenant alice = tenant_of("alice", {{"subjects", "CN=alice"}, {"until", "2026-01-01"}});
    alice.expired = true;
    TenantsOfPool pool;
    pool.tenants.emplace("alice", alice);
    EXPECT_THAT(document_of(pool), HasSubstr("format: 3\n"));
    alice.clock_min = WallTime(std::chrono::seconds(1'800'000'000));
    pool.tenants.at("alice") = alice;
    const std::string text = document_of(pool);
    EXPECT_THAT(text, HasSubstr("format: 4\n"));
    EXPECT_THAT(text, HasSubstr("    clock_min: 1800000000\n"));
    EXPECT_THAT(text, HasSubstr("    expired: true\n"));
    Report report;
    EXPECT_EQ(parse_document(text, "tenants.yaml", report), pool) << report.text();
    EXPECT_FALSE(alice.is_active(WallTime()));
    // Format 3 had one for all tenants.
    EXPECT_EQ(parse_document("format: 3\nclock_min: 1800000000000000000\n"
                             "tenants:\n  alice: {subjects: CN=alice, until: 2026-01-01, expired: "
                             "true}\n",
                             "tenants.yaml", report),
              pool)
        << report.text();
}

TEST(TenantSettings, DamagedFileIsRefused) {
    const auto refused = [](std::string_view text) {
        Report report;
        EXPECT_FALSE(parse_document(text, "tenants.yaml", report));
        return report.text();
    };
    EXPECT_THAT(refused("format: 5\n"), HasSubstr("format"));
    EXPECT_THAT(refused("format: 3\nclock_min: -1\n"), HasSubstr("clock_min"));
    EXPECT_THAT(refused("format: 2\nremoved_generation: -1\n"), HasSubstr("removed_generation"));
    const std::string most = std::to_string(UINT64_MAX);  // the next one would be 0
    EXPECT_THAT(refused("format: 2\nremoved_generation: " + most + "\n"),
                HasSubstr("removed_generation"));
    EXPECT_THAT(refused("format: 1\ntenants:\n  a: {subjects: CN=a, generation: " + most + "}\n"),
                HasSubstr("'a': generation"));
    EXPECT_THAT(refused("format: 2\ntenants:\n  a: {subjects: CN=a, first_generation: 0}\n"),
                HasSubstr("'a': first_generation"));
    EXPECT_THAT(refused("format: 1\ntenants:\n  a: {subjects: CN=a, raed: x}\n"),
                HasSubstr("tenants.yaml"));
    EXPECT_THAT(refused("format: 1\ntenants:\n  a: {subjects: CN=a}\n  b: {subjects: CN=a}\n"),
                HasSubstr("'CN=a' is a subject of the tenant 'a'"));
    EXPECT_THAT(refused("format: 1\ntenants:\n  a: {subjects: CN=a, generation: -1}\n"),
                HasSubstr("-1"));
    const std::string id = "1b4e28ba-2fa1-4d2b-883f-0016d3cca427";
    for (const std::string& text :
         std::vector<std::string>{id, id + " x", id + " 1 00", id + " 1 " + std::string(64, 'g'),
                                  id + " 1 " + std::string(64, '0') + " 1", "x 1"}) {
        EXPECT_THAT(refused(fmt::format("format: 1\ntenants:\n  a: {{subjects: CN=a, "
                                        "revoked_capabilities: \"{}\"}}\n",
                                        text)),
                    HasSubstr("'a': revoked_capabilities: this is not a list"));
    }
}

TEST(TenantSettings, FileErrorNamesItsLine) {
    const auto refused = [](std::string_view settings_of_bob) {
        Report report;
        const std::string text = fmt::format(
            "format: 1\ntenants:\n  ann: {{subjects: CN=ann}}\n  bob:\n{}", settings_of_bob);
        EXPECT_FALSE(parse_document(text, "tenants.yaml", report));
        return report.text();
    };
    const auto begins = [](std::string_view text) {
        return testing::StartsWith(std::string(text));
    };
    EXPECT_THAT(refused("    subjects: CN=bob\n    until: soon\n"),
                begins("tenants.yaml:6: 'bob': until: 'soon' is not a time"));
    EXPECT_THAT(refused("    subjects: CN=bob\n\n    weight: 0\n"),
                begins("tenants.yaml:7: 'bob': weight: "));
    EXPECT_THAT(refused("    subjects: CN=bob\n    generation: 0\n"),
                begins("tenants.yaml:6: 'bob': generation: "));
    EXPECT_THAT(refused("    subjects: CN=bob\n    revoked_capabilities: x\n"),
                begins("tenants.yaml:6: 'bob': revoked_capabilities: "));
    EXPECT_THAT(refused("    read: x\n    subjects: CN=ann\n"),
                begins("tenants.yaml:6: 'bob': subjects: 'CN=ann' is a subject of the tenant"));
    EXPECT_THAT(refused("    read: x\n"),
                begins("tenants.yaml:4: 'bob': 'subjects' names no certificate"));
}

TEST(TenantSettings, FullFileHasRoomForEveryRevocation) {
    TenantsByName plain, full;
    for (size_t i = 0; i < tenants_max; ++i) {
        const Tenant tenant = tenant_of(fmt::format("t-{}", i), {{"subjects", "CN=x"}});
        plain.emplace(tenant.name, tenant);
        Tenant& revoked = full.emplace(tenant.name, tenant).first->second;
        revoked.revoked = revoked.expired = true;
        revoked.generation = revoked.revocations = UINT64_MAX;
        revoked.clock_min = WallTime::max();
    }
    for (size_t i = 0; i < pool_revoked_capabilities_max; ++i) {
        RevokedCapability& revoked =
            full.at(fmt::format("t-{}", i % tenants_max)).revoked_capabilities[numbered(i)];
        revoked.program.emplace().fill(0xff);
        revoked.until = WallTime::max();
    }
    const size_t revocations =
        document_of({.tenants = full}).size() - document_of({.tenants = plain}).size();
    EXPECT_LE(pool_settings_bytes_max + revocations, size_t{1} << 20);
}

TEST(TenantSettings, SpaceAndFilesBecomeCaps) {
    const Tenant tenant =
        tenant_of("alice", {{"subjects", "CN=alice"}, {"space", "1TiB"}, {"files", "10M"}});
    EXPECT_EQ(tenant.caps.bytes, uint64_t{1} << 40);
    EXPECT_EQ(tenant.caps.values, 2 * 10'000'000U);
    const auto refused = [](const char* key, const char* text) {
        Tenant bad{.name = "bob", .settings = {{"subjects", "CN=bob"}, {key, text}}};
        Report report;
        EXPECT_EQ(parse_settings(bad, "tenant 'bob'", report).error().code, Code::invalid);
        return report.text();
    };
    EXPECT_EQ(refused("space", "much"),
              "tenant 'bob': space: 'much' is not a size; write it as in 500GiB; 0: no cap");
    EXPECT_EQ(refused("files", "10MiB"),
              "tenant 'bob': files: '10MiB' is not a number of files; write it as in 10M or 20000; "
              "0: no cap");
    EXPECT_EQ(refused("files", "-1").substr(0, 33), "tenant 'bob': files: '-1' is not ");
    EXPECT_NE(refused("files", "10000000000000000000"), "");
}

}  // namespace
}  // namespace ros2s::tenancy
