// A full cluster: files can be removed, renamed and truncated, also by clients that have made no
// record there yet. Data is refused, until there is room again.
#include <gtest/gtest.h>

#include "ros2s/fs/dfs.h"
#include "ros2s/rados/keys.h"
#include "ros2s/rados/rados_store.h"
#include "ros2s/rados/sim/sim_rados.h"
#include "ros2s/runtime/sim/world.h"
#include "test_support/open_store.h"

namespace ros2s::rados {
namespace {

using fs::FileSystem;
using fs::NodeId;
using fs::root_node;

constexpr size_t full_file_bytes = 100'000;  // too many for the omap

size_t data_objects(SimRados& cluster) {
    size_t count = 0;
    for (const auto& [name, object] : cluster.objects()) {
        if (parse_data_name(name.name)) ++count;
    }
    return count;
}

Task<NodeId> node_of(FileSystem& files, NodeId parent, std::string_view name) {
    const auto found = co_await files.lookup({}, parent, name);
    EXPECT_TRUE(found) << name;
    co_return found ? found->node : NodeId{};
}

Task<Result<>> store_file(FileSystem& files, NodeId parent, std::string_view name) {
    ROS2S_CO_TRY_ASSIGN(const fs::Opened opened,
                        co_await files.create({}, parent, name, 0600, {.write = true}, {}));
    const std::string bytes(full_file_bytes, 'b');
    const auto written =
        co_await files.pwrite({}, opened.handle, object::Window::local(as_bytes(bytes)), 0);
    ROS2S_CO_TRY(co_await files.close({}, opened.handle));
    if (!written) co_return fail(written.error());
    co_return Result<>{};
}

Task<Result<>> fill_directories(FileSystem& files) {
    for (const std::string_view name : {"from", "to", "empty"}) {
        ROS2S_CO_TRY(co_await files.mkdir({}, root_node, name, 0700, {}));
    }
    const NodeId from = co_await node_of(files, root_node, "from");
    for (const std::string_view name : {"moved", "removed", "truncated"}) {
        ROS2S_CO_TRY(co_await store_file(files, from, name));
    }
    co_return Result<>{};
}

Task<Result<>> move_a_file(FileSystem& files) {
    const NodeId from = co_await node_of(files, root_node, "from");
    const NodeId to = co_await node_of(files, root_node, "to");
    co_return co_await files.rename({}, from, "moved", to, "moved", {});
}
Task<Result<>> remove_a_file(FileSystem& files) {
    const NodeId from = co_await node_of(files, root_node, "from");
    co_return co_await files.unlink({}, from, "removed");
}
Task<Result<>> truncate_a_file(FileSystem& files) {
    const NodeId from = co_await node_of(files, root_node, "from");
    const NodeId file = co_await node_of(files, from, "truncated");
    ROS2S_CO_TRY(co_await files.set_attributes({}, file, {.size = 0}));
    co_return Result<>{};
}
Task<Result<>> remove_a_directory(FileSystem& files) {
    co_return co_await files.rmdir({}, root_node, "empty");
}
Task<Result<>> write_a_file(FileSystem& files) {
    co_return co_await store_file(files, root_node, "more");
}

// By a new client, which has no record.
Task<Result<>> with_new_mount(Reactor& reactor, SimRados& cluster, bool keeps_replies,
                              Task<Result<>> (*use)(FileSystem&)) {
    SimPool pool(cluster, {.delay_max = {}, .dies_at = {}});
    Report report;
    ROS2S_CO_TRY_ASSIGN(const auto store,
                        co_await RadosStore::open({}, reactor, pool, pool,
                                                  {.keeps_replies = keeps_replies}, report));
    ROS2S_CO_TRY_ASSIGN(const auto containers, co_await store->list_containers({}));
    ROS2S_CO_TRY_ASSIGN(auto files,
                        co_await fs::Dfs::mount({}, *store, containers[0].id, reactor, {}, report));
    const auto used = co_await use(*files);
    co_await files->close_all();
    files.reset();
    co_await store->close();
    co_return used;
}

Task<> format_a_container(Reactor& reactor, SimRados& cluster) {
    SimPool pool(cluster, {.delay_max = {}, .dies_at = {}});
    Report report;
    const auto store = co_await RadosStore::open({}, reactor, pool, pool, {}, report);
    EXPECT_TRUE(store) << report.text();
    const auto container = co_await (*store)->create_container({}, {.label = "c"});
    EXPECT_TRUE(container);
    EXPECT_TRUE(co_await fs::Dfs::format({}, **store, container->id, reactor, {}, report))
        << report.text();
    co_await (*store)->close();
}

Task<> empty_a_full_cluster(Reactor& reactor, SimRados& cluster, bool keeps_replies) {
    const auto done = [&](Task<Result<>> (*use)(FileSystem&)) {
        return with_new_mount(reactor, cluster, keeps_replies, use);
    };
    const auto is_refused = [](const Result<>& result) {
        return !result && result.error().code == Code::no_space;
    };
    co_await format_a_container(reactor, cluster);
    EXPECT_TRUE(co_await done(fill_directories));
    EXPECT_EQ(data_objects(cluster), 3U);
    cluster.set_full(true);
    EXPECT_TRUE(is_refused(co_await done(write_a_file)));
    EXPECT_TRUE(co_await done(move_a_file));
    EXPECT_TRUE(co_await done(remove_a_file));
    EXPECT_TRUE(co_await done(truncate_a_file));
    EXPECT_TRUE(co_await done(remove_a_directory));
    EXPECT_EQ(data_objects(cluster), 1U) << "that of the file that was moved";
    EXPECT_TRUE(is_refused(co_await done(write_a_file)));
    cluster.set_full(false);
    EXPECT_TRUE(co_await done(write_a_file));
    co_await cluster.close();
}

TEST(RadosFullCluster, FileIsRemovedWithoutStoredReplies) {
    sim::World world(1);
    SimRados cluster(world.core());
    world.run(empty_a_full_cluster(world.core(), cluster, false));
}
TEST(RadosFullCluster, FileIsRemovedWithStoredReplies) {
    sim::World world(1);
    SimRados cluster(world.core());
    world.run(empty_a_full_cluster(world.core(), cluster, true));
}

// The sweep makes the object that the data belongs to, and removes it again.
CO_TEST(RadosFullCluster, SweepFreesSpace, RadosWorld, rig) {
    auto& [world, reactor, cluster] = rig;
    SimPool pool(cluster, {.delay_max = {}, .dies_at = {}});
    Report report;
    const auto store = co_await RadosStore::open({}, reactor, pool, pool, {}, report);
    EXPECT_TRUE(store) << report.text();
    const auto container = co_await (*store)->create_container({}, {.label = "c"});
    EXPECT_TRUE(container);
    const auto now = static_cast<uint64_t>(reactor.wall_time().time_since_epoch().count());
    const std::string name = data_name({1, 1}, {.time = now, .store = 77, .number = 1});
    const std::string bytes(100, 'd');
    EXPECT_TRUE(
        co_await pool.apply({.object = {space_of(container->id), name}, .data = as_bytes(bytes)}));
    cluster.set_full(true);
    co_await sleep_for(reactor, std::chrono::hours(2));
    EXPECT_TRUE(co_await (*store)->sweep({}, container->id, report)) << report.text();
    EXPECT_EQ(cluster.objects().size(), 1U) << "the pool's record";
    co_await (*store)->close();
    co_await cluster.close();
}

}  // namespace
}  // namespace ros2s::rados
