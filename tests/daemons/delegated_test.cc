// Work through a delegated DPU, with a real ros2store-engine and ros2store-dpu.
#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "delegated.h"
#include "eventually.h"
#include "open_files.h"
#include "strike.h"

namespace ros2s::tests {
namespace {

using std::chrono::steady_clock;

// Over both data planes: shared memory, and TLS between host and DPU and between DPU and engine.
TEST_P(DelegatedDaemons, HostsUseTheRightsOfTheirTenant) {
    start();
    ASSERT_EQ(change(Change::create, "alice", alices), "");
    ASSERT_EQ(change(Change::create, "bob", {{"subjects", "CN=bob"}, {"read", "main"}}), "");
    Client alice, bob, eve;
    Report report;
    ASSERT_TRUE(alice.open(*reactor, host("alice", "main"), report)) << report.text() << dpu.log();
    EXPECT_TRUE(write(alice, "one", 'a'));
    ASSERT_TRUE(bob.open(*reactor, host("bob", "main"), report)) << report.text();
    EXPECT_EQ(read(bob, "one"), Result<char>('a'));
    EXPECT_EQ(write(bob, "two", 'b').error().code, Code::read_only);
    // Two tenants, each with a session of its own at the engine.
    EXPECT_TRUE(write(alice, "three", 'c'));
    EXPECT_EQ(read(bob, "three"), Result<char>('c'));
    EXPECT_FALSE(eve.open(*reactor, host("eve", "main"), report));

    // Files and containers that hosts create belong to their tenant.
    ASSERT_TRUE(create("alice", "alice-1")) << said.text() << engine.log();
    EXPECT_EQ(record("alice-1").properties.owner, "alice");
    EXPECT_EQ(create("bob", "bob-1").error().code, Code::denied);
    Client own;
    ASSERT_TRUE(own.open(*reactor, host("alice", "alice-1"), report)) << report.text();
    EXPECT_TRUE(write(own, "file", 'd'));
    EXPECT_FALSE(eve.open(*reactor, host("bob", "alice-1"), report));
    for (Client* each : {&alice, &bob, &own}) each->close(*reactor);
    const auto control = dpu_as("alice");
    const auto listed = on(*reactor, [&] { return control->list_containers(call, "pool", said); });
    ASSERT_TRUE(listed) << said.text();
    EXPECT_EQ(listed->size(), 2U);
    EXPECT_TRUE(on(*reactor, [&] {
        return control->destroy_container(call, "pool", "alice-1", said);
    })) << said.text();
    EXPECT_THAT(engine.log(), HasSubstr("is for the tenant 'alice': read, write main"));
}
INSTANTIATE_TEST_SUITE_P(Planes, DelegatedDaemons, testing::Values("shm", "tls"));

INSTANTIATE_TEST_SUITE_P(Shm, DelegatedDpu, testing::Values("shm"));

TEST_P(DelegatedDpu, TenantCapLimitsItsHosts) {
    start();
    auto capped = alices;
    capped.emplace("space", "64KiB");
    ASSERT_EQ(change(Change::create, "alice", capped), "");
    ASSERT_TRUE(create("alice", "alice-1")) << said.text();
    Client alice;
    Report report;
    ASSERT_TRUE(alice.open(*reactor, host("alice", "alice-1"), report)) << report.text();
    Result<> written;
    for (int i = 0; i < 64 && written; ++i) written = write(alice, fmt::format("f{}", i), 'x');
    ASSERT_FALSE(written);
    EXPECT_EQ(to_errno(written.error()), EDQUOT);
    alice.close(*reactor);
    stop();
    // The engine's log names her, and who showed her capability.
    for (const char* what :
         {"action=write pool=pool container=alice-1 decision=refused reason=EDQUOT",
          "action=create pool=pool container=alice-1 decision=allowed reason=none"}) {
        EXPECT_THAT(engine.log(), testing::ContainsRegex(fmt::format(
                                      " tenant=alice shown_by=\"CN=client\" peer=[^ ]* {}", what)));
    }
}

TEST_P(DelegatedDpu, ContainersUseTheKeyOfTheirTenant) {
    const std::string keys = engine.pool_directory() + "/keys";
    std::filesystem::create_directory(keys);
    for (const std::string name : {"alice", "bob"}) {
        const std::string path = fmt::format("{}/pool-of-{}.key", keys, name);
        std::ofstream(path) << std::string(64, name == "alice" ? '7' : '8');
        std::filesystem::permissions(path, std::filesystem::perms(0600));
    }
    std::ofstream(dpu.places().dpu_settings, std::ios::app)
        << fmt::format("\nencryption: {{keys: '{}', new_containers: '%pool-of-%tenant'}}\n", keys);
    start();
    for (const char* name : {"alice", "bob", "eve"}) {
        ASSERT_EQ(change(Change::create, name,
                         {{"subjects", fmt::format("CN={}", name)},
                          {"create", fmt::format("{}-*", name)},
                          {"root_squash", "no"}}),
                  "");
    }
    Report report;
    for (const std::string name : {"alice", "bob"}) {
        ASSERT_TRUE(create(name, name + "-1")) << said.text() << dpu.log();
        Client client;
        ASSERT_TRUE(client.open(*reactor, host(name, name + "-1"), report)) << report.text();
        EXPECT_TRUE(write(client, "file", name.front()));
        client.close(*reactor);
    }
    // A tenant without a key creates nothing.
    EXPECT_EQ(to_errno(create("eve", "eve-1").error()), EKEYREJECTED);
    EXPECT_THAT(said.text(), HasSubstr("the key 'pool-of-eve'"));
    // Hosts do not learn where the keys are. The log of the DPU has it.
    const auto is_hidden = [&](const std::string& text, const std::string& name) {
        EXPECT_THAT(text, HasSubstr("ask the administrator of the DPU"));
        EXPECT_THAT(text, testing::Not(HasSubstr(keys)));
        EXPECT_TRUE(within_a_second([&] {
            return dpu.log().contains(fmt::format("cannot read {}/pool-of-{}.key", keys, name));
        })) << dpu.log();
        EXPECT_THAT(dpu.log(), HasSubstr("reason=EKEYREJECTED"));
    };
    is_hidden(said.text(), "eve");
    const auto admin = engine_as("admin");
    EXPECT_FALSE(
        on(*reactor, [&] { return admin->query_container(call, "pool", "eve-1", report); }));

    // Her data is shredded, and his is not.
    std::filesystem::remove(keys + "/pool-of-alice.key");
    Client alice, bob;
    Report refused;
    const auto opened = alice.open(*reactor, host("alice", "alice-1"), refused);
    EXPECT_EQ(to_errno(opened.error()), EKEYREJECTED);
    is_hidden(refused.text(), "alice");
    ASSERT_TRUE(bob.open(*reactor, host("bob", "bob-1"), report)) << report.text();
    EXPECT_EQ(read(bob, "file"), Result<char>('b'));
    bob.close(*reactor);
}

// By default only its creator can use a new container: this needs no other grant, and no other
// grant helps another tenant.
TEST_P(DelegatedDpu, NewContainerIsUsableOnlyByItsCreator) {
    start();
    for (const char* name : {"alice", "bob"}) {
        ASSERT_EQ(change(Change::create, name,
                         {{"subjects", fmt::format("CN={}", name)},
                          {"create", fmt::format("{}-*", name)},
                          {"root_squash", "no"}}),
                  "");
    }
    ASSERT_TRUE(create("alice", "alice-1")) << said.text();
    Client alice, bob;
    Report report;
    ASSERT_TRUE(alice.open(*reactor, host("alice", "alice-1"), report))
        << report.text() << dpu.log() << engine.log();
    EXPECT_TRUE(write(alice, "file", 'a'));
    EXPECT_EQ(read(alice, "file"), Result<char>('a'));

    EXPECT_FALSE(bob.open(*reactor, host("bob", "alice-1"), report));
    // Calls past his library do not give him access either.
    const auto bobs = dpu_as("bob");
    auto wanted = control::SessionOptions{.client = Uuid::make(reactor->secrets()),
                                          .purpose = session::Purpose::link,
                                          .pool = "pool",
                                          .program = "bob",
                                          .providers = {GetParam()}};
    const auto session = on(*reactor, [&] { return bobs->open_session(call, wanted, report); });
    ASSERT_TRUE(session) << report.text();
    const auto mounted = on(*reactor, [&] {
        return bobs->mount(call, session->id, "alice-1", {.read_only = true}, report);
    });
    EXPECT_EQ(mounted.error().code, Code::denied);
    const auto destroy = [&](ControlClient& client) {
        return on(*reactor,
                  [&] { return client.destroy_container(call, "pool", "alice-1", report); });
    };
    EXPECT_EQ(destroy(*bobs).error().code, Code::denied);
    const auto lists = [&](ControlClient& client) {
        const auto all = on(*reactor, [&] { return client.list_containers(call, "pool", report); });
        EXPECT_TRUE(all) << report.text();
        return all ? all->size() : 0;
    };
    EXPECT_EQ(lists(*bobs), 0U);

    const auto hers = dpu_as("alice");
    EXPECT_EQ(lists(*hers), 1U);
    EXPECT_EQ(destroy(*hers).error().code, Code::busy) << "it is mounted";
    EXPECT_EQ(read(alice, "file"), Result<char>('a'));
    alice.close(*reactor);
    EXPECT_TRUE(destroy(*hers)) << report.text() << dpu.log() << engine.log();
    EXPECT_EQ(lists(*hers), 0U);
}

TEST_P(DelegatedDpu, RevocationTakesEffectWithinASecond) {
    start();
    ASSERT_EQ(change(Change::create, "alice", alices), "");
    ASSERT_EQ(change(Change::create, "bob", {{"subjects", "CN=bob"}, {"read", "main"}}), "");
    Client alice, bob;
    Report report;
    ASSERT_TRUE(alice.open(*reactor, host("alice", "main"), report)) << report.text();
    ASSERT_TRUE(bob.open(*reactor, host("bob", "main"), report)) << report.text();
    ASSERT_TRUE(write(alice, "one", 'a'));
    // Changes that remove no right: her program gets a new capability each time and continues.
    for (int i = 0; i < 5; ++i) {
        ASSERT_EQ(change(Change::set, "alice", {{"weight", fmt::format("{}", i + 2)}}), "");
        EXPECT_TRUE(write(alice, fmt::format("two-{}", i), 'b')) << dpu.log() << engine.log();
    }
    EXPECT_EQ(read(alice, "one"), Result<char>('a'));

    ASSERT_EQ(change(Change::revoke, "alice", {}), "");
    // From here on the engine refuses, whatever the DPU does.
    EXPECT_TRUE(within_a_second([&] {
        return engine.log().find("its capability: its tenant was revoked") != std::string::npos;
    })) << engine.log();
    // Her library does not keep waiting for a session.
    const auto begun = steady_clock::now();
    EXPECT_FALSE(write(alice, "three", 'c'));
    EXPECT_LT(steady_clock::now() - begun, 10s);
    EXPECT_EQ(read(bob, "one"), Result<char>('a'));
    alice.close(*reactor);
    bob.close(*reactor);
}

TEST_P(DelegatedDpu, OpenFilesFollowTenantRights) {
    start();
    config::Entries rights = alices;
    rights["write"] = "kept, main";
    ASSERT_EQ(change(Change::create, "alice", rights), "");
    const auto admin = engine_as("admin");
    ASSERT_TRUE(on(*reactor, [&] {
        return admin->create_container(call, "pool", {.label = "kept"}, {}, said);
    })) << said.text();
    {
        OpenFile goes(*reactor, host("alice", "main")), stays(*reactor, host("alice", "kept"));
        expect_that_files_follow_rights(goes, stays, [&](const config::Entries& settings) {
            EXPECT_EQ(change(Change::set, "alice", settings), "");
        });
    }
}

// Two programs of a tenant: the one whose capability is revoked loses access, and does not get it
// back.
TEST_P(DelegatedDpu, RevokedCapabilityEndsOnlyItsProgram) {
    start();
    ASSERT_EQ(change(Change::create, "alice", alices), "");
    std::array<Client, 2> programs;
    Report report;
    for (Client& each : programs) {
        ASSERT_TRUE(each.open(*reactor, host("alice", "main"), report)) << report.text();
        ASSERT_TRUE(write(each, fmt::format("file-{}", &each - programs.data()), 'a'));
    }
    // The DPU uses the last chain that was handed over.
    const auto admin = engine_as("admin");
    const auto before = in_use("alice");
    ASSERT_EQ(before.size(), 1U);
    EXPECT_EQ(before.front().shown_by, "CN=client");
    EXPECT_EQ(before.front().use.container.text, "main");
    const auto ended = on(*reactor, [&] {
        return admin->revoke_capability(call, "pool", "alice", before.front().first, report);
    });
    ASSERT_TRUE(ended) << report.text();
    EXPECT_EQ(*ended, 1U);
    const auto begun = steady_clock::now();
    std::array<bool, 2> goes_on{};
    for (size_t i = 0; i < 2; ++i) goes_on[i] = write(programs[i], "new", 'b').has_value();
    EXPECT_NE(goes_on[0], goes_on[1]) << dpu.log() << engine.log();
    EXPECT_LT(steady_clock::now() - begun, 10s);
    EXPECT_THAT(engine.log(), HasSubstr("its capability: it was revoked"));
    EXPECT_THAT(engine.log(), HasSubstr("a capability of this program was revoked"));
    const auto after = in_use("alice");
    ASSERT_EQ(after.size(), 1U);
    EXPECT_NE(after.front().first, before.front().first);
    // The other program still has its data. A new program gets its own capability.
    Client another;
    ASSERT_TRUE(another.open(*reactor, host("alice", "main"), report)) << report.text();
    EXPECT_EQ(read(another, "new"), Result<char>('b'));
    EXPECT_EQ(read(programs[goes_on[0] ? 0 : 1], "new"), Result<char>('b'));
    for (Client& each : programs) each.close(*reactor);
    another.close(*reactor);
}

TEST_P(DelegatedDpu, ProgramsRenewInTime) {
    start("2s");
    ASSERT_EQ(change(Change::create, "alice", alices), "");
    Client alice;
    Report report;
    ASSERT_TRUE(alice.open(*reactor, host("alice", "main"), report)) << report.text();
    const auto admin = engine_as("admin");
    for (int i = 0; i < 6; ++i) {
        EXPECT_TRUE(write(alice, fmt::format("file-{}", i), 'a')) << dpu.log() << engine.log();
        // A new key of the engine does not affect clients that work.
        if (i == 2) {
            EXPECT_TRUE(on(*reactor, [&] {
                return admin->rotate_capability_key(call, "pool", report);
            })) << report.text();
        }
        std::this_thread::sleep_for(1s);
    }
    EXPECT_THAT(engine.log(), testing::Not(HasSubstr("its capability expired")));
    alice.close(*reactor);
}

// The engine divides its time by accounts: the accounts are those of tenants, not of the DPU.
TEST_P(DelegatedDpu, EngineCountsRequestsForTenants) {
    start();
    for (const char* name : {"alice", "bob"}) {
        ASSERT_EQ(change(Change::create, name,
                         {{"subjects", fmt::format("CN={}", name)},
                          {"write", "main"},
                          {"root_squash", "no"}}),
                  "");
    }
    std::array<Client, 2> clients;
    Report report;
    ASSERT_TRUE(clients[0].open(*reactor, host("alice", "main"), report)) << report.text();
    ASSERT_TRUE(clients[1].open(*reactor, host("bob", "main"), report)) << report.text();
    for (int i = 0; i < 40; ++i) {
        ASSERT_TRUE(write(clients[0], fmt::format("alice-{}", i), 'a'));
        if (i % 4 == 0) ASSERT_TRUE(write(clients[1], fmt::format("bob-{}", i), 'b'));
    }
    std::string seen = engine.metrics();
    const auto count_of = [&seen](std::string_view what, const std::string& tenant) {
        const std::string label =
            fmt::format("ros2store_tenant_{}_total{{tenant=\"{}\"}} ", what, tenant);
        const size_t at = seen.find(label);
        return at == std::string::npos ? 0 : std::stoull(seen.substr(at + label.size()));
    };
    const auto writes_of = [&](const std::string& tenant) {
        return count_of("bytes", tenant) / bytes;
    };
    EXPECT_GE(writes_of("alice"), 40U) << seen;
    EXPECT_GE(writes_of("bob"), 10U);
    EXPECT_LT(writes_of("bob"), 40U);
    EXPECT_EQ(writes_of("CN=client"), 0U);
    // Direct clients of a tenant use the same account.
    EXPECT_EQ(seen.find("tenant=\"CN=alice\""), std::string::npos);
    // A look-up counts as a request on names, as at the DPU.
    const auto requests = count_of("requests", "alice"), names = count_of("names", "alice");
    for (int i = 0; i < 40; ++i) {
        EXPECT_TRUE(on(*reactor,
                       [&] { return clients[0].files().lookup(call, fs::root_node, "alice-0"); }));
    }
    seen = engine.metrics();
    EXPECT_GE(count_of("names", "alice"), names + 40);
    EXPECT_LT(count_of("requests", "alice"), requests + 40);
    for (Client& each : clients) each.close(*reactor);
}

// The DPU has a session for each container and kind of mount. Reports show them as one connection
// to a pool.
TEST_P(DelegatedDpu, SessionsAreCountedAsOneConnection) {
    start();
    ASSERT_EQ(change(Change::create, "alice", alices), "");
    const auto updates = [&]() -> uint64_t {
        constexpr std::string_view name =
            "ros2store_client_update_requests_total{side=\"engine\",pool=\"pool\",provider=\"shm\"}"
            " ";
        const std::string seen = dpu.metrics();
        const size_t at = seen.find(name);
        return at == std::string::npos ? 0 : std::stoull(seen.substr(at + name.size()));
    };
    EXPECT_EQ(updates(), 0U);
    Client alice;
    Report report;
    ASSERT_TRUE(alice.open(*reactor, host("alice", "main"), report)) << report.text();
    EXPECT_TRUE(write(alice, "one", 'a'));
    const uint64_t before = updates();
    EXPECT_GE(before, 1U);
    EXPECT_THAT(dpu.log(), HasSubstr("the pool 'pool' for the tenant 'alice': shm to "));
    // The first session ends, and its counters stay.
    ASSERT_EQ(change(Change::set, "alice", {{"weight", "2"}}), "");
    EXPECT_TRUE(write(alice, "two", 'b'));
    EXPECT_GE(updates(), before + 1);
    alice.close(*reactor);
}

// The user of the DPU may have a third of the engine's 12 connections. Each container needs two:
// one for its creation, and one for its mounts.
TEST_P(DelegatedDpu, UnusedSessionsMakeRoomAtAFullEngine) {
    start("5min", {}, "service: {connections: 12}\n");
    ASSERT_EQ(change(Change::create, "alice", alices), "");
    const auto label = [](size_t number) { return fmt::format("alice-{}", number); };
    Report report;
    for (size_t i = 0; i < 8; ++i) {
        ASSERT_TRUE(create("alice", label(i))) << said.text() << dpu.log();
        Client client;
        ASSERT_TRUE(client.open(*reactor, host("alice", label(i)), report)) << report.text();
        EXPECT_TRUE(write(client, "file", 'a'));
        client.close(*reactor);
    }
    std::vector<std::unique_ptr<Client>> used;
    for (bool has_room = true; has_room && used.size() < 8;) {
        auto client = std::make_unique<Client>();
        has_room = client->open(*reactor, host("alice", label(used.size())), report).has_value();
        if (has_room) used.push_back(std::move(client));
    }
    EXPECT_EQ(used.size(), 4U);
    EXPECT_THAT(report.text(), HasSubstr("connections_of_user"));
    for (auto& client : used) {
        EXPECT_EQ(read(*client, "file"), Result<char>('a'));
        client->close(*reactor);
    }
    // Nobody needs the room, and they end nevertheless.
    EXPECT_TRUE(eventually([&] { return in_use("alice").empty(); }, 20s)) << dpu.log();
    Client again;
    ASSERT_TRUE(again.open(*reactor, host("alice", label(7)), report)) << report.text();
    EXPECT_EQ(read(again, "file"), Result<char>('a'));
    again.close(*reactor);
}

// It reports this in its metrics, to `doctor` of its hosts and in its log. A mount does not hang.
TEST_P(DelegatedDpu, AbsentEngineIsReported) {
    start();
    ASSERT_EQ(change(Change::create, "alice", alices), "");
    const auto host_control = dpu_as("alice");
    const auto absent = [&] {
        const auto facts = on(*reactor, [&] { return host_control->query_server(call, said); });
        return facts ? facts->absent.size() : 99;
    };
    EXPECT_EQ(absent(), 0U);
    EXPECT_THAT(dpu.metrics(),
                HasSubstr("ros2store_engine_reachable{side=\"engine\",pool=\"pool\"} 1"));
    engine.kill_hard();
    EXPECT_TRUE(eventually([&] { return absent() == 1; }));
    EXPECT_THAT(dpu.log(), HasSubstr("which has the pool 'pool', cannot be reached"));
    EXPECT_THAT(dpu.metrics(),
                HasSubstr("ros2store_engine_reachable{side=\"engine\",pool=\"pool\"} 0"));
    Client alice;
    Report report;
    ASSERT_TRUE(engine.start()) << engine.log();
    EXPECT_TRUE(eventually([&] { return absent() == 0; }));
    EXPECT_THAT(dpu.log(), HasSubstr("which has the pool 'pool', is back after"));
    ASSERT_TRUE(alice.open(*reactor, host("alice", "main"), report)) << report.text();
    EXPECT_TRUE(write(alice, "one", 'a'));
    // A running engine that does not answer.
    alice.close(*reactor);
    ::kill(engine.pid(), SIGSTOP);
    const auto hung = steady_clock::now();
    EXPECT_FALSE(alice.open(*reactor, host("alice", "main"), report));
    EXPECT_LT(steady_clock::now() - hung, 60s);
    EXPECT_TRUE(eventually([&] { return absent() == 1; }));
    ::kill(engine.pid(), SIGCONT);
    EXPECT_TRUE(eventually([&] { return absent() == 0; }));
}

TEST_P(DelegatedDpu, RestartsOnEitherSideAreSurvived) {
    start();
    ASSERT_EQ(change(Change::create, "alice", alices), "");
    Client alice;
    Report report;
    ASSERT_TRUE(alice.open(*reactor, host("alice", "main"), report)) << report.text();
    ASSERT_TRUE(write(alice, "one", 'a'));
    dpu.kill_hard();  // its key is gone
    ASSERT_TRUE(dpu.start()) << dpu.log();
    EXPECT_TRUE(write(alice, "two", 'b')) << dpu.log() << engine.log();
    engine.kill_hard();
    ASSERT_TRUE(engine.start()) << engine.log();
    EXPECT_TRUE(write(alice, "three", 'c')) << dpu.log() << engine.log();
    EXPECT_EQ(read(alice, "one"), Result<char>('a'));
    alice.close(*reactor);
}

// It is killed before the engine has the request, and after the engine has done it. The one that is
// started has another key, and no capability.
TEST_P(DelegatedDpu, KilledDpuCreatesAndDestroysOnce) {
    start();
    ASSERT_EQ(change(Change::create, "alice", alices), "");
    // CN=bob may destroy only what it owns. This right ends with the container.
    ASSERT_EQ(change(Change::create, "bob",
                     {{"subjects", "CN=bob"}, {"create", "bob-*"}, {"root_squash", "no"}}),
              "");
    const auto kill_at = [&](const char* at, auto work) {
        dpu.strike_at(at);
        std::thread host([&] { EXPECT_TRUE(on(*reactor, work)) << at << ": " << said.text(); });
        dpu.expect_struck();
        EXPECT_TRUE(dpu.start()) << dpu.log();
        host.join();
    };
    for (const std::string name : {"alice", "bob"}) {
        const auto client = dpu_as(name);
        const std::string label = name + "-1";
        const auto made = [&] {
            return client->create_container(call, "pool", {.label = label}, {}, said);
        };
        const auto destroyed = [&] { return client->destroy_container(call, "pool", label, said); };
        for (const auto& [creating, destroying] :
             {std::pair(point::dpu_asks_to_create, point::dpu_asks_to_destroy),
              std::pair(point::audit_line, point::audit_line)}) {
            kill_at(creating, made);
            EXPECT_EQ(record(label).properties.owner, name);
            EXPECT_EQ(create(name, label).error().code, Code::exists);
            Client files;
            EXPECT_TRUE(files.open(*reactor, host(name, label), said)) << said.text();
            files.close(*reactor);
            kill_at(destroying, destroyed);
            EXPECT_TRUE(create(name, label)) << said.text();
            EXPECT_TRUE(on(*reactor, destroyed)) << said.text();
        }
    }
}

Task<Result<>> make_directory(fs::FileSystem& files) {
    ROS2S_CO_TRY(co_await files.mkdir(call, fs::root_node, "home", 0777, {}));
    co_return Result<>{};
}
Task<Result<>> write_in_directory(fs::FileSystem& files) {
    ROS2S_CO_TRY_ASSIGN(const auto home, co_await files.lookup(call, fs::root_node, "home"));
    ROS2S_CO_TRY_ASSIGN(const auto opened,
                        co_await files.create(call, home.node, "x", 0644, {.write = true}, {}));
    co_return co_await files.close(call, opened.handle);
}

TEST_P(DelegatedDpu, DirectoryRightsPassThrough) {
    start();
    ASSERT_EQ(change(Change::create, "alice", alices), "");
    ASSERT_EQ(change(Change::create, "bob",
                     {{"subjects", "CN=bob"}, {"write", "main/home"}, {"root_squash", "no"}}),
              "");
    Client alice, bob;
    Report report;
    ASSERT_TRUE(alice.open(*reactor, host("alice", "main"), report)) << report.text();
    ASSERT_TRUE(on(*reactor, [&] { return make_directory(alice.files()); }));
    ASSERT_TRUE(write(alice, "outside", 'o'));
    ASSERT_TRUE(bob.open(*reactor, host("bob", "main"), report)) << report.text();
    EXPECT_TRUE(on(*reactor, [&] { return write_in_directory(bob.files()); })) << dpu.log();
    EXPECT_EQ(read(bob, "outside").error().code, Code::not_found);
    EXPECT_FALSE(write(bob, "new", 'n'));
    EXPECT_THAT(engine.log(), HasSubstr("for the tenant 'bob': read, write directories of main"));
    alice.close(*reactor);
    bob.close(*reactor);
}

}  // namespace
}  // namespace ros2s::tests
