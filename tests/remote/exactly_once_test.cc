// Exactly once, with the real engine. The machine fails between commit and reply (power loss, crash
// of the process, loss of the connection), starts again and recovers. Clients send again with the
// same update names. The operations are not idempotent, so one that is done twice or not at all is
// detected.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>

#include "ros2s/client/verifying_store.h"
#include "ros2s/fs/dfs.h"
#include "ros2s/object/test_support/batch.h"
#include "ros2s/sim/engine/engine_rig.h"
#include "ros2s/sim/remote/store_client.h"
#include "work_kinds.h"

namespace ros2s {
namespace {

using namespace object;

const Call call;

struct Outcome {
    uint64_t strikes = 0;
    uint64_t replayed = 0;
    std::vector<std::string> problems;
};

Task<> run_part(const Kind& kind, Part part) { co_await kind.work(part); }

struct Client {
    std::unique_ptr<sim::StoreClient> host;
    std::unique_ptr<client::VerifyingStore> verified;
    std::unique_ptr<fs::FileSystem> files;
};

Task<> prepare(sim::StorageServer& server, sim::World& world, const Kind& kind) {
    Report report;
    auto files =
        co_await fs::Dfs::mount(call, server.store(), server.container(), world.core(), {}, report);
    ROS2S_CHECK(files);
    co_await kind.prepare(**files, server.store(), server.container());
    co_await (*files)->close_all();
}

Task<Outcome> trial(sim::World& world, uint64_t seed, const Kind& kind,
                    sim::StorageServerOptions options) {
    Outcome outcome;
    Random random(seed);
    fabric::sim::Network network(world.random());
    const auto rig = sim::make_engine_rig(world, random, {.data_bytes = 32 << 20});
    sim::StorageServer server(world, network, *rig, random.next(), std::move(options));
    co_await server.make();
    ROS2S_CHECK(co_await server.start());
    co_await prepare(server, world, kind);

    Nursery keeping(world.core(), 1), working(world.core(), hosts * tasks_per_host);
    co_await keeping.spawn(sim::StorageServer::keep_running(server));
    std::vector<Client> clients(hosts);
    for (uint64_t i = 0; i < hosts; ++i) {
        Client& one = clients[i];
        one.host = std::make_unique<sim::StoreClient>(world, world.core(), network, server,
                                                      fmt::format("host {}", i),
                                                      Uuid::make(Secrets(random)));
        ROS2S_CHECK(co_await one.host->connect());
        one.verified = std::make_unique<client::VerifyingStore>(world.core(), one.host->store());
        Report report;
        auto mounted = co_await fs::Dfs::mount(call, *one.verified, server.container(),
                                               world.core(), {}, report);
        ROS2S_CHECK(mounted);
        one.files = std::move(*mounted);
    }
    server.arm();
    for (uint64_t i = 0; i < hosts * tasks_per_host; ++i) {
        Client& one = clients[i % hosts];
        co_await working.spawn(run_part(kind, {.store = &one.host->store(),
                                               .world = world,
                                               .files = *one.files,
                                               .container = server.container(),
                                               .number = i,
                                               .client = one.host->client(),
                                               .random = Random(random.next()),
                                               .problems = outcome.problems}));
    }
    co_await working.join();
    for (Client& one : clients) {
        co_await one.files->close_all();
        one.files.reset();
        one.verified.reset();
        co_await one.host->disconnect();
    }
    server.stop();
    co_await keeping.join();
    outcome.strikes = server.strikes();
    outcome.replayed = server.replayed();
    for (const std::string& text : server.problems()) outcome.problems.push_back(text);

    ROS2S_CHECK(co_await server.start());
    Report report;
    auto files =
        co_await fs::Dfs::mount(call, server.store(), server.container(), world.core(), {}, report);
    ROS2S_CHECK(files);
    co_await kind.judge(**files, server.store(), server.container(), outcome.problems);
    co_await (*files)->close_all();
    files->reset();
    co_await server.halt();
    co_return outcome;
}

// Each seed must pass. All seeds together must have covered each case.
void expect_exactly_once(const Kind& kind) {
    uint64_t strikes = 0, replayed = 0;
    for (uint64_t seed = 1; seed <= 15; ++seed) {
        sim::World world(seed);
        const Outcome outcome = world.run(trial(world, seed, kind, {}));
        strikes += outcome.strikes;
        replayed += outcome.replayed;
        fmt::print("seed {}: {} strikes, {} stored replies returned\n", seed, outcome.strikes,
                   outcome.replayed);
        for (const std::string& problem : outcome.problems) {
            ADD_FAILURE() << "seed " << seed << ": " << problem;
        }
    }
    EXPECT_GT(strikes, 100U);
    EXPECT_GT(replayed, 50U);
}

// The same with a store that forgets update names: the checks must fail.
void expect_it_is_seen(const Kind& kind) {
    uint64_t seen = 0;
    for (uint64_t seed = 1; seed <= 5; ++seed) {
        sim::World world(seed);
        const Outcome outcome = world.run(trial(world, seed, kind, {.keeps_replies = false}));
        if (!outcome.problems.empty()) ++seen;
        EXPECT_EQ(outcome.replayed, 0U);
    }
    EXPECT_EQ(seen, 5U);
}

// ---- what clients do

TEST(RemoteExactlyOnce, AppendsAreDoneOnce) { expect_exactly_once(appends); }
TEST(RemoteExactlyOnce, AppendsWithoutStoredRepliesFailTheCheck) { expect_it_is_seen(appends); }
TEST(RemoteExactlyOnce, CreatesAreDoneOnce) { expect_exactly_once(creations); }
TEST(RemoteExactlyOnce, CreatesWithoutStoredRepliesFailTheCheck) { expect_it_is_seen(creations); }
TEST(RemoteExactlyOnce, RenamesAreDoneOnce) { expect_exactly_once(renames); }
TEST(RemoteExactlyOnce, RenamesWithoutStoredRepliesFailTheCheck) { expect_it_is_seen(renames); }

// ---- transactions over several keys ---------------------------------------------------------

// Four counters under four dkeys of two objects. They always increase together.
constexpr size_t counters = 4;
AkeyAddress counter(size_t i) { return {{900, i % 2}, fmt::format("counter {}", i), "count"}; }

struct Read {
    uint64_t value = 0;
    Epoch epoch{};
};

Task<Result<std::vector<Read>>> read_counters(ObjectStore& store, ContainerId container) {
    std::vector<Read> all(counters);
    std::vector<FetchItem> items(counters);
    for (size_t i = 0; i < counters; ++i) {
        const AkeyAddress place = counter(i);
        items[i] = {.object = place.object,
                    .dkey = {place.dkey},
                    .akey = {place.akey},
                    .extent = {0, sizeof(uint64_t)},
                    .window = Window::local(std::as_writable_bytes(std::span(&all[i].value, 1)))};
    }
    ROS2S_CO_TRY(co_await store.fetch(call, container, items));
    for (size_t i = 0; i < counters; ++i) {
        if (items[i].status) all[i].epoch = items[i].epoch;
        if (!items[i].status) all[i].value = 0;
        if (!items[i].status && items[i].status.error().code != Code::not_found) {
            co_return fail(items[i].status.error());
        }
    }
    co_return all;
}

Task<> count(Part& part) {
    uint64_t sequence = 0;
    for (uint64_t done = 0; done < rounds;) {
        const auto now = co_await read_counters(*part.store, part.container);
        if (!now) co_return part.problem("read: {}", describe(now.error()));
        const uint64_t next = (*now)[0].value + 1;
        Batch batch;
        // Only these operations use these slots. Dfs uses others.
        batch.id({part.client, 1000 + static_cast<uint32_t>(part.number), ++sequence});
        for (size_t i = 0; i < counters; ++i) {
            batch.epoch_equals(counter(i), (*now)[i].epoch);
            batch.put(counter(i), std::string(as_text(object_bytes(next))));
        }
        const auto commit = co_await part.store->update(call, part.container, batch.transaction());
        if (commit) {
            ++done;
        } else if (commit.error().code != Code::condition_failed) {
            co_return part.problem("update: {}", describe(commit.error()));
        }
    }
}

Task<> judge_counters(fs::FileSystem&, ObjectStore& store, ContainerId container,
                      std::vector<std::string>& problems) {
    const auto now = co_await read_counters(store, container);
    if (!now) co_return problems.push_back("the counters cannot be read");
    for (const Read& one : *now) {
        if (one.value != hosts * tasks_per_host * rounds) {
            problems.push_back(fmt::format("a counter is {}, and was raised {} times", one.value,
                                           hosts * tasks_per_host * rounds));
        }
        if (one.epoch != now->front().epoch) problems.emplace_back("the counters rose apart");
    }
}

const Kind transactions{make_nothing, count, judge_counters};
TEST(RemoteExactlyOnce, TransactionsAreDoneOnce) { expect_exactly_once(transactions); }
TEST(RemoteExactlyOnce, TransactionsWithoutStoredRepliesFailTheCheck) {
    expect_it_is_seen(transactions);
}

}  // namespace
}  // namespace ros2s
