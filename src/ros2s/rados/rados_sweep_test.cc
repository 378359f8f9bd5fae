// A sweep beside a writer whose clock is hours behind: what was acknowledged is there.
#include <gtest/gtest.h>

#include "ros2s/object/contract/batch.h"
#include "ros2s/rados/keys.h"
#include "ros2s/rados/rados_store.h"
#include "ros2s/rados/sim/sim_rados.h"
#include "ros2s/runtime/sim/world.h"

namespace ros2s::rados {
namespace {

using object::ContainerId;
using object::contract::AkeyAddress;
using object::contract::Batch;

const AkeyAddress file{{1, 1}, "0", "data"};

// Its next change of keys waits.
class HeldPool final : public Pool {
  public:
    HeldPool(Pool& pool, Reactor& reactor) : pool_(pool), arrived(reactor), released(reactor) {}
    void hold() { holds_ = true; }

    [[nodiscard]] std::string name() const override { return pool_.name(); }
    [[nodiscard]] std::string description() const override { return pool_.description(); }
    Task<Result<>> apply(const Change& change) override {
        if (holds_ && !change.set.empty()) {
            holds_ = false;
            arrived.set();
            co_await released;
        }
        co_return co_await pool_.apply(change);
    }
    Task<Result<ReadReply>> read(const Read& read) override { return pool_.read(read); }
    Task<Result<uint64_t>> read_data(const ObjectName& object, uint64_t offset,
                                     Bytes into) override {
        return pool_.read_data(object, offset, into);
    }
    [[nodiscard]] std::unique_ptr<Listing> list(std::string space) override {
        return pool_.list(std::move(space));
    }
    Task<Result<object::PoolSpace>> space() override { return pool_.space(); }

  private:
    Pool& pool_;
    bool holds_ = false;

  public:
    Event arrived, released;
};

std::unique_ptr<RadosStore> opened_for_sweeps(Result<std::unique_ptr<RadosStore>> store) {
    EXPECT_TRUE(store);
    return std::move(*store);
}

Task<> write_file(RadosStore& store, ContainerId container, std::string bytes,
                  Result<object::Commit>& result) {
    Batch batch;
    batch.write(file, 0, bytes);
    result = co_await store.update({}, container, batch.transaction());
}

Task<Result<std::string>> read_file(RadosStore& store, ContainerId container, size_t length) {
    std::string bytes(length, '\0');
    object::FetchItem item{
        .object = file.object,
        .dkey = {file.dkey},
        .akey = {file.akey},
        .extent = {0, length},
        .window = object::Window::local(std::as_writable_bytes(std::span(bytes)))};
    ROS2S_CO_TRY(co_await store.fetch({}, container, {&item, 1}));
    if (!item.status) co_return fail(item.status.error());
    co_return bytes;
}

size_t data_in(SimRados& cluster) {
    size_t count = 0;
    for (const auto& [name, object] : cluster.objects()) {
        if (parse_data_name(name.name)) ++count;
    }
    return count;
}

// `pause`: so long the writer is stopped between its bytes and their publication.
Task<Result<object::Commit>> sweep_beside_a_writer(sim::World& world, SimRados& cluster,
                                                   bool is_new_file, Duration pause) {
    Reactor& reactor = world.core();
    SimPool pool(cluster, {.delay_max = {}, .dies_at = {}});
    HeldPool held(pool, reactor);
    Report report;
    const auto writer = opened_for_sweeps(
        co_await RadosStore::open({}, reactor, held, held, {.keeps_replies = false}, report));
    const auto sweeper = opened_for_sweeps(
        co_await RadosStore::open({}, reactor, pool, pool, {.keeps_replies = false}, report));
    const auto container = co_await writer->create_container({}, {.label = "c"});
    const std::string old(100, 'o'), bytes(40'000, 'n');
    Result<object::Commit> done = fail(Code::io);
    if (!is_new_file) co_await write_file(*writer, container->id, old, done);
    RadosStore::Orphans seen;
    {
        Nursery nursery(reactor, 1);
        held.hold();
        co_await nursery.spawn(write_file(*writer, container->id, bytes, done));
        co_await held.arrived;
        for (Duration waited{}; waited <= pause; waited += std::chrono::hours(1)) {
            world.step_clock(std::chrono::hours(2));
            EXPECT_TRUE(co_await sweeper->sweep({}, container->id, &seen));
            world.step_clock(-std::chrono::hours(2));
            if (waited < pause) co_await sleep_for(reactor, std::chrono::hours(1));
        }
        held.released.set();
        co_await nursery.join();
    }
    const auto found = co_await read_file(*sweeper, container->id, bytes.size());
    if (done) {
        EXPECT_TRUE(found);
        EXPECT_EQ(found.value_or(""), bytes);
    }
    co_await writer->close();
    co_await sweeper->close();
    co_await cluster.close();
    co_return done;
}

TEST(RadosSweep, AClockThatIsAheadRemovesNothingThatAWriterPublishes) {
    for (const bool is_new_file : {false, true}) {
        SCOPED_TRACE(is_new_file);
        sim::World world(1);
        SimRados cluster(world.core());
        EXPECT_TRUE(world.run(sweep_beside_a_writer(world, cluster, is_new_file, {})));
    }
}

TEST(RadosSweep, AWriterThatWasStoppedForAnHourPublishesNothing) {
    sim::World world(1);
    SimRados cluster(world.core());
    const auto done =
        world.run(sweep_beside_a_writer(world, cluster, false, std::chrono::hours(1)));
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, Code::deadline);
}

Task<> sweep_what_a_dead_client_left(sim::World& world, SimRados& cluster) {
    SimPool pool(cluster, {.delay_max = {}, .dies_at = {}});
    Report report;
    const auto store = opened_for_sweeps(
        co_await RadosStore::open({}, world.core(), pool, pool, {.keeps_replies = false}, report));
    const auto container = co_await store->create_container({}, {.label = "c"});
    const auto now = static_cast<uint64_t>(world.core().wall_time().time_since_epoch().count());
    const DataId id{.time = now, .store = 77, .number = 1};
    const std::string bytes(100, 'd');
    EXPECT_TRUE(co_await pool.apply(
        {.object = {space_of(container->id), data_name({1, 1}, id)}, .data = as_bytes(bytes)}));
    RadosStore::Orphans seen;
    for (const size_t left : {1, 1, 0}) {  // it is too young, is seen, and still there
        EXPECT_TRUE(co_await store->sweep({}, container->id, &seen));
        EXPECT_EQ(data_in(cluster), left);
        co_await sleep_for(world.core(), std::chrono::minutes(61));
    }
    co_await store->close();
    co_await cluster.close();
}

TEST(RadosSweep, WhatADeadClientLeftGoesWhenItWasSeenForLong) {
    sim::World world(1);
    SimRados cluster(world.core());
    world.run(sweep_what_a_dead_client_left(world, cluster));
}

}  // namespace
}  // namespace ros2s::rados
