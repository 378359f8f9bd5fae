#include "engine_store.h"

#include <gtest/gtest.h>

#include "ros2s/base/crc32c.h"
#include "ros2s/runtime/nursery.h"
#include "test_support/engine.h"

namespace ros2s::engine {
namespace {

using object::Commit;
using object::ContainerId;

// One block, of 0x5a.
struct Block {
    Block() { std::ranges::fill(bytes.bytes(), std::byte{0x5a}); }
    AlignedBuffer bytes{block_bytes};
};
Task<Result<Commit>> write_block(Bench& bench, ContainerId container) {
    const Block block;
    object::Transaction transaction;
    transaction.operations.push_back({.kind = object::Operation::Kind::write,
                                      .object = {1, 2},
                                      .dkey = object::Dkey::integer(0),
                                      .akey = {"data"},
                                      .extent = {0, block_bytes},
                                      .window = object::Window::local(block.bytes.bytes())});
    co_return co_await bench.store->update(bench.call, container, transaction);
}

Task<Result<>> write_and_read(Bench& bench) {
    ROS2S_CO_TRY(co_await bench.create());
    ROS2S_CO_TRY(co_await bench.open());
    ROS2S_CO_TRY_ASSIGN(const auto container,
                        co_await bench.store->create_container(bench.call, {.label = "c"}));
    const Block written;
    const AlignedBuffer& bytes = written.bytes;
    ROS2S_CO_TRY_ASSIGN(const Commit commit, co_await write_block(bench, container.id));
    EXPECT_GT(commit.epoch.value, 0U);
    for (int round = 0; round < 3; ++round) {
        AlignedBuffer into(block_bytes);
        std::vector<object::FetchItem> items(1);
        items[0].object = {1, 2};
        items[0].dkey = object::Dkey::integer(0);
        items[0].akey = {"data"};
        items[0].extent = {0, block_bytes};
        items[0].window = object::Window::local(into.bytes());
        ROS2S_CO_TRY(co_await bench.store->fetch(bench.call, container.id, items));
        EXPECT_TRUE(items[0].status.has_value());
        EXPECT_EQ(items[0].epoch, commit.epoch);
        EXPECT_EQ(items[0].checksums, object::Checksums{crc32c(bytes.bytes())});
        EXPECT_EQ(std::memcmp(into.data(), bytes.data(), block_bytes), 0);
        if (round == 0) ROS2S_CO_TRY(co_await bench.reopen());
        if (round == 1) {
            ROS2S_CO_TRY(co_await bench.crash_and_open());
            EXPECT_EQ(bench.store->read_only_reason(), "");
        }
    }
    co_return co_await bench.close();
}

TEST(EngineStore, WrittenDataIsReadAfterReopening) {
    Bench bench(1);
    const Result<> result = bench.world.run(write_and_read(bench));
    EXPECT_TRUE(result.has_value()) << describe(result.error()) << ": " << bench.report.text();
}

// Update names of container changes.
Task<Result<>> containers_once(Bench& bench) {
    ROS2S_CO_TRY(co_await bench.create());
    ROS2S_CO_TRY(co_await bench.open());
    UpdateName name{.client = Uuid::make(bench.world.secrets()), .slot = 1, .sequence = 1};
    Call named{.update = &name};
    ROS2S_CO_TRY_ASSIGN(const auto made,
                        co_await bench.store->create_container(named, {.label = "c"}));
    named.repeated = true;
    for (int round = 0; round < 3; ++round) {
        ROS2S_CO_TRY_ASSIGN(const auto again,
                            co_await bench.store->create_container(named, {.label = "c"}));
        EXPECT_EQ(again.id, made.id);
        EXPECT_EQ(again.created, made.created);
        if (round == 0) ROS2S_CO_TRY(co_await bench.crash_and_open());
        if (round == 1) ROS2S_CO_TRY(co_await bench.reopen());
    }
    // A repetition gets its reply although no new update is accepted.
    name = {.client = name.client, .slot = 2, .sequence = 7};
    named.repeated = false;
    ROS2S_CO_TRY(co_await bench.store->destroy_container(named, made.id));
    named.repeated = true;
    bench.options.read_only = true;
    ROS2S_CO_TRY(co_await bench.crash_and_open());
    ROS2S_CO_TRY(co_await bench.store->destroy_container(named, made.id));
    name = {.client = name.client, .slot = 1, .sequence = 1};
    const auto gone = co_await bench.store->create_container(named, {.label = "c"});
    EXPECT_EQ(gone.error().code, Code::stale) << "made, and destroyed since";
    name.sequence = 2;
    const auto refused = co_await bench.store->create_container(named, {.label = "c"});
    EXPECT_EQ(refused.error().code, Code::read_only);
    co_return co_await bench.close();
}

TEST(EngineStore, RepeatedContainerRequestIsDoneOnce) {
    for (const size_t cores : {1, 3}) {
        Bench bench(2, 1, 16 << 20, cores);
        const Result<> result = bench.world.run(containers_once(bench));
        EXPECT_TRUE(result.has_value()) << describe(result.error()) << ": " << bench.report.text();
    }
}

Task<Result<object::ContainerRecord>> create_for(Bench& bench, std::string owner,
                                                 std::string label) {
    const object::ContainerProperties properties{.label = std::move(label),
                                                 .owner = std::move(owner)};
    co_return co_await bench.store->create_container(bench.call, properties);
}

// One owner creates as many containers as it may. Another owner and an administrator still can.
Task<Result<>> one_owner_takes_all(Bench& bench) {
    ROS2S_CO_TRY(co_await bench.create());
    ROS2S_CO_TRY(co_await bench.open());
    std::vector<ContainerId> made;
    Error refusal{};
    while (made.size() <= object::containers_max) {
        const auto next = co_await create_for(bench, "alice", "a-" + std::to_string(made.size()));
        if (!next) {
            refusal = next.error();
            break;
        }
        made.push_back(next->id);
    }
    EXPECT_EQ(made.size(), object::containers_max / 2);
    EXPECT_EQ(refusal.code, Code::too_large);
    EXPECT_EQ(refusal.detail, object::containers_max / 2);
    ROS2S_CO_TRY(co_await create_for(bench, "CN=bob", "b"));
    ROS2S_CO_TRY(co_await create_for(bench, "", "administrators"));
    ROS2S_CO_TRY(co_await bench.reopen());
    EXPECT_FALSE(co_await create_for(bench, "alice", "a-more"));
    // The limit is the number of free ones. She destroys two, which others may use, too.
    for (int i = 0; i < 2; ++i) {
        ROS2S_CO_TRY(co_await bench.store->destroy_container(bench.call, made[i]));
    }
    ROS2S_CO_TRY(co_await create_for(bench, "alice", "a-more"));
    EXPECT_FALSE(co_await create_for(bench, "alice", "a-most"));
    co_return co_await bench.close();
}

TEST(EngineStore, OwnerCannotTakeAllContainers) {
    Bench bench(1);
    const Result<> result = bench.world.run(one_owner_takes_all(bench));
    EXPECT_TRUE(result.has_value()) << describe(result.error()) << ": " << bench.report.text();
}

Task<Result<object::QueryReply>> write_at(Bench& bench, ContainerId container) {
    const WallTime now = bench.world.core().wall_time();
    ROS2S_CO_TRY_ASSIGN(const Commit commit, co_await write_block(bench, container));
    EXPECT_LT(std::chrono::abs(commit.time - now), std::chrono::seconds(1));
    ROS2S_CO_TRY_ASSIGN(const auto reply,
                        co_await bench.store->query(bench.call, container, {1, 2}, {"data"}));
    EXPECT_EQ(reply.last_epoch, commit.epoch);
    EXPECT_EQ(reply.last_time, commit.time);
    co_return reply;
}

// The machine's clock is a year ahead for a while: later updates have later times.
Task<Result<>> clock_steps(Bench& bench) {
    constexpr Duration year = std::chrono::hours(24 * 365);
    ROS2S_CO_TRY(co_await bench.create());
    ROS2S_CO_TRY(co_await bench.open());
    ROS2S_CO_TRY_ASSIGN(const auto container,
                        co_await bench.store->create_container(bench.call, {.label = "c"}));
    object::Epoch last{};
    for (const Duration step : {Duration{}, year, -year, -year, year}) {
        bench.world.step_clock(step);
        for (int opening = 0; opening < 3; ++opening) {
            ROS2S_CO_TRY_ASSIGN(const auto reply, co_await write_at(bench, container.id));
            EXPECT_GT(reply.last_epoch, last);
            last = reply.last_epoch;
            if (opening == 0) ROS2S_CO_TRY(co_await bench.reopen());
            if (opening == 1) ROS2S_CO_TRY(co_await bench.crash_and_open());
        }
    }
    co_return co_await bench.close();
}

TEST(EngineStore, ClockStepsAreFollowedInBothDirections) {
    Bench bench(5);
    const Result<> result = bench.world.run(clock_steps(bench));
    EXPECT_TRUE(result.has_value()) << describe(result.error()) << ": " << bench.report.text();
}

// A group's flush takes long. Meanwhile a checkpoint finds the disk of the index full, which ends
// all writing. The group may be durable: no_space would say that it did not happen.
Task<Result<>> full_index(Bench& bench) {
    ROS2S_CO_TRY(co_await bench.create());
    ROS2S_CO_TRY(co_await bench.open());
    ROS2S_CO_TRY_ASSIGN(const auto container,
                        co_await bench.store->create_container(bench.call, {.label = "c"}));
    bool flushes = false;
    bench.disks[0]->set_hook([&](const device::SimOperation& operation) {
        if (operation.kind != device::SimKind::flush) return device::SimFault::none;
        flushes = true;
        return device::SimFault::slow;
    });
    bench.index_medium.set_full(true);
    const std::string value = "kept";
    const object::ObjectId object{1, 2};
    object::Transaction transaction;
    transaction.operations.push_back({.kind = object::Operation::Kind::put,
                                      .object = object,
                                      .dkey = {"d"},
                                      .akey = {"a"},
                                      .window = object::Window::local(as_bytes(value))});
    Result<Commit> under_way;
    Result<> full;
    {
        const auto update = [](Bench& of, ContainerId where, const object::Transaction& what,
                               Result<Commit>& result) -> Task<> {
            result = co_await of.store->update(of.call, where, what);
        };
        const auto checkpoint = [](Bench& of, const bool& begins, Result<>& result) -> Task<> {
            while (!begins) co_await sleep_for(of.world.core(), std::chrono::microseconds(1));
            result = co_await of.store->checkpoint();
        };
        Nursery nursery(bench.world.core(), 2);
        co_await nursery.spawn(update(bench, container.id, transaction, under_way));
        co_await nursery.spawn(checkpoint(bench, flushes, full));
        co_await nursery.join();
    }
    EXPECT_FALSE(full.has_value());
    EXPECT_FALSE(under_way.has_value());
    if (!under_way) EXPECT_EQ(under_way.error().code, Code::io);
    const auto later = co_await bench.store->update(bench.call, container.id, transaction);
    EXPECT_EQ(later.error().code, Code::read_only);
    bench.disks[0]->set_hook({});
    bench.index_medium.set_full(false);
    (void)co_await bench.close();
    ROS2S_CO_TRY(co_await bench.open());
    ROS2S_CO_TRY_ASSIGN(const auto found,
                        co_await bench.store->query(bench.call, container.id, object, {"a"}));
    EXPECT_TRUE(found.exists);  // this one was durable
    co_return co_await bench.close();
}

TEST(EngineStore, FullIndexLeavesRunningUpdateInDoubt) {
    Bench bench(6);
    const Result<> result = bench.world.run(full_index(bench));
    EXPECT_TRUE(result.has_value()) << describe(result.error()) << ": " << bench.report.text();
}

}  // namespace
}  // namespace ros2s::engine
