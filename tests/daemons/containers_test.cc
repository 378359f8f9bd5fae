// Containers are created and destroyed exactly once, although replies are lost and daemons are
// killed with -9. Real daemons, and clients of their control planes.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "control_clients.h"
#include "dpu_process.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/os_reactor.h"
#include "ros2s/runtime/run_blocking.h"

namespace ros2s::tests {
namespace {

using control::ControlClient;
using object::ContainerRecord;

// The parameter: "engine", or "dpu" in front of an engine.
class ContainersExactlyOnce : public testing::TestWithParam<const char*> {
  protected:
    void SetUp() override {
        reactor = started_reactor("client");
        ASSERT_TRUE(engine.start() && (!is_dpu() || dpu.start()));
        connect_as("client");
    }
    // The requests that follow are this subject's.
    void connect_as(const std::string& name) {
        run_blocking(*reactor, [&] { return drop(); });
        client = (is_dpu() ? dpu_client : engine_client)(*reactor, engine.places(), name);
    }
    void TearDown() override {
        run_blocking(*reactor, [&] { return drop(); });
        if (is_dpu()) EXPECT_EQ(dpu.stop(), 0) << dpu.log();
        EXPECT_EQ(engine.stop(), 0) << engine.log();
    }
    static bool is_dpu() { return std::string_view(GetParam()) == "dpu"; }
    void kill_and_start() {
        is_dpu() ? dpu.kill_hard() : engine.kill_hard();
        start_again();
    }
    void start_again() {
        ASSERT_TRUE(is_dpu() ? dpu.start() : engine.start());
        // The client reconnects.
        for (int tries = 0; tries < 60'000; ++tries) {
            Report ignored;
            if (run_blocking(*reactor, [&] { return client->query_server(plain, ignored); }))
                return;
            ::usleep(1000);
        }
        FAIL() << "it does not answer";
    }
    Result<ContainerRecord> create(const std::string& label, const UpdateName& name,
                                   bool repeated = false) {
        const Call call{.update = &name, .repeated = repeated};
        return run_blocking(*reactor, [&] {
            return client->create_container(call, "pool", {.label = label}, {}, report);
        });
    }
    Result<> destroy(const std::string& label, const UpdateName& name, bool repeated = false) {
        const Call call{.update = &name, .repeated = repeated};
        return run_blocking(*reactor,
                            [&] { return client->destroy_container(call, "pool", label, report); });
    }
    // The containers except the one of `up`.
    std::vector<ContainerRecord> found() {
        auto all =
            run_blocking(*reactor, [&] { return client->list_containers(plain, "pool", report); });
        EXPECT_TRUE(all) << report.text();
        if (!all) return {};
        std::erase_if(*all, [](const auto& each) { return each.properties.label == "main"; });
        return std::move(*all);
    }
    Task<> drop() {
        client.reset();
        co_return;
    }

    const Call plain;
    EngineProcess engine;
    DpuProcess dpu{engine, "shm"};
    Report report;
    std::unique_ptr<OsReactor> reactor;
    std::unique_ptr<ControlClient> client;
};
INSTANTIATE_TEST_SUITE_P(Of, ContainersExactlyOnce, testing::Values("engine", "dpu"),
                         [](const auto& info) { return std::string(info.param); });

// To the daemon a lost reply looks like a delivered one. So this reply is delivered, and the daemon
// is killed afterwards.
TEST_P(ContainersExactlyOnce, RepeatedCallAfterKillGetsStoredReply) {
    UpdateName creation{.client = Uuid::make(reactor->secrets()), .slot = 3, .sequence = 1};
    const auto made = create("once", creation);
    ASSERT_TRUE(made) << report.text();
    kill_and_start();
    const auto again = create("once", creation, true);
    ASSERT_TRUE(again) << report.text();
    EXPECT_EQ(again->id, made->id);
    EXPECT_EQ(again->created, made->created);
    EXPECT_EQ(found().size(), 1U);
    // It has a file system.
    std::string said;
    EXPECT_EQ(run_program(fmt::format("'{}' ls '{}:///pool/once?dir={}'", PROGRAM_CLI,
                                      is_dpu() ? "ros2s+dpu" : "ros2s", engine.pool_directory()),
                          said),
              0)
        << said;
    // The same request of another client is a different one.
    const UpdateName other{.client = Uuid::make(reactor->secrets()), .slot = 3, .sequence = 1};
    EXPECT_EQ(create("once", other).error().code, Code::exists);

    UpdateName removal{.client = creation.client, .slot = 4, .sequence = 1};
    ASSERT_TRUE(destroy("once", removal)) << report.text();
    kill_and_start();
    EXPECT_TRUE(destroy("once", removal, true)) << report.text();
    EXPECT_EQ(found().size(), 0U);
    EXPECT_EQ(create("once", creation, true).error().code, Code::stale)
        << "made, and destroyed since";
    // A repeated destruction does not destroy the container that has the label now.
    const auto next = create("once", {.client = other.client, .slot = 3, .sequence = 2});
    ASSERT_TRUE(next) << report.text();
    EXPECT_TRUE(destroy("once", removal, true)) << report.text();
    ASSERT_EQ(found().size(), 1U);
    EXPECT_EQ(found().front().id, next->id);
    EXPECT_EQ(
        destroy("none", {.client = other.client, .slot = 5, .sequence = 1}, true).error().code,
        Code::not_found);
}

// CN=maker may destroy only what it owns. This right ends with the container.
TEST_P(ContainersExactlyOnce, OwnerMayRepeatADestroy) {
    if (is_dpu()) GTEST_SKIP() << "what hosts create belongs to this DPU";
    std::string said;
    ASSERT_EQ(run_program(fmt::format("'{}' certs issue '{}' maker", PROGRAM_CLI,
                                      engine.places().storage_certs),
                          said),
              0)
        << said;
    engine.give("CN=maker", "create: pool/own-*");
    engine.write_settings();
    kill_and_start();
    connect_as("maker");
    const UpdateName creation{.client = Uuid::make(reactor->secrets()), .slot = 3, .sequence = 1};
    ASSERT_TRUE(create("own-1", creation)) << report.text();
    UpdateName removal{.client = creation.client, .slot = 4, .sequence = 1};
    ASSERT_TRUE(destroy("own-1", removal)) << report.text();
    kill_and_start();
    EXPECT_TRUE(destroy("own-1", removal, true)) << report.text();
    EXPECT_THAT(engine.log(),
                testing::Not(testing::HasSubstr("may not destroy the container pool/own-1")));

    // Another owner has the label now.
    connect_as("client");
    const UpdateName others{.client = Uuid::make(reactor->secrets()), .slot = 3, .sequence = 1};
    const auto next = create("own-1", others);
    ASSERT_TRUE(next) << report.text();
    connect_as("maker");
    EXPECT_TRUE(destroy("own-1", removal, true)) << report.text();
    // What was not done is refused as before.
    const UpdateName never{.client = creation.client, .slot = 5, .sequence = 1};
    EXPECT_EQ(destroy("own-1", never, true).error().code, Code::denied);
    EXPECT_EQ(destroy("own-2", never, true).error().code, Code::denied);
    connect_as("client");
    ASSERT_EQ(found().size(), 1U);
    EXPECT_EQ(found().front().id, next->id);
}

TEST_P(ContainersExactlyOnce, ContainersAreEncryptedIfDpuHasAKey) {
    if (!is_dpu()) GTEST_SKIP() << "an engine has no keys";
    const std::string keys = engine.pool_directory() + "/keys";
    std::filesystem::create_directory(keys);
    std::ofstream(keys + "/acme.key") << std::string(64, '7');
    std::filesystem::permissions(keys + "/acme.key", std::filesystem::perms(0600));
    dpu.kill_hard();
    std::ofstream(engine.places().dpu_settings, std::ios::app)
        << fmt::format("\nencryption: {{keys: '{}', new_containers: acme}}\n", keys);
    start_again();
    UpdateName creation{.client = Uuid::make(reactor->secrets()), .slot = 3, .sequence = 1};
    const auto made = create("secret", creation);
    ASSERT_TRUE(made) << report.text();
    const auto again = create("secret", creation, true);
    ASSERT_TRUE(again) << report.text();
    EXPECT_EQ(again->id, made->id);
    std::string said;
    EXPECT_EQ(run_program(fmt::format("'{}' container query 'ros2s+local:///pool/secret?dir={}'",
                                      PROGRAM_CLI, engine.pool_directory()),
                          said),
              0);
    EXPECT_NE(said.find("aes-256-gcm"), said.npos) << said;
    EXPECT_EQ(run_program(fmt::format("'{}' ls 'ros2s+dpu:///pool/secret?dir={}'", PROGRAM_CLI,
                                      engine.pool_directory()),
                          said),
              0)
        << said;
}

TEST_P(ContainersExactlyOnce, WithoutTenantKeyCreateIsRefused) {
    if (!is_dpu()) GTEST_SKIP() << "an engine has no keys";
    dpu.kill_hard();
    std::ofstream(engine.places().dpu_settings, std::ios::app) << fmt::format(
        "\nencryption: {{keys: '{}', new_containers: '%tenant'}}\n", engine.pool_directory());
    start_again();
    const auto made =
        create("secret", {.client = Uuid::make(reactor->secrets()), .slot = 3, .sequence = 1});
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code, Code::denied);
    EXPECT_THAT(report.text(), testing::HasSubstr("CN=client is a subject of no tenant"));
    EXPECT_EQ(found().size(), 0U);
}

// Killed at random points. A creation or removal that is done twice would fail.
struct ContainerLoad {
    static Task<> work(ContainerLoad& self) {
        for (uint32_t round = 0; !self.stop; ++round) {
            const std::string label = fmt::format("made-{}", round);
            Report report;
            const auto made =
                co_await self.client.create_container({}, "pool", {.label = label}, {}, report);
            EXPECT_TRUE(made) << label << ": " << report.text();
            const auto destroyed =
                co_await self.client.destroy_container({}, "pool", label, report);
            EXPECT_TRUE(destroyed) << label << ": " << report.text();
            if (!made || !destroyed) co_return;
            ++self.rounds;
        }
    }
    Task<> begin() { return worker.spawn(work(*this)); }
    Task<> end() {
        stop = true;
        co_await worker.join();
    }
    Task<> look(uint64_t& into) const {
        into = rounds;
        co_return;
    }
    ControlClient& client;
    Nursery worker;
    uint64_t rounds = 0;
    bool stop = false;
};

TEST_P(ContainersExactlyOnce, KillsUnderLoadOnlyPause) {
    ContainerLoad load{.client = *client, .worker = Nursery(*reactor, 1)};
    run_blocking(*reactor, [&] { return load.begin(); });
    const auto rounds = [&] {
        uint64_t now = 0;
        run_blocking(*reactor, [&] { return load.look(now); });
        return now;
    };
    for (int kill = 0; kill < 3; ++kill) {
        const uint64_t before = rounds();
        for (int i = 0; i < 60'000 && rounds() < before + 10; ++i) ::usleep(1000);
        ASSERT_GE(rounds(), before + 10);
        kill_and_start();
    }
    run_blocking(*reactor, [&] { return load.end(); });
    EXPECT_EQ(found().size(), 0U);
}

}  // namespace
}  // namespace ros2s::tests
