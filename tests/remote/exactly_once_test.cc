// Exactly once, with the real engine: the machine is struck between commit and reply (power loss,
// crash of the process, loss of the connection), starts again and recovers; clients send again
// under the same operation ids. What is not idempotent shows anything done twice or not at all.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>

#include "machine.h"
#include "ros2s/client/client_store.h"
#include "ros2s/fs/dfs.h"
#include "ros2s/fs/path_walk.h"
#include "ros2s/object/contract/batch.h"

namespace ros2s {
namespace {

using namespace object;
using contract::Batch;
using contract::Place;

constexpr uint64_t hosts = 3;
constexpr uint64_t tasks_per_host = 3;
constexpr uint64_t rounds = 12;

struct Outcome {
    uint64_t strikes = 0;
    uint64_t replayed = 0;
    std::vector<std::string> problems;
};

// One client's part of a test.
struct Part {
    remote::RemoteStore& store;
    fs::FileSystem& files;
    ContainerId container;
    uint64_t number;
    Uuid client;
    Random random;
    std::vector<std::string>& problems;
    template <class... Args>
    void problem(fmt::format_string<Args...> format, Args&&... args) {
        problems.push_back(fmt::format("client {}: ", number) +
                           fmt::format(format, std::forward<Args>(args)...));
    }
};

struct Kind {
    Task<> (*prepare)(fs::FileSystem& files, ObjectStore& store, ContainerId container);
    Task<> (*work)(Part& part);
    // Looks at what is there in the end, through the engine itself.
    Task<> (*judge)(fs::FileSystem& files, ObjectStore& store, ContainerId container,
                    std::vector<std::string>& problems);
};

constexpr fs::OpenFlags read_write{.read = true, .write = true};
const Call call;

Task<> run_part(const Kind& kind, Part part) { co_await kind.work(part); }

struct Client {
    std::unique_ptr<Host> host;
    std::unique_ptr<client::ClientStore> verified;
    std::unique_ptr<fs::FileSystem> files;
};

Task<> prepare(Machine& machine, sim::World& world, const Kind& kind) {
    Report report;
    auto files = co_await fs::Dfs::mount(call, machine.engine(), machine.container(), world.core(),
                                         {}, report);
    ROS2S_CHECK(files);
    co_await kind.prepare(**files, machine.engine(), machine.container());
    co_await (*files)->close_all();
}

Task<Outcome> trial(sim::World& world, uint64_t seed, const Kind& kind, MachineOptions options) {
    Outcome outcome;
    Random random(seed);
    fabric::sim::Network network(world.random());
    Machine machine(world, network, random.next(), options);
    co_await machine.make();
    co_await machine.start();
    co_await prepare(machine, world, kind);

    Nursery keeping(world.core(), 1), working(world.core(), hosts * tasks_per_host);
    co_await keeping.spawn(Machine::keep_running(machine));
    std::vector<Client> clients(hosts);
    for (uint64_t i = 0; i < hosts; ++i) {
        Client& one = clients[i];
        one.host = std::make_unique<Host>(world, network, machine, static_cast<uint8_t>(i + 1));
        co_await one.host->connect();
        one.verified = std::make_unique<client::ClientStore>(world.core(), one.host->store());
        Report report;
        auto mounted = co_await fs::Dfs::mount(call, *one.verified, machine.container(),
                                               world.core(), {}, report);
        ROS2S_CHECK(mounted);
        one.files = std::move(*mounted);
    }
    machine.arm();
    for (uint64_t i = 0; i < hosts * tasks_per_host; ++i) {
        Client& one = clients[i % hosts];
        co_await working.spawn(run_part(kind, {.store = one.host->store(),
                                               .files = *one.files,
                                               .container = machine.container(),
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
    machine.stop();
    co_await keeping.join();
    outcome.strikes = machine.strikes();
    outcome.replayed = machine.replayed();

    co_await machine.start();
    Report report;
    auto files = co_await fs::Dfs::mount(call, machine.engine(), machine.container(), world.core(),
                                         {}, report);
    ROS2S_CHECK(files);
    co_await kind.judge(**files, machine.engine(), machine.container(), outcome.problems);
    co_await (*files)->close_all();
    files->reset();
    co_await machine.halt();
    co_return outcome;
}

// Each seed must hold, and together they must have met what they are about.
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

// The same where the store forgets operation ids: the judges must see it.
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

// ---- appends --------------------------------------------------------------------------------

std::string record(uint64_t client, uint64_t round) {
    return fmt::format("<{}:{}:{}>\n", client, round, std::string(client * 100 + round * 7, 'a'));
}

Task<> make_log(fs::FileSystem& files, ObjectStore&, ContainerId) {
    const auto made = co_await files.create(call, fs::root_node, "log", 0644, read_write, {});
    ROS2S_CHECK(made);
    ROS2S_CHECK(co_await files.close(call, made->handle));
}

Task<> append(Part& part) {
    const auto node = co_await fs::resolve(part.files, call, "/log");
    if (!node) co_return part.problem("the log is not there");
    const auto log = co_await part.files.open(call, node->node, {.write = true, .append = true});
    if (!log) co_return part.problem("the log does not open");
    for (uint64_t round = 0; round < rounds; ++round) {
        const std::string text = record(part.number, round);
        const auto written =
            co_await part.files.pwrite(call, log->handle, fs::Window::local(as_bytes(text)), 0);
        if (!written) part.problem("append {}: {}", round, describe(written.error()));
    }
    (void)co_await part.files.close(call, log->handle);
}

Task<> judge_log(fs::FileSystem& files, ObjectStore&, ContainerId,
                 std::vector<std::string>& problems) {
    const auto node = co_await fs::resolve(files, call, "/log");
    const auto log = co_await files.open(call, node->node, {});
    std::string text(4 << 20, '?');
    const auto got = co_await files.pread(
        call, log->handle, fs::Window::local(std::as_writable_bytes(std::span(text))), 0);
    text.resize(got.value_or(0));
    (void)co_await files.close(call, log->handle);
    std::map<uint64_t, uint64_t> next;  // round, by client
    size_t at = 0;
    while (at < text.size()) {
        bool known = false;
        for (uint64_t client = 0; client < hosts * tasks_per_host && !known; ++client) {
            const std::string expected = record(client, next[client]);
            if (text.compare(at, expected.size(), expected) != 0) continue;
            known = true;
            ++next[client];
            at += expected.size();
        }
        if (known) continue;
        problems.push_back(fmt::format("at {} of the log is nothing that should come there: {}", at,
                                       text.substr(at, 20)));
        co_return;
    }
    for (uint64_t client = 0; client < hosts * tasks_per_host; ++client) {
        if (next[client] == rounds) continue;
        problems.push_back(fmt::format("{} appends of client {}", next[client], client));
    }
}

const Kind appends{make_log, append, judge_log};
TEST(ExactlyOnce, Appends) { expect_exactly_once(appends); }
TEST(ExactlyOnce, AppendsWithoutStoredRepliesAreSeen) { expect_it_is_seen(appends); }

// ---- exclusive creation, renames ------------------------------------------------------------

Task<> make_nothing(fs::FileSystem&, ObjectStore&, ContainerId) { co_return; }

std::string name_of(std::string_view what, uint64_t client, uint64_t round) {
    return fmt::format("{}-{}-{}", what, client, round);
}

Task<> create(Part& part) {
    for (uint64_t round = 0; round < rounds; ++round) {
        const auto made =
            co_await part.files.create(call, fs::root_node, name_of("file", part.number, round),
                                       0644, {.read = true, .write = true, .exclusive = true}, {});
        if (!made) {
            part.problem("creation {}: {}", round, describe(made.error()));
            continue;
        }
        (void)co_await part.files.close(call, made->handle);
        const auto directory = co_await part.files.mkdir(
            call, fs::root_node, name_of("directory", part.number, round), 0755, {});
        if (!directory) part.problem("mkdir {}: {}", round, describe(directory.error()));
    }
}

Task<std::set<std::string>> names_in(fs::FileSystem& files) {
    std::set<std::string> names;
    const auto root = co_await files.open(call, fs::root_node, {});
    uint64_t cookie = 0;
    while (true) {
        const auto page = co_await files.readdir(call, root->handle, cookie, 100);
        if (!page || page->empty()) break;
        for (const auto& entry : *page) names.insert(entry.name);
        cookie = page->back().cookie;
    }
    (void)co_await files.close(call, root->handle);
    co_return names;
}

Task<> expect_names(fs::FileSystem& files, std::vector<std::string_view> kinds,
                    std::vector<std::string>& problems) {
    std::set<std::string> names = co_await names_in(files);
    for (uint64_t client = 0; client < hosts * tasks_per_host; ++client) {
        for (uint64_t round = 0; round < rounds; ++round) {
            for (const std::string_view kind : kinds) {
                const std::string name = name_of(kind, client, round);
                if (names.erase(name) == 0) problems.push_back(name + " is not there");
            }
        }
    }
    for (const std::string& name : names) problems.push_back(name + " should not be there");
}

Task<> judge_names(fs::FileSystem& files, ObjectStore&, ContainerId,
                   std::vector<std::string>& problems) {
    co_await expect_names(files, {"file", "directory"}, problems);
}

const Kind creations{make_nothing, create, judge_names};
TEST(ExactlyOnce, ExclusiveCreations) { expect_exactly_once(creations); }
TEST(ExactlyOnce, CreationsWithoutStoredRepliesAreSeen) { expect_it_is_seen(creations); }

Task<> rename(Part& part) {
    for (uint64_t round = 0; round < rounds; ++round) {
        const std::string from = name_of("from", part.number, round);
        const auto made =
            co_await part.files.create(call, fs::root_node, from, 0644, read_write, {});
        if (!made) {
            part.problem("creation {}: {}", round, describe(made.error()));
            continue;
        }
        (void)co_await part.files.close(call, made->handle);
        const std::string middle = name_of("middle", part.number, round);
        const std::string to = name_of("to", part.number, round);
        for (const auto& [old_name, new_name] : {std::pair{from, middle}, std::pair{middle, to}}) {
            const auto renamed = co_await part.files.rename(
                call, fs::root_node, old_name, fs::root_node, new_name, {.no_replace = true});
            if (!renamed) part.problem("rename {}: {}", round, describe(renamed.error()));
        }
    }
}

Task<> judge_renames(fs::FileSystem& files, ObjectStore&, ContainerId,
                     std::vector<std::string>& problems) {
    co_await expect_names(files, {"to"}, problems);
}

const Kind renames{make_nothing, rename, judge_renames};
TEST(ExactlyOnce, Renames) { expect_exactly_once(renames); }
TEST(ExactlyOnce, RenamesWithoutStoredRepliesAreSeen) { expect_it_is_seen(renames); }

// ---- transactions over several keys ---------------------------------------------------------

// Four counters under four dkeys of two objects, which always rise together.
constexpr size_t counters = 4;
Place counter(size_t i) { return {{900, i % 2}, fmt::format("counter {}", i), "count"}; }

struct Read {
    uint64_t value = 0;
    Epoch epoch{};
};

Task<Result<std::vector<Read>>> read_counters(ObjectStore& store, ContainerId container) {
    std::vector<Read> all(counters);
    std::vector<FetchItem> items(counters);
    for (size_t i = 0; i < counters; ++i) {
        const Place place = counter(i);
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
        const auto now = co_await read_counters(part.store, part.container);
        if (!now) co_return part.problem("read: {}", describe(now.error()));
        const uint64_t next = (*now)[0].value + 1;
        Batch batch;
        // The slots of a client instance are its own; Dfs has others.
        batch.id({part.client, 1000 + static_cast<uint32_t>(part.number), ++sequence});
        for (size_t i = 0; i < counters; ++i) {
            batch.epoch_equals(counter(i), (*now)[i].epoch);
            batch.put(counter(i), std::string(as_text(object_bytes(next))));
        }
        const auto commit = co_await part.store.update(call, part.container, batch.transaction());
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
TEST(ExactlyOnce, TransactionsOverSeveralKeys) { expect_exactly_once(transactions); }
TEST(ExactlyOnce, TransactionsWithoutStoredRepliesAreSeen) { expect_it_is_seen(transactions); }

}  // namespace
}  // namespace ros2s
