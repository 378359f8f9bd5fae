// Tenants of a real ros2store-engine, and how a real ros2store-dpu follows their changes.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "control_clients.h"
#include "dpu_process.h"
#include "dpu_tenant.h"
#include "eventually.h"
#include "open_files.h"
#include "relay.h"
#include "ros2s/remote/wire.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/os_reactor.h"
#include "ros2s/runtime/run_blocking.h"
#include "scraped.h"

namespace ros2s::tests {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;
using tenancy::Change;
using testing::HasSubstr;

const Call call;

class DaemonTenants : public testing::Test {
  protected:
    DaemonTenants() {
        reactor = started_reactor("hosts");
        issue_certificates(dpu, {"alice", "alice-2", "bob"});
        dpu.give(R"("CN=bob": {write: pool/main})");
        engine.write_settings("administrators: CN=client\n");
    }
    // Sends the request as the engine's administrator.
    std::string change(Change what, const std::string& name, config::Entries settings,
                       const std::string& pool = "pool") {
        Report report;
        const auto client = engine_client(*reactor, engine.places(), "client");
        (void)run_blocking(*reactor, [&] {
            return client->change_tenant(call, pool, what, name, std::move(settings), report);
        });
        return report.text();
    }
    connection::Options options(const std::string& name) const {
        return tenant_options(dpu, name, "pool");
    }
    void open(DpuTenant& tenant, const std::string& name, const std::string& file) {
        run_blocking(*reactor,
                     [&] { return tenant.open(*reactor, options(name), "main", file, 4096); });
    }
    // The DPU's answer to a new session.
    Result<> tries(const std::string& name) {
        Result<> answer;
        run_blocking(*reactor, [&] { return open_session(*reactor, options(name), answer); });
        return answer;
    }
    static Task<> open_session(OsReactor& reactor, connection::Options options, Result<>& answer) {
        Report report;
        auto opened = co_await connection::Connection::open(reactor, std::move(options), report);
        answer = opened ? Result<>() : fail(opened.error());
        if (opened) co_await (*opened)->close();
    }
    template <class Condition>
    static bool within_a_second(Condition condition) {
        const auto begun = steady_clock::now();
        do {
            if (condition()) return true;
            std::this_thread::sleep_for(5ms);
        } while (steady_clock::now() - begun < 1s);
        return false;
    }
    // True if the DPU serves her within a second.
    bool make_alice(config::Entries settings) {
        EXPECT_EQ(change(Change::create, "alice", std::move(settings)), "");
        return within_a_second([&] { return tries("alice").has_value(); });
    }
    bool is_alive(const DpuTenant& tenant) {
        bool alive = false;
        run_blocking(*reactor, [&] { return keep_alive(tenant, alive); });
        return alive;
    }
    static Task<> keep_alive(const DpuTenant& tenant, bool& alive) {
        Report report;
        alive = bool(co_await tenant.connection->control().keep_alive(
            call, tenant.location().session, report));
    }

    EngineProcess engine;
    DpuProcess dpu{engine, "shm"};
    std::unique_ptr<OsReactor> reactor;
};

TEST_F(DaemonTenants, RightsChangeWhileDaemonsRun) {
    ASSERT_TRUE(engine.start() && dpu.start()) << engine.log() << dpu.log();
    EXPECT_EQ(tries("alice").error().code, Code::denied);
    ASSERT_TRUE(make_alice({{"subjects", "CN=alice"}, {"write", "main"}, {"root_squash", "no"}}))
        << dpu.log();
    DpuTenant alice, bob;
    open(alice, "alice", "alices");
    open(bob, "bob", "bobs");

    // Additional rights end no session. Fewer rights end her session only.
    EXPECT_EQ(change(Change::set, "alice", {{"create", "alice-*"}}), "");
    std::this_thread::sleep_for(300ms);
    EXPECT_TRUE(is_alive(alice));
    EXPECT_EQ(change(Change::set, "alice", {{"write", ""}, {"read", "main"}}), "");
    EXPECT_TRUE(within_a_second([&] { return !is_alive(alice); })) << dpu.log();
    EXPECT_TRUE(tries("alice"));
    EXPECT_EQ(change(Change::revoke, "alice", {}), "");
    EXPECT_TRUE(within_a_second([&] { return !tries("alice"); })) << dpu.log();
    EXPECT_TRUE(is_alive(bob));
    EXPECT_THAT(dpu.log(), HasSubstr("rights of its subject were taken away"));
    EXPECT_THAT(engine.log(), HasSubstr("revoked the tenant 'alice' of the pool 'pool'"));

    run_blocking(*reactor, [&] { return bob.close(); });
    run_blocking(*reactor, [&] { return alice.close(); });
}

TEST_F(DaemonTenants, OpenFilesFollowTenantRights) {
    ASSERT_TRUE(engine.start() && dpu.start()) << engine.log() << dpu.log();
    ASSERT_TRUE(make_alice({{"subjects", "CN=alice"},
                            {"write", "kept, main"},
                            {"create", "kept"},
                            {"root_squash", "no"}}))
        << dpu.log();
    const auto host = [&](const std::string& container) {
        connection::HostOptions options = dpu.options("pool", container);
        options.dpu.identity = pki::identity_in(dpu.places().host_certs, "alice");
        return options;
    };
    Report report;
    const auto client = dpu_client(*reactor, dpu.places(), "alice");
    ASSERT_TRUE(run_blocking(*reactor, [&] {
        return client->create_container(call, "pool", {.label = "kept"}, {}, report);
    })) << report.text();
    {
        OpenFile goes(*reactor, host("main")), stays(*reactor, host("kept"));
        expect_that_files_follow_rights(goes, stays, [&](const config::Entries& settings) {
            EXPECT_EQ(change(Change::set, "alice", settings), "");
        });
    }
}

// A file system at the engine. Its root belongs to user 0, because root created the container.
Task<> act_as_squashed_root(OsReactor& reactor, connection::Options options, DpuTenant& alice) {
    EXPECT_TRUE(co_await alice.connect(reactor, std::move(options), "main"));
    hostlink::LinkClient& link = *alice.link;
    // Root acts as user nobody on both planes. No other user of the host acts as root either.
    EXPECT_EQ(to_errno((co_await link.mkdir(call, fs::root_node, "d", 0755, {})).error()), EACCES);
    EXPECT_EQ(to_errno((co_await alice.names->mkdir(call, fs::root_node, "d", 0755, {})).error()),
              EACCES);
    EXPECT_EQ(to_errno((co_await link.set_attributes(call, fs::root_node, {.mode = 0777})).error()),
              EPERM);
    EXPECT_TRUE(co_await link.get_attributes(call, fs::root_node));
}

TEST_F(DaemonTenants, RootIsSquashedUnlessConfigured) {
    ASSERT_TRUE(engine.start() && dpu.start()) << engine.log() << dpu.log();
    EXPECT_THAT(change(Change::create, "alice", {{"subjects", "CN=alice"}, {"users", "9-1"}}),
                HasSubstr("users: '9-1' is not 'any', or up to 64 numbers and ranges"));
    ASSERT_TRUE(make_alice({{"subjects", "CN=alice"}, {"write", "main"}})) << dpu.log();
    DpuTenant alice;
    run_blocking(*reactor, [&] { return act_as_squashed_root(*reactor, options("alice"), alice); });
    // Another grant of users changes the rights: existing sessions end.
    EXPECT_EQ(change(Change::set, "alice", {{"root_squash", "no"}}), "");
    EXPECT_TRUE(within_a_second([&] { return !is_alive(alice); })) << dpu.log();
    run_blocking(*reactor, [&] { return alice.close(); });
    DpuTenant again;
    open(again, "alice", "alices");
    run_blocking(*reactor, [&] { return again.close(); });
}

TEST_F(DaemonTenants, RevocationSurvivesRestarts) {
    ASSERT_TRUE(engine.start() && dpu.start()) << engine.log() << dpu.log();
    // The DPU's settings name bob.
    EXPECT_EQ(change(Change::create, "bob", {{"subjects", "CN=bob"}, {"read", "main"}}), "");
    EXPECT_EQ(change(Change::revoke, "bob", {}), "");
    engine.kill_hard();
    ASSERT_TRUE(engine.start()) << engine.log();
    EXPECT_TRUE(within_a_second([&] { return !tries("bob"); })) << dpu.log();
    dpu.kill_hard();
    ASSERT_TRUE(dpu.start()) << dpu.log();
    EXPECT_EQ(tries("bob").error().code, Code::denied);
    EXPECT_EQ(change(Change::set, "bob", {}), "");
    EXPECT_TRUE(within_a_second([&] { return tries("bob").has_value(); })) << dpu.log();
}

// Reads the file's first block. Errors: deadline, if that takes half a second.
Task<Result<uint64_t>> read_soon(OsReactor& reactor, DpuTenant& tenant) {
    std::vector<std::byte> memory(4096);
    const Call soon{.deadline = reactor.now() + std::chrono::milliseconds(500)};
    co_return co_await tenant.link->pread(soon, tenant.file, fs::Window::local(Bytes(memory)), 0);
}
Task<Result<>> mount_soon(OsReactor& reactor, DpuTenant& tenant) {
    const Call soon{.deadline = reactor.now() + std::chrono::milliseconds(500)};
    Report report;
    const auto mounted = co_await tenant.connection->control().mount(
        soon, tenant.location().session, "main", {.read_only = true}, report);
    co_return mounted ? Result<>() : fail(mounted.error());
}

// The data plane works, but the DPU cannot receive revocations.
TEST_F(DaemonTenants, DpuCutOffFromEngineServesNobody) {
    ASSERT_TRUE(engine.start()) << engine.log();
    Relay relay(engine.path("relay.sock"), engine.places().engine_control);
    dpu.reach_engine_at(engine.path("relay.sock"));
    ASSERT_TRUE(dpu.start()) << dpu.log();
    ASSERT_TRUE(make_alice({{"subjects", "CN=alice"}, {"write", "main"}, {"root_squash", "no"}}))
        << dpu.log();
    DpuTenant alice, bob;
    open(alice, "alice", "alices");
    open(bob, "bob", "bobs");
    // Returns nothing: the request succeeded.
    const auto read = [&](DpuTenant& tenant) {
        const auto done = run_blocking(*reactor, [&] { return read_soon(*reactor, tenant); });
        return done ? std::nullopt : std::optional(done.error().code);
    };
    const auto mount = [&](DpuTenant& tenant) {
        const auto done = run_blocking(*reactor, [&] { return mount_soon(*reactor, tenant); });
        return done ? std::nullopt : std::optional(done.error().code);
    };
    const auto eventually = [](const auto& condition) {
        for (int i = 0; i < 10; ++i) {
            if (within_a_second(condition)) return true;
        }
        return false;
    };
    EXPECT_TRUE(eventually([&] { return !read(alice); })) << dpu.log();
    EXPECT_TRUE(eventually([&] { return !mount(alice); })) << dpu.log();

    relay.cut(true);
    EXPECT_EQ(change(Change::revoke, "alice", {}), "");
    std::this_thread::sleep_for(1s);
    for (DpuTenant* const tenant : {&alice, &bob}) {
        EXPECT_EQ(read(*tenant), Code::deadline);
        EXPECT_EQ(mount(*tenant), Code::deadline);
    }
    EXPECT_TRUE(eventually([&] {
        return dpu.log().contains("does not report the rights in the pool 'pool' any more");
    })) << dpu.log();
    EXPECT_THAT(dpu.metrics(), HasSubstr(R"(ros2store_dpu_rights_known{pool="pool"} 0)"));

    relay.cut(false);
    EXPECT_TRUE(eventually([&] { return !read(bob); })) << dpu.log();
    EXPECT_TRUE(eventually([&] { return !mount(bob); })) << dpu.log();
    EXPECT_TRUE(within_a_second([&] { return !is_alive(alice); })) << dpu.log();
    EXPECT_EQ(tries("alice").error().code, Code::denied);
    EXPECT_THAT(dpu.log(), HasSubstr("reports the rights in the pool 'pool' again"));
    run_blocking(*reactor, [&] { return bob.close(); });
    run_blocking(*reactor, [&] { return alice.close(); });
}

TEST_F(DaemonTenants, OnlyAnAdministratorChangesTenants) {
    engine.write_settings();
    ASSERT_TRUE(engine.start()) << engine.log();
    EXPECT_THAT(change(Change::create, "eve", {{"subjects", "CN=client"}, {"write", "*"}}),
                HasSubstr("under 'administrators'"));
    EXPECT_THAT(engine.log(), HasSubstr("the settings need: administrators: \"CN=client\""));
}

Duration time_of_reads(OsReactor& reactor, DpuTenant& tenant, int times) {
    const auto begun = steady_clock::now();
    for (int i = 0; i < times; ++i) {
        std::vector<std::byte> memory(4096);
        const auto read = run_blocking(reactor, [&] {
            return tenant.link->pread(call, tenant.file, fs::Window::local(Bytes(memory)), 0);
        });
        EXPECT_TRUE(read);
    }
    return steady_clock::now() - begun;
}

// Two certificates of one tenant share its rate. The rate changes while they are connected.
TEST_F(DaemonTenants, LimitsChangeWhileConnected) {
    ASSERT_TRUE(engine.start() && dpu.start()) << engine.log() << dpu.log();
    ASSERT_TRUE(make_alice(
        {{"subjects", "CN=alice; CN=alice-2"}, {"write", "main"}, {"root_squash", "no"}}))
        << dpu.log();
    DpuTenant one, two;
    open(one, "alice", "ones");
    open(two, "alice-2", "twos");
    EXPECT_EQ(change(Change::set, "alice", {{"requests", "100"}, {"burst", "10ms"}}), "");
    std::this_thread::sleep_for(300ms);
    // 100 requests at 100 per second. The burst is one.
    const Duration limited = time_of_reads(*reactor, one, 50) + time_of_reads(*reactor, two, 50);
    EXPECT_GE(limited, 900ms);
    EXPECT_THAT(dpu.metrics(), HasSubstr(R"(ros2store_tenant_requests_total{tenant="alice"})"));
    EXPECT_EQ(change(Change::set, "alice", {{"requests", ""}, {"burst", ""}}), "");
    std::this_thread::sleep_for(300ms);
    EXPECT_LT(time_of_reads(*reactor, one, 100), 900ms);
    EXPECT_TRUE(is_alive(one) && is_alive(two));
    run_blocking(*reactor, [&] { return one.close(); });
    run_blocking(*reactor, [&] { return two.close(); });
}

Task<> read_once(DpuTenant& tenant) {
    std::vector<std::byte> memory(4096);
    EXPECT_TRUE(
        co_await tenant.link->pread(call, tenant.file, fs::Window::local(Bytes(memory)), 0));
}
Task<> read_at_once(OsReactor& reactor, DpuTenant& tenant, size_t count) {
    Nursery reading(reactor, count);
    for (size_t i = 0; i < count; ++i) co_await reading.spawn(read_once(tenant));
    co_await reading.join();
}
// Opens the root, and closes it.
Task<Result<>> open_once(DpuTenant& tenant) {
    ROS2S_CO_TRY_ASSIGN(const auto opened,
                        co_await tenant.link->open(call, fs::root_node, {.read = true}));
    co_return co_await tenant.link->close(call, opened.handle);
}

TEST_F(DaemonTenants, SimultaneousUseIsLimitedWhileConnected) {
    ASSERT_TRUE(engine.start() && dpu.start()) << engine.log() << dpu.log();
    EXPECT_EQ(change(Change::create, "alice",
                     {{"subjects", "CN=alice"}, {"write", "main"}, {"root_squash", "no"}}),
              "");
    ASSERT_TRUE(eventually([&] { return tries("alice").has_value(); })) << dpu.log();
    DpuTenant alice;
    open(alice, "alice", "alices");
    const auto set = [&](const char* limit, const char* value) {
        EXPECT_EQ(change(Change::set, "alice", {{limit, value}}), "");
    };
    // A limit below the present number ends nothing.
    set("sessions", "1");
    Result<> refused;
    EXPECT_TRUE(eventually([&] { return !(refused = tries("alice")); })) << dpu.log();
    EXPECT_EQ(to_errno(refused.error()), EBUSY);
    EXPECT_TRUE(is_alive(alice));
    EXPECT_TRUE(tries("bob"));
    set("sessions", "none");
    EXPECT_TRUE(eventually([&] { return tries("alice").has_value(); })) << dpu.log();

    // Its file is open twice.
    const auto opens = [&] { return run_blocking(*reactor, [&] { return open_once(alice); }); };
    EXPECT_TRUE(opens());
    set("handles", "1");
    EXPECT_TRUE(eventually([&] { return !(refused = opens()); })) << dpu.log();
    EXPECT_EQ(to_errno(refused.error()), EBUSY);
    set("handles", "3");
    EXPECT_TRUE(eventually([&] { return opens().has_value(); })) << dpu.log();

    // With one at a time, requests are slower, but none fails.
    set("requests_in_flight", "1");
    EXPECT_TRUE(eventually([&] {
        const double before = counted(dpu.metrics(), "ros2store_admission_waited_total");
        run_blocking(*reactor, [&] { return read_at_once(*reactor, alice, 16); });
        return counted(dpu.metrics(), "ros2store_admission_waited_total") > before;
    })) << dpu.log();
    set("requests_in_flight", "none");
    run_blocking(*reactor, [&] { return read_at_once(*reactor, alice, 16); });

    EXPECT_TRUE(is_alive(alice));
    EXPECT_THAT(dpu.metrics(), HasSubstr(R"(ros2store_tenant_handles{tenant="alice"} 2)"));
    run_blocking(*reactor, [&] { return alice.close(); });
}

// The DPU already has the only session that its subject may have at the engine.
TEST_F(DaemonTenants, EngineLimitsSessionsOfItsClients) {
    ASSERT_TRUE(engine.start()) << engine.log();
    EXPECT_EQ(change(Change::create, "own", {{"subjects", "CN=client"}, {"sessions", "1"}}), "");
    ASSERT_TRUE(dpu.start()) << dpu.log();
    const auto direct = [&] {
        Result<> answer;
        connection::Options own = engine.options("shm");
        own.service = remote::object_service;
        run_blocking(*reactor, [&] { return open_session(*reactor, std::move(own), answer); });
        return answer;
    };
    const auto refused = direct();
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::busy);
    EXPECT_EQ(change(Change::set, "own", {{"sessions", "2"}}), "");
    EXPECT_TRUE(direct());
}

// One certificate with a tenant in two pools. The tenant in the first pool by name has no limits.
TEST_F(DaemonTenants, SubjectInTwoPoolsHasTheLimitsOfEach) {
    engine.add_pool("another");
    engine.write_settings("administrators: CN=client\n");
    DpuProcess both{engine.path("both"),
                    fmt::format("pools: another, pool\n"
                                "engine: {{control: \"unix:{}\", name: localhost, providers: shm, "
                                "trusted_network: loopback, certificates: {}}}\n",
                                engine.places().engine_control, engine.places().storage_certs)};
    issue_certificates(both, {"alice"});
    ASSERT_TRUE(engine.start() && both.start()) << engine.log() << both.log();
    const config::Entries rights{
        {"subjects", "CN=alice"}, {"write", "main"}, {"root_squash", "no"}};
    EXPECT_EQ(change(Change::create, "guests", rights, "another"), "");
    config::Entries limited = rights;
    limited.insert({{"requests", "100"}, {"burst", "10ms"}});
    EXPECT_EQ(change(Change::create, "batch", limited), "");
    std::this_thread::sleep_for(300ms);
    DpuTenant there, here;
    run_blocking(*reactor, [&] {
        return there.open(*reactor, tenant_options(both, "alice", "another"), "main", "a", 4096);
    });
    run_blocking(*reactor, [&] {
        return here.open(*reactor, tenant_options(both, "alice", "pool"), "main", "a", 4096);
    });
    EXPECT_GE(time_of_reads(*reactor, here, 100), 900ms);
    EXPECT_LT(time_of_reads(*reactor, there, 100), 900ms);
    for (const char* tenant : {"guests", "batch"}) {
        EXPECT_THAT(
            both.metrics(),
            HasSubstr(fmt::format("ros2store_tenant_requests_total{{tenant=\"{}\"}}", tenant)));
    }
    run_blocking(*reactor, [&] { return here.close(); });
    run_blocking(*reactor, [&] { return there.close(); });
}

// A DPU that belongs to a tenant, and is neither delegate nor administrator, would not receive
// revocations of other tenants.
TEST_F(DaemonTenants, DpuSeeingOnlyItsTenantServesNobody) {
    ASSERT_TRUE(engine.start() && dpu.start()) << engine.log() << dpu.log();
    EXPECT_EQ(change(Change::create, "dpu", {{"subjects", "CN=client"}, {"weight", "4"}}), "");
    ASSERT_TRUE(tries("bob"));  // CN=client is an administrator
    EXPECT_EQ(dpu.stop(), 0) << dpu.log();
    EXPECT_EQ(engine.stop(), 0) << engine.log();
    engine.write_settings();
    ASSERT_TRUE(engine.start()) << engine.log();
    EXPECT_NONFATAL_FAILURE(dpu.start(), "the certificate of this DPU belongs to a tenant");
}

// The DPU is the engine's client, with the certificate CN=client. It stays connected.
TEST_F(DaemonTenants, DpuLimitsChangeWhileItRuns) {
    ASSERT_TRUE(engine.start() && dpu.start()) << engine.log() << dpu.log();
    DpuTenant bob;
    open(bob, "bob", "bobs");
    EXPECT_LT(time_of_reads(*reactor, bob, 100), 900ms);
    EXPECT_EQ(change(Change::create, "dpu",
                     {{"subjects", "CN=client"}, {"requests", "100"}, {"burst", "10ms"}}),
              "");
    EXPECT_GE(time_of_reads(*reactor, bob, 100), 900ms);
    EXPECT_EQ(change(Change::set, "dpu", {{"requests", ""}, {"burst", ""}}), "");
    EXPECT_LT(time_of_reads(*reactor, bob, 100), 900ms);
    EXPECT_TRUE(is_alive(bob));
    run_blocking(*reactor, [&] { return bob.close(); });
}

}  // namespace
}  // namespace ros2s::tests
