// Exactly once over restarts of a DPU. It is killed between commit and reply, or just before the
// commit. Hosts send their requests again, with the same update names, to the next DPU, and the
// stored replies of the engine answer them. The set-up is complete except for the control plane:
// host link, DFS, network, engine.
#include <gtest/gtest.h>

#include "ros2s/fs/dfs.h"
#include "ros2s/sim/engine/engine_rig.h"
#include "ros2s/sim/offload/app_host.h"
#include "work_kinds.h"

namespace ros2s {
namespace {

const Call call;

struct Options {
    sim::DpuOptions dpu{};
    bool engine_is_struck = false;
};
struct Outcome {
    uint64_t strikes = 0;  // of the DPU
    uint64_t engine_strikes = 0;
    uint64_t replayed = 0;
    std::vector<std::string> problems;
};

Task<> run_part(const Kind& kind, Part part) { co_await kind.work(part); }

// Runs on the engine itself, without network and DPU.
Task<> prepare(sim::StorageServer& server, sim::World& world, const Kind& kind) {
    Report report;
    auto files =
        co_await fs::Dfs::mount(call, server.store(), server.container(), world.core(), {}, report);
    ROS2S_CHECK(files);
    co_await kind.prepare(**files, server.store(), server.container());
    co_await (*files)->close_all();
}
Task<> judge(sim::StorageServer& server, sim::World& world, const Kind& kind,
             std::vector<std::string>& problems) {
    Report report;
    auto files =
        co_await fs::Dfs::mount(call, server.store(), server.container(), world.core(), {}, report);
    ROS2S_CHECK(files);
    co_await kind.judge(**files, server.store(), server.container(), problems);
    co_await (*files)->close_all();
}

Task<Outcome> trial(sim::World& world, uint64_t seed, const Kind& kind, Options options) {
    Outcome outcome;
    Random random(seed);
    fabric::sim::Network network(world.random());
    const auto rig = sim::make_engine_rig(world, random, {.data_bytes = 32 << 20});
    sim::StorageServer server(world, network, *rig, random.next(), {});
    co_await server.make();
    ROS2S_CHECK(co_await server.start());
    co_await prepare(server, world, kind);
    sim::Dpu dpu(world, network, server, random.next(), options.dpu);
    ROS2S_CHECK(co_await dpu.start());

    Nursery keeping(world.core(), 2), working(world.core(), hosts * tasks_per_host);
    co_await keeping.spawn(sim::StorageServer::keep_running(server));
    co_await keeping.spawn(sim::Dpu::keep_running(dpu));
    std::vector<std::unique_ptr<sim::AppHost>> apps;
    for (uint64_t i = 0; i < hosts; ++i) {
        apps.push_back(
            std::make_unique<sim::AppHost>(world, network, dpu, static_cast<uint8_t>(i + 1)));
        co_await apps.back()->connect();
    }
    dpu.arm();
    if (options.engine_is_struck) server.arm();
    for (uint64_t i = 0; i < hosts * tasks_per_host; ++i) {
        sim::AppHost& app = *apps[i % hosts];
        co_await working.spawn(run_part(kind, {.store = nullptr,
                                               .world = world,
                                               .files = app.files(),
                                               .container = server.container(),
                                               .number = i,
                                               .client = app.client(),
                                               .random = Random(random.next()),
                                               .problems = outcome.problems}));
    }
    co_await working.join();
    for (const auto& app : apps) co_await app->disconnect();
    dpu.stop();
    while (keeping.running() > 1) {
        co_await sleep_for(world.core(), std::chrono::milliseconds(1));
    }
    server.stop();
    co_await keeping.join();
    outcome.strikes = dpu.strikes();
    outcome.engine_strikes = server.strikes();
    outcome.replayed = server.replayed();
    for (const std::string& text : server.problems()) outcome.problems.push_back(text);
    ROS2S_CHECK(co_await server.start());
    co_await judge(server, world, kind, outcome.problems);
    co_await server.halt();
    co_return outcome;
}

void expect_exactly_once(const Kind& kind, bool engine_is_struck) {
    uint64_t strikes = 0, engine_strikes = 0, replayed = 0;
    for (uint64_t seed = 1; seed <= 10; ++seed) {
        sim::World world(seed);
        const Outcome outcome =
            world.run(trial(world, seed, kind, {.engine_is_struck = engine_is_struck}));
        strikes += outcome.strikes;
        engine_strikes += outcome.engine_strikes;
        replayed += outcome.replayed;
        for (const std::string& problem : outcome.problems) {
            ADD_FAILURE() << "seed " << seed << ": " << problem;
        }
    }
    fmt::print("{} strikes of the DPU, {} of the engine, {} stored replies returned\n", strikes,
               engine_strikes, replayed);
    EXPECT_GT(strikes, 50U);
    EXPECT_EQ(engine_strikes > 0, engine_is_struck);
    EXPECT_GT(replayed, 20U);
}

// The same with a store that does not get the hosts' update names: the checks must fail.
void expect_it_is_seen(const Kind& kind) {
    uint64_t seen = 0;
    for (uint64_t seed = 1; seed <= 5; ++seed) {
        sim::World world(seed);
        const Outcome outcome =
            world.run(trial(world, seed, kind, {.dpu = {.passes_names = false}}));
        if (!outcome.problems.empty()) ++seen;
        EXPECT_EQ(outcome.replayed, 0U);
    }
    EXPECT_EQ(seen, 5U);
}

TEST(DpuRestart, AppendsAreDoneOnce) { expect_exactly_once(appends, false); }
TEST(DpuRestart, AppendsAreDoneOnceDespiteEngineKills) { expect_exactly_once(appends, true); }
TEST(DpuRestart, AppendsWithoutUpdateNamesFailTheCheck) { expect_it_is_seen(appends); }
TEST(DpuRestart, CreatesAreDoneOnce) { expect_exactly_once(creations, false); }
TEST(DpuRestart, CreatesAreDoneOnceDespiteEngineKills) { expect_exactly_once(creations, true); }
TEST(DpuRestart, CreatesWithoutUpdateNamesFailTheCheck) { expect_it_is_seen(creations); }
TEST(DpuRestart, RenamesAreDoneOnce) { expect_exactly_once(renames, false); }
TEST(DpuRestart, RenamesAreDoneOnceDespiteEngineKills) { expect_exactly_once(renames, true); }
TEST(DpuRestart, RenamesWithoutUpdateNamesFailTheCheck) { expect_it_is_seen(renames); }
TEST(DpuRestart, UnlinkedFilesAreChangedOnce) { expect_exactly_once(unlinked_files, false); }
TEST(DpuRestart, UnlinkedFilesAreChangedOnceDespiteEngineKills) {
    expect_exactly_once(unlinked_files, true);
}
TEST(DpuRestart, UnlinkedFilesWithoutUpdateNamesFailTheCheck) { expect_it_is_seen(unlinked_files); }
TEST(DpuRestart, MixedOperationsAreDoneOnce) { expect_exactly_once(mixed, false); }
TEST(DpuRestart, MixedOperationsAreDoneOnceDespiteEngineKills) { expect_exactly_once(mixed, true); }
TEST(DpuRestart, MixedOperationsWithoutIdsFailTheCheck) { expect_it_is_seen(mixed); }

}  // namespace
}  // namespace ros2s
