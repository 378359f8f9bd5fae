// The requests of each file system operation on RADOS, and how many of them run one after the
// other. docs/rados.md has the table. Each request takes a millisecond here, so the time of an
// operation is the number of its round trips.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ros2s/fs/dfs.h"
#include "ros2s/fs/path_walk.h"
#include "ros2s/object/test_support/batch.h"
#include "ros2s/rados/rados_store.h"
#include "ros2s/rados/sim/sim_rados.h"
#include "ros2s/runtime/sim/world.h"
#include "test_support/open_store.h"

namespace ros2s::rados {
namespace {

using fs::NodeId;

const Call unlimited;
constexpr Duration trip = std::chrono::milliseconds(1);

class SlowPool final : public Pool {
  public:
    SlowPool(SimRados& cluster, Reactor& reactor)
        : pool_(cluster, {.delay_max = {}, .dies_at = {}}), reactor_(reactor) {}
    [[nodiscard]] uint64_t requests() const { return pool_.requests(); }
    [[nodiscard]] std::string name() const override { return pool_.name(); }
    [[nodiscard]] std::string description() const override { return pool_.description(); }
    Task<Result<>> apply(const Change& change) override {
        co_await sleep_for(reactor_, trip);
        co_return co_await pool_.apply(change);
    }
    Task<Result<ReadReply>> read(const Read& read) override {
        co_await sleep_for(reactor_, trip);
        co_return co_await pool_.read(read);
    }
    Task<Result<uint64_t>> read_data(const ObjectName& object, uint64_t offset,
                                     Bytes into) override {
        co_await sleep_for(reactor_, trip);
        co_return co_await pool_.read_data(object, offset, into);
    }
    [[nodiscard]] std::unique_ptr<Listing> list(std::string space) override {
        return pool_.list(std::move(space));
    }
    Task<Result<object::PoolSpace>> space() override { return pool_.space(); }

  private:
    SimPool pool_;
    Reactor& reactor_;
};

// The time until the operation returns, and until its background work has ended.
struct Cost {
    long trips = 0;
    uint64_t requests = 0;
    friend bool operator==(const Cost&, const Cost&) = default;
};
std::ostream& operator<<(std::ostream& out, const Cost& cost) {
    return out << cost.trips << " trips, " << cost.requests << " requests";
}

struct MountedClient {
    MountedClient(SimRados& cluster, Reactor& its_reactor)
        : reactor(its_reactor), pool(cluster, its_reactor) {}

    Task<> open(bool formats) {
        Report report;
        store = co_await open_store(
            reactor, pool, {.container_check = std::chrono::hours(10), .keeps_replies = false});
        if (formats) {
            const auto made = co_await store->create_container({}, {.label = "c"});
            EXPECT_TRUE(made);
            EXPECT_TRUE(co_await fs::Dfs::format({}, *store, made->id, reactor, {}, report));
        }
        const auto containers = co_await store->list_containers({});
        EXPECT_TRUE(containers);
        auto mounted =
            co_await fs::Dfs::mount({}, *store, containers->at(0).id, reactor, {}, report);
        EXPECT_TRUE(mounted) << report.text();
        files = std::move(*mounted);
    }
    Task<> close() {
        co_await files->close_all();
        files.reset();
        co_await store->close();
    }
    template <class Operation>
    Task<Cost> cost_of(Operation operation) {
        const Time start = reactor.now();
        const uint64_t before = pool.requests();
        co_await operation();
        const auto took = reactor.now() - start;
        co_await sleep_for(reactor, trip * 50);
        co_return Cost{.trips = took / trip, .requests = pool.requests() - before};
    }

    Reactor& reactor;
    SlowPool pool;
    std::unique_ptr<RadosStore> store;
    std::unique_ptr<fs::Dfs> files;
};

// Waits for the operation, which must succeed.
template <class Value>
Task<> must(Task<Result<Value>> task) {
    const auto done = co_await std::move(task);
    EXPECT_TRUE(done) << (done ? "" : describe(done.error()));
}

Task<NodeId> node_at(fs::Dfs& files, std::string_view path) {
    const auto found = co_await fs::resolve(files, unlimited, path, fs::LastLink::keep);
    EXPECT_TRUE(found) << path;
    co_return found ? found->node : NodeId{};
}

Task<Result<fs::Opened>> create_and_close(fs::Dfs& files, NodeId parent, std::string name) {
    auto made = co_await files.create(unlimited, parent, name, 0644,
                                      {.write = true, .exclusive = true}, {});
    if (made) ROS2S_CO_TRY(co_await files.close(unlimited, made->handle));
    co_return made;
}

Task<Result<>> write_4k(fs::Dfs& files, NodeId node, uint64_t offset) {
    ROS2S_CO_TRY_ASSIGN(const fs::Opened opened,
                        co_await files.open(unlimited, node, {.write = true}));
    const std::string bytes(4096, 'b');
    const auto written = co_await files.pwrite(unlimited, opened.handle,
                                               object::Window::local(as_bytes(bytes)), offset);
    ROS2S_CO_TRY(co_await files.close(unlimited, opened.handle));
    if (!written) co_return fail(written.error());
    co_return Result<>{};
}

Task<Result<>> read_4k(fs::Dfs& files, NodeId node) {
    ROS2S_CO_TRY_ASSIGN(const fs::Opened opened,
                        co_await files.open(unlimited, node, {.read = true}));
    std::string bytes(4096, 'x');
    const auto read =
        co_await files.pread(unlimited, opened.handle,
                             object::Window::local(std::as_writable_bytes(std::span(bytes))), 0);
    ROS2S_CO_TRY(co_await files.close(unlimited, opened.handle));
    if (!read) co_return fail(read.error());
    EXPECT_EQ(bytes, std::string(4096, 'b'));
    co_return Result<>{};
}

Task<Result<>> list_names(fs::Dfs& files, NodeId directory) {
    ROS2S_CO_TRY_ASSIGN(const fs::Opened opened, co_await files.open(unlimited, directory, {}));
    const auto names = co_await files.readdir(unlimited, opened.handle, 0, 1000);
    ROS2S_CO_TRY(co_await files.close(unlimited, opened.handle));
    if (!names) co_return fail(names.error());
    EXPECT_EQ(names->size(), 100U);
    co_return Result<>{};
}

struct Row {
    const char* name;
    Cost first, again;
    friend bool operator==(const Row&, const Row&) = default;
};
std::ostream& operator<<(std::ostream& out, const Row& row) {
    return out << row.name << ": " << row.first << "; again: " << row.again << '\n';
}

// /a/b/c/file0…, /to, /hundred
Task<> make_tree(fs::Dfs& files) {
    NodeId at = fs::root_node;
    for (const char* const name : {"to", "hundred", "a", "b", "c"}) {
        const auto made = co_await files.mkdir(unlimited, at, name, 0755, {});
        EXPECT_TRUE(made);
        if (name[1] == '\0') at = made->node;
    }
    for (int i = 0; i < 10; ++i)
        co_await must(create_and_close(files, at, fmt::format("file{}", i)));
    const NodeId file = co_await node_at(files, "/a/b/c/file0");
    co_await must(write_4k(files, file, 0));
    co_await must(write_4k(files, co_await node_at(files, "/a/b/c/file1"), 0));
    const NodeId hundred = co_await node_at(files, "/hundred");
    for (int i = 0; i < 100; ++i) {
        co_await must(create_and_close(files, hundred, fmt::format("name{}", i)));
    }
}

// Operations of one client on a tree that another client made.
Task<std::vector<Row>> rows_of(Reactor& reactor, SimRados& cluster) {
    MountedClient maker(cluster, reactor);
    co_await maker.open(true);
    co_await make_tree(*maker.files);
    std::vector<Row> rows;
    const auto add = [&](const char* name, auto operation) -> Task<> {
        MountedClient client(cluster, reactor);
        co_await client.open(false);
        fs::Dfs& files = *client.files;
        // The ids of nodes are leased.
        co_await must(create_and_close(files, fs::root_node, fmt::format("leases{}", rows.size())));
        Row row{.name = name, .first = {}, .again = {}};
        for (const int i : {0, 1}) {
            (i == 0 ? row.first : row.again) =
                co_await client.cost_of([&] { return operation(files, i); });
        }
        rows.push_back(row);
        co_await client.close();
    };
    const NodeId c = co_await node_at(*maker.files, "/a/b/c");
    const NodeId to = co_await node_at(*maker.files, "/to");
    const NodeId hundred = co_await node_at(*maker.files, "/hundred");
    const NodeId file0 = co_await node_at(*maker.files, "/a/b/c/file0");
    const NodeId file1 = co_await node_at(*maker.files, "/a/b/c/file1");
    co_await maker.close();
    const auto file = [](const char* kind, int i) { return fmt::format("{}{}", kind, i); };
    co_await add("stat in a directory",
                 [&](fs::Dfs& files, int) { return must(files.lookup(unlimited, c, "file0")); });
    co_await add("stat of /a/b/c/file", [&](fs::Dfs& files, int) {
        return must(fs::resolve(files, unlimited, "/a/b/c/file0", fs::LastLink::keep));
    });
    co_await add("create", [&](fs::Dfs& files, int i) {
        return must(create_and_close(files, c, file("new", i)));
    });
    co_await add("create, and stat at once", [&](fs::Dfs& files, int i) -> Task<> {
        const std::string name = file("seen", i);
        co_await must(create_and_close(files, c, name));
        co_await must(files.lookup(unlimited, c, name));
    });
    co_await add("mkdir", [&](fs::Dfs& files, int i) -> Task<> {
        const std::string name = file("directory", i);
        co_await must(files.mkdir(unlimited, c, name, 0755, {}));
    });
    co_await add("rename in a directory", [&](fs::Dfs& files, int i) -> Task<> {
        const std::string from = file("file", 2 + i), name = file("renamed", i);
        co_await must(files.rename(unlimited, c, from, c, name, {}));
    });
    co_await add("rename to another one", [&](fs::Dfs& files, int i) -> Task<> {
        const std::string from = file("file", 4 + i), name = file("moved", i);
        co_await must(files.rename(unlimited, c, from, to, name, {}));
    });
    co_await add("unlink", [&](fs::Dfs& files, int i) -> Task<> {
        const std::string name = file("file", 6 + i);
        co_await must(files.unlink(unlimited, c, name));
    });
    co_await add("open, read 4 KiB",
                 [&](fs::Dfs& files, int) { return must(read_4k(files, file0)); });
    co_await add("open, write 4 KiB", [&](fs::Dfs& files, int i) {
        return must(write_4k(files, file1, 4096 * static_cast<uint64_t>(i)));
    });
    co_await add("open, readdir of 100",
                 [&](fs::Dfs& files, int) { return must(list_names(files, hundred)); });
    co_await cluster.close();
    co_return rows;
}

TEST(RadosRequests, OperationsUseTheDocumentedRequests) {
    sim::World world(1);
    SimRados cluster(world.core());
    const auto rows = world.run(rows_of(world.core(), cluster));
    const std::vector<Row> expected{
        {"stat in a directory", {3, 4}, {1, 2}},
        {"stat of /a/b/c/file", {6, 7}, {1, 5}},
        {"create", {4, 7}, {2, 3}},
        {"create, and stat at once", {5, 9}, {3, 5}},
        {"mkdir", {4, 7}, {2, 3}},
        {"rename in a directory", {5, 8}, {5, 6}},
        {"rename to another one", {5, 12}, {5, 9}},
        {"unlink", {5, 10}, {5, 8}},
        {"open, read 4 KiB", {4, 5}, {2, 2}},
        {"open, write 4 KiB", {4, 5}, {2, 2}},
        {"open, readdir of 100", {4, 5}, {2, 2}},
    };
    EXPECT_EQ(rows, expected);
}

// As a host behind a DPU writes: each in a slot of its own.
Task<> write_named(RadosStore& store, object::ContainerId container, uint32_t slot,
                   uint64_t sequence) {
    object::Batch batch;
    Uuid client;
    client.bytes[0] = 1;
    batch.write({{7, 1}, "0", "data"}, uint64_t{slot} * 4096, std::string(4096, 'b'))
        .id({client, slot, sequence})
        .is_new();
    co_await must(store.update({}, container, batch.transaction()));
}

Task<std::vector<Row>> rows_of_named_writes(Reactor& reactor, SimRados& cluster) {
    SlowPool pool(cluster, reactor);
    Report report;
    auto opened = co_await RadosStore::open({}, reactor, pool, pool,
                                            {.container_check = std::chrono::hours(10)}, report);
    EXPECT_TRUE(opened) << report.text();
    RadosStore& store = **opened;
    const auto made = co_await store.create_container({}, {.label = "c"});
    const auto cost_of = [&](uint32_t writes, uint64_t sequence) -> Task<Cost> {
        const Time start = reactor.now();
        const uint64_t before = pool.requests();
        Nursery nursery(reactor, 16);
        for (uint32_t slot = 0; slot < writes; ++slot) {
            co_await nursery.spawn(write_named(store, made->id, slot, sequence));
        }
        co_await nursery.join();
        const auto took = reactor.now() - start;
        co_await sleep_for(reactor, trip * 50);
        co_return Cost{.trips = took / trip, .requests = pool.requests() - before};
    };
    std::vector<Row> rows;
    rows.push_back(
        {.name = "write", .first = co_await cost_of(1, 1), .again = co_await cost_of(1, 2)});
    rows.push_back(
        {.name = "16 writes", .first = co_await cost_of(16, 3), .again = co_await cost_of(16, 4)});
    // The replies of all get into their slots.
    const uint64_t before = pool.requests();
    co_await sleep_for(reactor, std::chrono::seconds(3));
    rows.push_back({.name = "replies",
                    .first = {.trips = 0, .requests = pool.requests() - before},
                    .again = co_await cost_of(16, 5)});
    co_await store.close();
    co_await cluster.close();
    co_return rows;
}

TEST(RadosRequests, NamedWritesShareChangesAndReplies) {
    sim::World world(1);
    SimRados cluster(world.core());
    const auto rows = world.run(rows_of_named_writes(world.core(), cluster));
    const std::vector<Row> expected{
        {"write", {6, 6}, {1, 1}},
        {"16 writes", {4, 4}, {2, 2}},
        {"replies", {0, 2}, {5, 5}},
    };
    EXPECT_EQ(rows, expected);
}

}  // namespace
}  // namespace ros2s::rados
