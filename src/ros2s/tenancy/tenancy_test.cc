// Tenants' settings, their file, changes that are kept, and what they mean at a DPU.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "capability_rights.h"
#include "policy.h"
#include "registry.h"
#include "ros2s/base/durable_file.h"
#include "ros2s/runtime/sim/world.h"
#include "tenant.h"

namespace ros2s::tenancy {
namespace {

using session::Right;
using testing::HasSubstr;
using namespace std::chrono_literals;

Tenant tenant_of(const std::string& name, config::Entries settings) {
    Tenant tenant{.name = name, .settings = std::move(settings)};
    Report report;
    EXPECT_TRUE(parse_settings(tenant, "a test", report)) << report.text();
    return tenant;
}

TEST(Tenant, SettingsAreParsed) {
    const Tenant alice = tenant_of("alice", {{"subjects", "CN=alice; CN=alice-2"},
                                             {"read", "images, run-*"},
                                             {"until", "2027-01-31"},
                                             {"weight", "4"},
                                             {"bytes", "1MiB"},
                                             {"sessions", "8"},
                                             {"handles", "1000"},
                                             {"requests_in_flight", "16"},
                                             {"bytes_in_flight", "64MiB"}});
    EXPECT_THAT(alice.subjects, testing::ElementsAre("CN=alice", "CN=alice-2"));
    EXPECT_THAT(alice.granted[0],
                testing::ElementsAre(session::Granted{.label = "images"},
                                     session::Granted{.label = "run-", .is_prefix = true}));
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
TEST(Tenant, ASubjectMayHaveCommasAndSemicolons) {
    const Tenant tenant = tenant_of("a", {{"subjects", R"(CN=a\,b,O=Example; CN=c\;d;)"}});
    EXPECT_THAT(tenant.subjects, testing::ElementsAre(R"(CN=a\,b,O=Example)", R"(CN=c\;d)"));
}

TEST(Tenant, ABadSettingIsRefusedWithItsNameAndWhatToWrite) {
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

TEST(Tenant, TheFileHasEverything) {
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
TEST(Tenant, TheFormatsOfTheFile) {
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

TEST(Tenant, ADamagedFileIsRefusedWhole) {
    const auto refused = [](std::string_view text) {
        Report report;
        EXPECT_FALSE(parse_document(text, "tenants.yaml", report));
        return report.text();
    };
    EXPECT_THAT(refused("format: 3\n"), HasSubstr("format"));
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

class Registry : public testing::Test {
  protected:
    Registry() : directory(std::filesystem::temp_directory_path() / "tenancy_test.XXXXXX") {
        EXPECT_NE(::mkdtemp(directory.data()), nullptr);
    }
    ~Registry() override { std::filesystem::remove_all(directory); }
    [[nodiscard]] std::string file() const { return directory + "/tenants.yaml"; }

    // Opens the registry, runs `work` on it and closes it.
    template <class Work>
    void with(Work work) {
        Report report;
        std::unique_ptr<TenantRegistry> registry;
        world.run(open_and(*this, registry, report, work));
    }
    template <class Work>
    static Task<> open_and(Registry& self, std::unique_ptr<TenantRegistry>& registry,
                           Report& report, Work& work) {
        auto opened = co_await TenantRegistry::open(
            {.reactor = self.world.core(), .blocking = self.world.blocking()}, self.file(), report);
        EXPECT_TRUE(opened) << report.text();
        if (!opened) co_return;
        registry = std::move(*opened);
        co_await work(*registry);
        co_await registry->stop();
    }

    std::string directory;
    sim::World world{1};
};

const config::Entries alices{{"subjects", "CN=alice"}, {"write", "alice-*"}};

Task<> change_in_turn(TenantRegistry& registry) {
    Report report;
    const auto created = co_await registry.change(Change::create, "alice", alices, report);
    EXPECT_TRUE(created) << report.text();
    EXPECT_EQ((co_await registry.change(Change::create, "alice", alices, report)).error().code,
              Code::exists);
    EXPECT_EQ((co_await registry.change(Change::set, "bob", {}, report)).error().code,
              Code::not_found);
    EXPECT_EQ((co_await registry.change(Change::create, "bob", alices, report)).error().code,
              Code::exists);  // alice's subject
    const auto changed =
        co_await registry.change(Change::set, "alice", {{"weight", "4"}, {"write", ""}}, report);
    EXPECT_TRUE(changed);
    if (!changed) co_return;
    EXPECT_EQ(changed->generation, 2U);
    EXPECT_EQ(changed->settings, (config::Entries{{"subjects", "CN=alice"}, {"weight", "4"}}));
    const uint64_t version = registry.version();
    EXPECT_EQ(
        (co_await registry.change(Change::set, "alice", {{"weight", "x"}}, report)).error().code,
        Code::invalid);
    EXPECT_EQ(registry.version(), version);
    EXPECT_TRUE(co_await registry.change(Change::revoke, "alice", {}, report));
    EXPECT_NE(registry.version(), version);
}

// A container may have that name.
Task<> limit_and_remove(TenantRegistry& registry) {
    Report report;
    config::Entries limited = alices;
    limited.insert({{"sessions", "8"}, {"bytes_in_flight", "1MiB"}, {"space", "1GiB"}});
    EXPECT_TRUE(co_await registry.change(Change::create, "alice", limited, report));
    const auto changed = co_await registry.change(
        Change::set, "alice", {{"bytes_in_flight", "none"}, {"space", "none"}, {"read", "none"}},
        report);
    EXPECT_TRUE(changed) << report.text();
}
Task<> find_what_is_left(TenantRegistry& registry) {
    config::Entries left = alices;
    left.insert({{"sessions", "8"}, {"read", "none"}});
    EXPECT_EQ(registry.tenants().at("alice").settings, left);
    EXPECT_EQ(registry.tenants().at("alice").allowance, admission::Allowance{.sessions = 8});
    co_return;
}
TEST_F(Registry, NoneRemovesALimit) {
    with(limit_and_remove);
    with(find_what_is_left);
}

Task<> find_alice_revoked(TenantRegistry& registry) {
    const auto found = registry.tenants().find("alice");
    EXPECT_NE(found, registry.tenants().end());
    if (found == registry.tenants().end()) co_return;
    EXPECT_TRUE(found->second.revoked);
    EXPECT_EQ(found->second.generation, 3U);
    Report report;
    EXPECT_TRUE(co_await registry.change(Change::set, "alice", {}, report));
    EXPECT_FALSE(registry.tenants().at("alice").revoked);
}

TEST_F(Registry, ChangesAreKept) {
    with(change_in_turn);
    with(find_alice_revoked);
}

Uuid numbered(size_t number) {
    Uuid id;
    id.bytes[0] = static_cast<uint8_t>(number);
    id.bytes[1] = static_cast<uint8_t>(number >> 8);
    return id;
}

Task<> revoke_many(sim::World& world, TenantRegistry& registry) {
    Report report;
    const auto until = [&world] { return world.core().wall_time() + 1h; };
    EXPECT_EQ((co_await registry.revoke_capability("bob", numbered(0), {.until = until()}, report))
                  .error()
                  .code,
              Code::not_found);
    capability::PublicKey program{};
    program.fill(7);
    const uint64_t version = registry.version();
    const auto revoked = co_await registry.revoke_capability(
        "alice", numbered(0), {.program = program, .until = until()}, report);
    EXPECT_TRUE(revoked) << report.text();
    EXPECT_NE(registry.version(), version);
    EXPECT_EQ(registry.tenants().at("alice").generation, 1U);
    EXPECT_TRUE(registry.tenants().at("alice").is_active(world.core().wall_time()));
    EXPECT_EQ(revoked->revoked_capabilities.size(), revoked_capabilities_max);
    // Revoking the same one again needs no room, and its program stays recorded.
    EXPECT_TRUE(
        co_await registry.revoke_capability("alice", numbered(0), {.until = until()}, report));
    EXPECT_EQ(
        (co_await registry.revoke_capability("alice", numbered(1000), {.until = until()}, report))
            .error()
            .code,
        Code::too_large);
    // A change of the tenant keeps all revocations.
    EXPECT_TRUE(co_await registry.change(Change::set, "alice", {{"weight", "2"}}, report));
}

Task<> find_them_revoked(sim::World& world, TenantRegistry& registry) {
    const Tenant& alice = registry.tenants().at("alice");
    EXPECT_EQ(alice.revoked_capabilities.size(), revoked_capabilities_max);
    const capability::Capability other{.id = numbered(2000)}, first{.id = numbered(3)};
    capability::Capability of_program = other;
    of_program.holder.fill(7);
    const WallTime now = world.core().wall_time();
    EXPECT_FALSE(is_revoked(alice, other, other, now));
    EXPECT_TRUE(is_revoked(alice, first, other, now));
    EXPECT_TRUE(is_revoked(alice, other, first, now));
    EXPECT_TRUE(is_revoked(alice, of_program, other, now));
    // After that time its program can get capabilities again, and there is room.
    world.step_clock(2h);
    EXPECT_FALSE(is_revoked(alice, of_program, other, world.core().wall_time()));
    Report report;
    EXPECT_TRUE(co_await registry.revoke_capability(
        "alice", numbered(1000), {.until = world.core().wall_time() + 1h}, report));
    EXPECT_EQ(registry.tenants().at("alice").revoked_capabilities.size(), 1U);
    EXPECT_EQ(registry.tenants().at("alice").revocations, revoked_capabilities_max + 2);
}

TEST_F(Registry, SingleCapabilitiesAreRevokedUntilTheyHaveExpired) {
    Tenant alice = tenant_of("alice", alices);
    alice.revocations = revoked_capabilities_max - 1;
    for (size_t i = 1; i < revoked_capabilities_max; ++i) {
        alice.revoked_capabilities[numbered(i)] = {.until = world.core().wall_time() + 1h};
    }
    ASSERT_TRUE(replace_file(file(), document_of({.tenants = {{"alice", alice}}})));
    with([this](TenantRegistry& registry) { return revoke_many(world, registry); });
    with([this](TenantRegistry& registry) { return find_them_revoked(world, registry); });
}

// A tenant with settings of about 4 KB.
config::Entries long_settings(const std::string& name) {
    std::string list;
    for (int i = 0; i < 32; ++i) list += (i > 0 ? ", " : "") + std::string(120, 'x');
    return {{"subjects", "CN=" + name}, {"read", list}};
}

Task<> fill_and_revoke(sim::World& world, TenantRegistry& registry) {
    Report report;
    const WallTime until = world.core().wall_time() + 1h;
    // Settings stop early.
    size_t created = 0;
    while (created < 10) {
        const std::string name = fmt::format("new-{}", created);
        const auto made =
            co_await registry.change(Change::create, name, long_settings(name), report);
        if (!made) {
            EXPECT_EQ(made.error().code, Code::too_large);
            break;
        }
        ++created;
    }
    EXPECT_LT(created, 10U);
    EXPECT_THAT(report.text(), HasSubstr("`ros2store tenant set`"));
    // There is room for single revocations, and then for those of tenants.
    capability::PublicKey program{};
    for (size_t i = 0; i < 10; ++i) {
        EXPECT_TRUE(co_await registry.revoke_capability(
            "t-0", numbered(9000 + i), {.program = program, .until = until}, report))
            << report.text();
    }
    const auto more =
        co_await registry.revoke_capability("t-1", numbered(9999), {.until = until}, report);
    EXPECT_FALSE(more);
    EXPECT_THAT(report.text(), HasSubstr("`ros2store tenant revoke`"));
    EXPECT_TRUE(
        co_await registry.revoke_capability("t-0", numbered(9000), {.until = until}, report))
        << "the same again";
    for (const char* const name : {"t-0", "t-1"}) {
        EXPECT_TRUE(co_await registry.change(Change::revoke, name, {}, report)) << report.text();
    }
    // Revoked programs stay recorded. Everything else is revoked by the generation.
    EXPECT_EQ(registry.tenants().at("t-0").revoked_capabilities.size(), 33U);
    EXPECT_EQ(registry.tenants().at("t-1").revoked_capabilities.size(), 22U);
    // Shorter settings make room.
    for (const char* const name : {"t-0", "t-1"}) {
        EXPECT_TRUE(co_await registry.change(Change::set, name, {{"read", ""}}, report));
    }
    EXPECT_TRUE(co_await registry.change(Change::create, "late", long_settings("late"), report));
}

TEST_F(Registry, ThereIsAlwaysRoomForRevocations) {
    TenantsByName tenants;
    const WallTime until = world.core().wall_time() + 1h;
    for (size_t i = 0; i < 130; ++i) {
        const std::string name = fmt::format("t-{}", i);
        Tenant tenant = tenant_of(name, long_settings(name));
        for (size_t j = 0; j < 23; ++j) {
            RevokedCapability& revoked = tenant.revoked_capabilities[numbered(100 * i + j)];
            revoked.until = until;
            if (i != 1 || j > 0) revoked.program.emplace().fill(static_cast<uint8_t>(j));
        }
        tenants.emplace(name, std::move(tenant));
    }
    ASSERT_TRUE(replace_file(file(), document_of({.tenants = tenants})));
    with([this](TenantRegistry& registry) { return fill_and_revoke(world, registry); });
}

TEST(Tenant, AFullFileHasRoomForEveryRevocation) {
    TenantsByName plain, full;
    for (size_t i = 0; i < tenants_max; ++i) {
        const Tenant tenant = tenant_of(fmt::format("t-{}", i), {{"subjects", "CN=x"}});
        plain.emplace(tenant.name, tenant);
        Tenant& revoked = full.emplace(tenant.name, tenant).first->second;
        revoked.revoked = true;
        revoked.generation = revoked.revocations = UINT64_MAX;
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

// As if an administrator's command were interrupted between the two.
Task<> revoke_without_removing(TenantRegistry& registry) {
    Report report;
    EXPECT_TRUE(co_await registry.change(Change::create, "alice", alices, report));
    EXPECT_TRUE(co_await registry.change(Change::create, "bob", {{"subjects", "CN=bob"}}, report));
    const uint64_t version = registry.version();
    const auto active = co_await registry.change(Change::remove, "alice", {}, report);
    EXPECT_FALSE(active);
    EXPECT_THAT(report.text(), HasSubstr("`ros2store tenant revoke`"));
    EXPECT_EQ(registry.version(), version);
    EXPECT_EQ((co_await registry.change(Change::remove, "eve", {}, report)).error().code,
              Code::not_found);
    const Secrets secrets;
    EXPECT_TRUE(co_await registry.revoke_capability(
        "alice", Uuid::make(secrets),
        {.program = capability::PublicKey{}, .until = WallTime::max()}, report));
    EXPECT_TRUE(co_await registry.change(Change::revoke, "alice", {}, report));
}
Task<> remove_alice(TenantRegistry& registry) {
    Report report;
    EXPECT_TRUE(registry.tenants().at("alice").revoked);
    EXPECT_EQ(registry.tenants().at("alice").owner(), "alice");
    const uint64_t version = registry.version();
    int told = 0;
    registry.on_change([&told] { ++told; });
    const auto removed = co_await registry.change(Change::remove, "alice", {}, report);
    EXPECT_TRUE(removed) << report.text();
    if (removed) EXPECT_EQ(removed->generation, 2U);
    EXPECT_NE(registry.version(), version);
    EXPECT_EQ(told, 1);
    registry.on_change({});
    EXPECT_FALSE(registry.tenants().contains("alice"));
    EXPECT_EQ((co_await registry.change(Change::remove, "alice", {}, report)).error().code,
              Code::not_found);
}
Task<> create_alice_again(TenantRegistry& registry) {
    Report report;
    EXPECT_FALSE(registry.tenants().contains("alice"));
    EXPECT_EQ(registry.tenants().at("bob").generation, 1U);
    EXPECT_EQ(registry.tenants().at("bob").owner(), "bob");
    const auto again =
        co_await registry.change(Change::create, "alice", {{"subjects", "CN=eve"}}, report);
    EXPECT_TRUE(again) << report.text();
    if (!again) co_return;
    EXPECT_EQ(again->generation, 3U);
    EXPECT_EQ(again->owner(), "alice#3");
    EXPECT_EQ(again->settings, (config::Entries{{"subjects", "CN=eve"}}));
    EXPECT_TRUE(again->revoked_capabilities.empty());
    // The subject of the removed tenant is free. A new tenant does not begin at a generation that
    // an earlier one used.
    const auto carol = co_await registry.change(Change::create, "carol", alices, report);
    EXPECT_TRUE(carol) << report.text();
    if (carol) EXPECT_EQ(carol->generation, 3U);
    const auto changed = co_await registry.change(Change::set, "alice", {{"weight", "2"}}, report);
    EXPECT_TRUE(changed) << report.text();
    if (changed) EXPECT_EQ(changed->owner(), "alice#3");
    for (const Change what : {Change::revoke, Change::remove}) {
        EXPECT_TRUE(co_await registry.change(what, "alice", {}, report)) << report.text();
    }
    // A record with a lower generation does not lower it.
    for (const Change what : {Change::revoke, Change::remove}) {
        EXPECT_TRUE(co_await registry.change(what, "bob", {}, report)) << report.text();
    }
}
Task<> create_alice_a_third_time(TenantRegistry& registry) {
    Report report;
    const auto again =
        co_await registry.change(Change::create, "alice", {{"subjects", "CN=eve"}}, report);
    EXPECT_TRUE(again) << report.text();
    if (again) EXPECT_EQ(again->owner(), "alice#6");
}

// Each step runs in a new process.
TEST_F(Registry, ANameBeginsAnewAfterARemoval) {
    with(revoke_without_removing);
    with(remove_alice);
    with(create_alice_again);
    with(create_alice_a_third_time);
}

Task<> fail_to_remove(TenantRegistry& registry) {
    Report report;
    EXPECT_FALSE(co_await registry.change(Change::remove, "alice", {}, report));
    EXPECT_THAT(report.text(), HasSubstr("cannot write"));
    EXPECT_TRUE(registry.tenants().at("alice").revoked);
    EXPECT_EQ((co_await registry.change(Change::create, "carol", alices, report)).error().code,
              Code::exists)
        << "its subjects stay refused";
}

TEST_F(Registry, ARemovalThatCannotBeWrittenRemovesNothing) {
    with(revoke_without_removing);
    std::filesystem::create_directory(file() + ".new");
    with(fail_to_remove);
    std::filesystem::remove(file() + ".new");
    with(remove_alice);
}

Task<> replace_one_of_many(TenantRegistry& registry) {
    Report report;
    const auto create = [&] {
        return registry.change(Change::create, "one-more", {{"subjects", "CN=y"}}, report);
    };
    EXPECT_EQ((co_await create()).error().code, Code::too_large);
    EXPECT_THAT(report.text(), HasSubstr("`ros2store tenant remove`"));
    EXPECT_TRUE(co_await registry.change(Change::remove, "t-7", {}, report)) << report.text();
    EXPECT_TRUE(co_await create()) << report.text();
}

TEST_F(Registry, ARemovalMakesRoomForAnother) {
    TenantsByName tenants;
    for (size_t i = 0; i < tenants_max; ++i) {
        Tenant tenant = tenant_of(fmt::format("t-{}", i), {{"subjects", fmt::format("CN={}", i)}});
        tenant.revoked = true;
        tenants.emplace(tenant.name, std::move(tenant));
    }
    ASSERT_TRUE(replace_file(file(), document_of({.tenants = tenants})));
    with(replace_one_of_many);
}

Task<> fail_to_write(TenantRegistry& registry) {
    Report report;
    const uint64_t version = registry.version();
    EXPECT_FALSE(co_await registry.change(Change::create, "alice", alices, report));
    EXPECT_THAT(report.text(), HasSubstr("cannot write"));
    EXPECT_TRUE(registry.tenants().empty());
    EXPECT_EQ(registry.version(), version);
}

TEST_F(Registry, AChangeThatCannotBeWrittenChangesNothing) {
    std::filesystem::create_directory(file() + ".new");  // in the way
    with(fail_to_write);
}

Task<> wait_for_the_end(sim::World& world, TenantRegistry& registry) {
    Report report;
    config::Entries settings = alices;
    settings["until"] = "2100-01-01";
    EXPECT_TRUE(co_await registry.change(Change::create, "alice", settings, report));
    const uint64_t version = registry.version();
    const Time begun = world.now();
    co_await registry.wait(version);
    EXPECT_EQ(registry.version(), version);
    EXPECT_LE(world.now() - begun, TenantRegistry::heartbeat);
    // The engine's clock decides, also when it jumps.
    world.step_clock(std::chrono::hours(24 * 365 * 140));
    co_await registry.wait(version);
    EXPECT_NE(registry.version(), version);
    EXPECT_FALSE(registry.tenants().at("alice").is_active(world.core().wall_time()));
}

TEST_F(Registry, WaitingReturnsAfterAHeartbeatAndAtExpiry) {
    with([this](TenantRegistry& registry) { return wait_for_the_end(world, registry); });
}

Task<> set_the_clock_back(sim::World& world, TenantRegistry& registry) {
    constexpr auto far = std::chrono::hours(24 * 365 * 140);
    Report report;
    config::Entries settings = alices, of_bob{{"subjects", "CN=bob"}, {"write", "bob-*"}};
    settings["until"] = of_bob["until"] = "2100-01-01";
    EXPECT_TRUE(co_await registry.change(Change::create, "alice", settings, report));
    EXPECT_TRUE(co_await registry.change(Change::create, "bob", of_bob, report));
    EXPECT_TRUE(co_await registry.change(Change::revoke, "bob", {}, report));
    world.step_clock(far);
    co_await registry.wait(registry.version());
    EXPECT_FALSE(registry.tenants().at("alice").is_active(world.core().wall_time()));
    // She is told to be active again, like after a correction of a clock that was wrong.
    const uint64_t expired = registry.version();
    const Time begun = world.now();
    world.step_clock(-far);
    co_await registry.wait(expired);
    EXPECT_NE(registry.version(), expired);
    EXPECT_LE(world.now() - begun, TenantRegistry::heartbeat);
    EXPECT_TRUE(registry.tenants().at("alice").is_active(world.core().wall_time()));
    EXPECT_EQ(registry.tenants().at("alice").generation, 1U);
    // A revocation never expires, and changes are in order.
    EXPECT_FALSE(registry.tenants().at("bob").is_active(world.core().wall_time()));
    world.step_clock(-std::chrono::hours(24 * 365));
    EXPECT_FALSE(registry.tenants().at("bob").is_active(world.core().wall_time()));
    const auto changed = co_await registry.change(Change::set, "alice", {{"weight", "2"}}, report);
    EXPECT_TRUE(changed) << report.text();
    if (changed) EXPECT_EQ(changed->generation, 2U);
    // Heartbeats come as before.
    const uint64_t version = registry.version();
    const Time waiting = world.now();
    co_await registry.wait(version);
    EXPECT_EQ(registry.version(), version);
    EXPECT_LE(world.now() - waiting, TenantRegistry::heartbeat);
}

TEST_F(Registry, AClockThatIsSetBackEndsAnExpiryAndNoRevocation) {
    with([this](TenantRegistry& registry) { return set_the_clock_back(world, registry); });
}

TEST(Tenant, SpaceAndFilesAreCaps) {
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

session::AccessTable access_of(const session::AccessTable::Settings& settings) {
    Report report;
    auto access = session::AccessTable::parse(settings, "settings", report);
    EXPECT_TRUE(access) << report.text();
    return *access;
}

TEST(Policy, RightsOfSettingsAndOfTenantsAreAdded) {
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
TEST(Policy, ASubjectHasTheLimitsOfItsTenantInEachPool) {
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

TEST(Policy, TenantsOfOneNameInTwoPoolsAreTwo) {
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

TEST(Policy, ATenantMayHaveADirectory) {
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

TEST(Policy, FewerContainersDoNotCoverMore) {
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
