// Changes of tenants are kept, and seen by those who wait for them.
#include "registry.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "ros2s/base/durable_file.h"
#include "ros2s/runtime/sim/world.h"
#include "test_support/test_tenants.h"

namespace ros2s::tenancy {
namespace {

using testing::HasSubstr;
using namespace std::chrono_literals;

class TenantRegistryFile : public testing::Test {
  protected:
    TenantRegistryFile()
        : directory(std::filesystem::temp_directory_path() / "tenancy_test.XXXXXX") {
        EXPECT_NE(::mkdtemp(directory.data()), nullptr);
    }
    ~TenantRegistryFile() override { std::filesystem::remove_all(directory); }
    [[nodiscard]] std::string file() const { return directory + "/tenants.yaml"; }

    // Opens the registry, runs `work` on it and closes it.
    template <class Work>
    void with(Work work) {
        Report report;
        std::unique_ptr<TenantRegistry> registry;
        world.run(open_and(*this, registry, report, work));
    }
    template <class Work>
    static Task<> open_and(TenantRegistryFile& self, std::unique_ptr<TenantRegistry>& registry,
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
TEST_F(TenantRegistryFile, SettingNoneRemovesALimit) {
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

TEST_F(TenantRegistryFile, ChangesSurviveAReopen) {
    with(change_in_turn);
    with(find_alice_revoked);
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
    const auto alice = [&registry]() -> const Tenant& { return registry.tenants().at("alice"); };
    EXPECT_EQ(alice().revoked_capabilities.size(), revoked_capabilities_max);
    const capability::Capability other{.id = numbered(2000)}, first{.id = numbered(3)};
    capability::Capability of_program = other;
    of_program.holder.fill(7);
    EXPECT_FALSE(alice().has_revoked(other, other));
    EXPECT_TRUE(alice().has_revoked(first, other));
    EXPECT_TRUE(alice().has_revoked(other, first));
    EXPECT_TRUE(alice().has_revoked(of_program, other));
    // A clock that is wrong for a moment drops none.
    Report report;
    world.step_clock(24h);
    co_await sleep_for(world.core(), 2s);
    EXPECT_TRUE(co_await registry.change(Change::set, "alice", {{"weight", "3"}}, report));
    world.step_clock(-24h);
    EXPECT_TRUE(alice().has_revoked(of_program, other));
    EXPECT_EQ(alice().revoked_capabilities.size(), revoked_capabilities_max);
    EXPECT_EQ(alice().clock_min, WallTime());
    // After that time its program can get capabilities again, and there is room.
    co_await sleep_for(world.core(), 1h + 11s);
    EXPECT_FALSE(alice().has_revoked(of_program, other));
    // By an earlier clock, what was revoked would be valid.
    EXPECT_LT(world.core().wall_time() - alice().clock_min, 1min);
    EXPECT_EQ(registry.tenants().at("carol").clock_min, WallTime()) << "of another tenant";
    EXPECT_TRUE(co_await registry.revoke_capability(
        "alice", numbered(1000), {.until = world.core().wall_time() + 1h}, report));
    EXPECT_EQ(registry.tenants().at("alice").revoked_capabilities.size(), 1U);
    EXPECT_EQ(registry.tenants().at("alice").revocations, revoked_capabilities_max + 2);
}

TEST_F(TenantRegistryFile, RevokedCapabilitiesAreKeptUntilExpiry) {
    Tenant alice = tenant_of("alice", alices);
    alice.revocations = revoked_capabilities_max - 1;
    for (size_t i = 1; i < revoked_capabilities_max; ++i) {
        alice.revoked_capabilities[numbered(i)] = {.until = world.core().wall_time() + 1h};
    }
    const Tenant carol = tenant_of("carol", {{"subjects", "CN=carol"}});
    ASSERT_TRUE(
        replace_file(file(), document_of({.tenants = {{"alice", alice}, {"carol", carol}}})));
    with([this](TenantRegistry& registry) { return revoke_many(world, registry); });
    with([this](TenantRegistry& registry) { return find_them_revoked(world, registry); });
    with([this](TenantRegistry& registry) -> Task<> {  // NOLINT: awaited while it lives
        EXPECT_GT(registry.tenants().at("alice").clock_min, world.core().wall_time() - 1min)
            << "also after a restart";
        // What a change leaves invalid in any case needs no clock.
        Report report;
        EXPECT_TRUE(co_await registry.change(Change::set, "alice", {}, report));
        EXPECT_EQ(registry.tenants().at("alice").clock_min, WallTime());
    });
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

TEST_F(TenantRegistryFile, RevocationAlwaysHasRoom) {
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
TEST_F(TenantRegistryFile, RecreatedNameGetsANewGeneration) {
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

TEST_F(TenantRegistryFile, FailedRemovalRemovesNothing) {
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

TEST_F(TenantRegistryFile, RemovalMakesRoomForAnother) {
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

TEST_F(TenantRegistryFile, FailedChangeChangesNothing) {
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

TEST_F(TenantRegistryFile, WaitReturnsAtHeartbeatAndExpiry) {
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
    // A clock that is wrong for a moment expires nobody.
    co_await sleep_for(world.core(), TenantRegistry::clock_believed_after);
    world.step_clock(far);
    co_await registry.wait(registry.version());
    EXPECT_FALSE(registry.tenants().at("alice").is_active(world.core().wall_time()));
    co_await sleep_for(world.core(), TenantRegistry::clock_believed_after / 2);
    world.step_clock(-far);
    co_await sleep_for(world.core(), 1s);
    EXPECT_TRUE(registry.tenants().at("alice").is_active(world.core().wall_time()));
    world.step_clock(far);
    co_await sleep_for(world.core(), TenantRegistry::clock_believed_after + 1s);
    EXPECT_FALSE(registry.tenants().at("alice").is_active(world.core().wall_time()));
    world.step_clock(-far);
    co_await sleep_for(world.core(), 1s);
    EXPECT_FALSE(registry.tenants().at("alice").is_active(world.core().wall_time()));
    EXPECT_EQ(registry.tenants().at("alice").generation, 1U);
    // A revocation never expires, and changes are in order.
    EXPECT_FALSE(registry.tenants().at("bob").is_active(world.core().wall_time()));
    world.step_clock(-std::chrono::hours(24 * 365));
    EXPECT_FALSE(registry.tenants().at("bob").is_active(world.core().wall_time()));
    const auto changed = co_await registry.change(Change::set, "alice", {{"weight", "2"}}, report);
    EXPECT_TRUE(changed) << report.text();
    if (changed) EXPECT_EQ(changed->generation, 2U);
    EXPECT_FALSE(registry.tenants().at("alice").is_active(world.core().wall_time()));
    // Heartbeats come as before.
    const uint64_t version = registry.version();
    const Time waiting = world.now();
    co_await registry.wait(version);
    EXPECT_EQ(registry.version(), version);
    EXPECT_LE(world.now() - waiting, TenantRegistry::heartbeat);
}

Task<> set_another_end(sim::World& world, TenantRegistry& registry) {
    Report report;
    EXPECT_FALSE(registry.tenants().at("alice").is_active(world.core().wall_time()));
    for (const char* const until : {"2101-01-01", ""}) {
        EXPECT_TRUE(co_await registry.change(Change::set, "alice", {{"until", until}}, report));
        EXPECT_TRUE(registry.tenants().at("alice").is_active(world.core().wall_time())) << until;
    }
}

TEST_F(TenantRegistryFile, ClockSetBackUndoesNoExpiryOrRevocation) {
    with([this](TenantRegistry& registry) { return set_the_clock_back(world, registry); });
    with([this](TenantRegistry& registry) { return set_another_end(world, registry); });
}

}  // namespace
}  // namespace ros2s::tenancy
