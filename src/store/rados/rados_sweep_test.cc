// A sweep runs while clients write, also with a clock that is hours behind. Acknowledged data is
// kept, and neither side waits long for the other.
#include <gtest/gtest.h>

#include "ros2s/object/test_support/batch.h"
#include "ros2s/rados/keys.h"
#include "ros2s/rados/rados_store.h"
#include "ros2s/rados/sim/forwarding_pool.h"
#include "ros2s/rados/sim/remains.h"
#include "ros2s/rados/sim/sim_rados.h"
#include "ros2s/runtime/sim/world.h"
#include "test_support/open_store.h"

namespace ros2s::rados {
namespace {

using object::AkeyAddress;
using object::Batch;
using object::ContainerId;

const AkeyAddress file{{1, 1}, "0", "data"};
// At least: the entry, a segment and the head. What makes an object sets the head alone.
constexpr size_t keys_of_a_publication = 3;

// Its next change of at least so many keys waits. Or its next changes fail, as if another client
// were always faster.
class HeldPool final : public ForwardingPool {
  public:
    HeldPool(Pool& pool, Reactor& reactor)
        : ForwardingPool(pool), arrived(reactor), released(reactor) {}
    void hold(size_t keys) { held_keys_ = keys; }
    void refuse(size_t count, Code answer = Code::condition_failed) {
        refusals_ = count;
        answer_ = answer;
    }

    Task<Result<>> apply(const Change& change) override {
        if (held_keys_ > 0 && change.set.size() >= held_keys_) {
            held_keys_ = 0;
            arrived.set();
            co_await released;
        }
        if (refusals_ > 0 && !change.set.empty()) {
            --refusals_;
            co_return fail(answer_);
        }
        co_return co_await below().apply(change);
    }

  private:
    size_t held_keys_ = 0;
    size_t refusals_ = 0;
    Code answer_{};

  public:
    Event arrived, released;
};

Task<> write_file(RadosStore& store, ContainerId container, std::string bytes,
                  Result<object::Commit>& result) {
    Batch batch;
    batch.write(file, 0, bytes);
    result = co_await store.update({}, container, batch.transaction());
}

Task<Result<std::string>> read_file(RadosStore& store, ContainerId container, size_t length) {
    std::string bytes(length, '\0');
    auto item = object::fetch_item(file.object, {file.dkey}, {file.akey}, 0,
                                   std::as_writable_bytes(std::span(bytes)));
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

// `pause`: how long the writer stops between its bytes and their publication.
Task<Result<object::Commit>> sweep_beside_a_writer(sim::World& world, SimRados& cluster,
                                                   bool is_new_file, Duration pause) {
    Reactor& reactor = world.core();
    SimPool pool(cluster, {.delay_max = {}, .dies_at = {}});
    HeldPool held(pool, reactor);
    Report report;
    const auto writer = co_await open_store(reactor, held, without_replies());
    const auto sweeper = co_await open_store(reactor, pool, without_replies());
    const auto container = co_await writer->create_container({}, {.label = "c"});
    const std::string old(100, 'o'), bytes(40'000, 'n');
    Result<object::Commit> done = fail(Code::io);
    if (!is_new_file) co_await write_file(*writer, container->id, old, done);
    Orphans seen;
    {
        Nursery nursery(reactor, 1);
        held.hold(keys_of_a_publication);
        co_await nursery.spawn(write_file(*writer, container->id, bytes, done));
        co_await held.arrived;
        for (Duration waited{}; waited <= pause; waited += std::chrono::hours(1)) {
            world.step_clock(std::chrono::hours(2));
            EXPECT_TRUE(co_await sweeper->sweep({}, container->id, report, &seen));
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

TEST(RadosSweep, FastClockRemovesNoPublishedData) {
    for (const bool is_new_file : {false, true}) {
        SCOPED_TRACE(is_new_file);
        sim::World world(1);
        SimRados cluster(world.core());
        EXPECT_TRUE(world.run(sweep_beside_a_writer(world, cluster, is_new_file, {})));
    }
}

TEST(RadosSweep, WriterStoppedForAnHourPublishesNothing) {
    for (const bool is_new_file : {false, true}) {
        SCOPED_TRACE(is_new_file);
        sim::World world(1);
        SimRados cluster(world.core());
        const auto done =
            world.run(sweep_beside_a_writer(world, cluster, is_new_file, std::chrono::hours(1)));
        ASSERT_FALSE(done);
        EXPECT_EQ(done.error().code, Code::deadline);
    }
}

// Data without a reference, of a client that died just now.
Task<> leave_data(sim::World& world, Pool& pool, ContainerId container,
                  object::ObjectId object = file.object) {
    const auto now = static_cast<uint64_t>(world.core().wall_time().time_since_epoch().count());
    const DataId id{.time = now, .store = 77, .number = 1};
    const std::string bytes(100, 'd');
    EXPECT_TRUE(co_await pool.apply(
        {.object = {space_of(container), data_name(object, id)}, .data = as_bytes(bytes)}));
}

CO_TEST(RadosSweep, StoreSweepsPeriodically, RadosWorld, rig) {
    auto& [world, reactor, cluster] = rig;
    SimPool pool(cluster, {.delay_max = {}, .dies_at = {}});
    const auto store =
        co_await open_store(world.core(), pool, {.sweep_every = std::chrono::hours(1)});
    const auto container = co_await store->create_container({}, {.label = "c"});
    co_await leave_data(world, pool, container->id);
    co_await sleep_for(world.core(), std::chrono::hours(4));
    EXPECT_EQ(data_in(cluster), 0U);
    std::vector<uint64_t> counts;
    store->visit_metrics(
        [&](std::string_view, std::string_view, uint64_t count) { counts.push_back(count); });
    EXPECT_EQ(counts, (std::vector<uint64_t>{4, 0}));
    co_await store->close();
    co_await cluster.close();
}

CO_TEST(RadosSweep, DataOfADeadClientIsRemovedLater, RadosWorld, rig) {
    auto& [world, reactor, cluster] = rig;
    SimPool pool(cluster, {.delay_max = {}, .dies_at = {}});
    Report report;
    const auto store = co_await open_store(world.core(), pool, without_replies());
    const auto container = co_await store->create_container({}, {.label = "c"});
    co_await leave_data(world, pool, container->id);
    Orphans seen;
    for (const size_t left : {1, 1, 0}) {  // it is too young, is seen, and still there
        EXPECT_TRUE(co_await store->sweep({}, container->id, report, &seen));
        EXPECT_EQ(data_in(cluster), left);
        co_await sleep_for(world.core(), std::chrono::minutes(61));
    }
    co_await store->close();
    co_await cluster.close();
}

// The keys of the object are many pages, and the other client changes it all the time.
constexpr uint64_t keys_in_all = 16'000, keys_at_once = 1000;

Task<> write_all_the_time(RadosStore& store, ContainerId container, Reactor& reactor, Time until,
                          const bool& stop) {
    while (!stop && reactor.now() < until) {
        const Batch batch = Batch().put({file.object, "busy", "value"}, "v");
        EXPECT_TRUE(co_await store.update({}, container, batch.transaction()));
        co_await sleep_for(reactor, std::chrono::milliseconds(5));
    }
}

Task<> sweep_and_note(RadosStore& store, ContainerId container, Reactor& reactor, Time& ended) {
    Report report;
    EXPECT_TRUE(co_await store.sweep({}, container, report)) << report.text();
    ended = reactor.now();
}

CO_TEST(RadosSweep, SweepEndsDespiteContinuousWrites, RadosWorld, rig) {
    auto& [world, reactor, cluster] = rig;
    SimPool pool(cluster, {.delay_max = std::chrono::milliseconds(2), .dies_at = {}});
    const auto store = co_await open_store(reactor, pool, without_replies());
    const auto other = co_await open_store(reactor, pool, without_replies());
    const auto container = co_await store->create_container({}, {.label = "c"});
    const std::string bytes(40'000, 'n');
    Result<object::Commit> done = fail(Code::io);
    co_await write_file(*store, container->id, bytes, done);
    EXPECT_TRUE(done);
    for (uint64_t first = 0; first < keys_in_all; first += keys_at_once) {
        Batch batch;
        for (uint64_t i = first; i < first + keys_at_once; ++i) {
            batch.put({file.object, "k" + std::to_string(i), "value"}, "v");
        }
        EXPECT_TRUE(co_await store->update({}, container->id, batch.transaction()));
    }
    co_await leave_data(world, pool, container->id);
    EXPECT_EQ(data_in(cluster), 2U);
    co_await sleep_for(reactor, std::chrono::hours(2));
    const Time start = reactor.now(), until = start + std::chrono::seconds(10);
    const Duration soon = std::chrono::seconds(3);
    Time swept{};
    bool stop = false;
    Nursery writing(reactor, 1), sweeping(reactor, 1);
    co_await writing.spawn(write_all_the_time(*other, container->id, reactor, until, stop));
    co_await sweeping.spawn(sweep_and_note(*store, container->id, reactor, swept));
    co_await sleep_for(reactor, std::chrono::milliseconds(30));
    const Batch batch = Batch().put({file.object, "own", "value"}, "v");
    EXPECT_TRUE(co_await store->update({}, container->id, batch.transaction()));
    EXPECT_LT(reactor.now() - start, soon) << "a writer waits for the sweep";
    co_await sweeping.join();
    EXPECT_LT(swept - start, soon) << "the sweep waits for a writer";
    stop = true;
    co_await writing.join();
    EXPECT_EQ(data_in(cluster), 1U) << "that of the file";
    EXPECT_EQ((co_await read_file(*other, container->id, bytes.size())).value_or(""), bytes);
    co_await store->close();
    co_await other->close();
    co_await cluster.close();
}

// When the sweep has looked for the data and found no name, its writer publishes it.
CO_TEST(RadosSweep, DataPublishedDuringASweepStays, RadosWorld, rig) {
    auto& [world, reactor, cluster] = rig;
    SimPool pool(cluster, {.delay_max = {}, .dies_at = {}});
    HeldPool writing(pool, reactor), sweeping(pool, reactor);
    const auto writer = co_await open_store(reactor, writing, without_replies());
    const auto sweeper = co_await open_store(reactor, sweeping, without_replies());
    const auto container = co_await writer->create_container({}, {.label = "c"});
    const std::string old(100, 'o'), bytes(40'000, 'n');
    Result<object::Commit> done = fail(Code::io);
    co_await write_file(*writer, container->id, old, done);
    Time swept{};
    {
        Nursery nursery(reactor, 2);
        done = fail(Code::io);
        writing.hold(keys_of_a_publication);
        co_await nursery.spawn(write_file(*writer, container->id, bytes, done));
        co_await writing.arrived;
        world.step_clock(std::chrono::hours(2));
        sweeping.hold(1);
        co_await nursery.spawn(sweep_and_note(*sweeper, container->id, reactor, swept));
        co_await sweeping.arrived;
        writing.released.set();
        co_await sleep_for(reactor, std::chrono::milliseconds(1));
        EXPECT_TRUE(done);
        sweeping.released.set();
        co_await nursery.join();
    }
    EXPECT_EQ((co_await read_file(*sweeper, container->id, bytes.size())).value_or(""), bytes);
    co_await writer->close();
    co_await sweeper->close();
    co_await cluster.close();
}

// The object cannot be changed. The next sweep removes its data at once.
CO_TEST(RadosSweep, ContendedObjectIsLeftToTheNextSweep, RadosWorld, rig) {
    auto& [world, reactor, cluster] = rig;
    SimPool pool(cluster, {.delay_max = {}, .dies_at = {}});
    HeldPool held(pool, world.core());
    Report report;
    const auto store = co_await open_store(world.core(), held, without_replies());
    const auto container = co_await store->create_container({}, {.label = "c"});
    Result<object::Commit> done = fail(Code::io);
    co_await write_file(*store, container->id, "x", done);
    co_await leave_data(world, pool, container->id);
    co_await sleep_for(world.core(), std::chrono::minutes(61));
    Orphans seen;
    EXPECT_TRUE(co_await store->sweep({}, container->id, report, &seen));
    co_await sleep_for(world.core(), std::chrono::minutes(61));
    held.refuse(1000);
    EXPECT_TRUE(co_await store->sweep({}, container->id, report, &seen));
    EXPECT_EQ(data_in(cluster), 1U);
    held.refuse(0);
    EXPECT_TRUE(co_await store->sweep({}, container->id, report, &seen));
    EXPECT_EQ(data_in(cluster), 0U);
    co_await store->close();
    co_await cluster.close();
}

// A damaged object is named; the others are swept.
CO_TEST(RadosSweep, DamagedObjectIsReportedAndOthersAreSwept, RadosWorld, rig) {
    auto& [world, reactor, cluster] = rig;
    SimPool pool(cluster, {.delay_max = {}, .dies_at = {}});
    Report report;
    const auto store = co_await open_store(world.core(), pool, without_replies());
    const auto container = co_await store->create_container({}, {.label = "c"});
    const object::ObjectId damaged{1, 0};
    const ObjectName name{space_of(container->id), object_name(damaged)};
    EXPECT_TRUE(co_await pool.apply({.object = name, .set = {{head_key, "rubbish"}}}));
    co_await leave_data(world, pool, container->id, damaged);
    co_await leave_data(world, pool, container->id);
    co_await sleep_for(world.core(), std::chrono::hours(2));
    const auto swept = co_await store->sweep({}, container->id, report);
    EXPECT_TRUE(!swept && swept.error().code == Code::corrupt);
    EXPECT_NE(report.text().find("object '" + name.name + "' in namespace '" + name.space),
              std::string::npos)
        << report.text();
    EXPECT_EQ(data_in(cluster), 1U) << "that of the damaged object";
    EXPECT_FALSE(cluster.objects().contains({name.space, object_name(file.object)}));
    co_await store->close();
    co_await cluster.close();
}

// What ends the sweep after a damaged object is told instead: of the object that it is of, if any.
Task<> end_a_sweep_after_a_damaged_object(sim::World& world, SimRados& cluster, Code error) {
    SimPool pool(cluster, {.delay_max = {}, .dies_at = {}});
    HeldPool held(pool, world.core());
    Report report;
    const auto store =
        co_await open_store(world.core(), held, {.sweep_rate = 1, .keeps_replies = false});
    const auto container = co_await store->create_container({}, {.label = "c"});
    const object::ObjectId damaged{1, 0};
    const ObjectName name{space_of(container->id), object_name(damaged)};
    EXPECT_TRUE(co_await pool.apply({.object = name, .set = {{head_key, "rubbish"}}}));
    co_await leave_data(world, pool, container->id, damaged);
    co_await leave_data(world, pool, container->id);
    co_await sleep_for(world.core(), std::chrono::hours(2));
    Call call;
    if (error == Code::deadline) {
        // It lists three names, looks at the data of the damaged object, and then at the other's.
        call.deadline = world.core().now() + std::chrono::milliseconds(4500);
    } else {
        held.refuse(1, error);
    }
    const auto swept = co_await store->sweep(call, container->id, report);
    EXPECT_EQ(swept ? "swept" : describe(swept.error()), describe(Error{error}));
    EXPECT_EQ(report.text().find(name.name), std::string::npos) << report.text();
    const bool has_name = report.text().find(object_name(file.object)) != std::string::npos;
    EXPECT_EQ(has_name, error != Code::deadline) << report.text();
    co_await store->close();
    co_await cluster.close();
}

TEST(RadosSweep, InterruptionIsReportedRatherThanDamage) {
    for (const Code error : {Code::denied, Code::deadline}) {
        sim::World world(1);
        SimRados cluster(world.core());
        world.run(end_a_sweep_after_a_damaged_object(world, cluster, error));
    }
}

// Removals of the data that garbage records name take seconds. A writer of this store does not wait
// for them.
Task<> sweep_much_garbage(sim::World& world, SimRados& cluster, uint64_t rate) {
    constexpr uint64_t garbage = 5000;
    Reactor& reactor = world.core();
    SimPool pool(cluster, {.delay_max = std::chrono::milliseconds(1), .dies_at = {}});
    const auto store =
        co_await open_store(reactor, pool, {.sweep_rate = rate, .keeps_replies = false});
    const auto container = co_await store->create_container({}, {.label = "c"});
    Result<object::Commit> done = fail(Code::io);
    co_await write_file(*store, container->id, "x", done);
    EXPECT_TRUE(done);
    const std::string space = space_of(container->id);
    const ObjectName name{space, object_name(file.object)};
    const auto now = static_cast<uint64_t>(reactor.wall_time().time_since_epoch().count());
    for (uint64_t i = 0; i < garbage; ++i) {
        const std::string data = data_name(file.object, {.time = now, .store = 77, .number = i});
        cluster.objects()[{space, data}].data = "d";
        cluster.objects().at(name).omap[garbage_tag + data] = "1";
    }
    const Time start = reactor.now();
    Time swept{};
    Nursery sweeping(reactor, 1);
    co_await sweeping.spawn(sweep_and_note(*store, container->id, reactor, swept));
    while (data_in(cluster) > garbage - 10) {
        co_await sleep_for(reactor, std::chrono::milliseconds(1));
    }
    const Time written = reactor.now();
    co_await write_file(*store, container->id, "y", done);
    EXPECT_TRUE(done);
    EXPECT_LT(reactor.now() - written, std::chrono::milliseconds(100)) << "it waits for the sweep";
    co_await sweeping.join();
    if (rate > 0) EXPECT_GE(swept - start, std::chrono::seconds(garbage / rate));
    EXPECT_EQ(data_in(cluster), 0U) << "the file is in the omap";
    EXPECT_EQ(remains_in(cluster), std::vector<std::string>{});
    EXPECT_EQ((co_await read_file(*store, container->id, 1)).value_or(""), "y");
    co_await store->close();
    co_await cluster.close();
}

TEST(RadosSweep, WriterDoesNotWaitForGarbageRemoval) {
    for (const uint64_t rate : {0, 500}) {
        SCOPED_TRACE(rate);
        sim::World world(1);
        SimRados cluster(world.core());
        world.run(sweep_much_garbage(world, cluster, rate));
    }
}

// "done", "replayed" or the error.
Task<std::string> send_named(RadosStore& store, ContainerId container, UpdateName id, bool is_new) {
    Batch batch;
    batch.id(id).put({file.object, "0", "value"}, std::to_string(id.sequence));
    if (is_new) batch.is_new();
    const auto done = co_await store.update({}, container, batch.transaction());
    if (!done) co_return describe(done.error());
    co_return done->replayed ? "replayed" : "done";
}

// A client makes a change. A day later its reply is gone. The reply of an active client stays.
CO_TEST(RadosSweep, LateRepetitionAfterReplyRemovalIsRefused, RadosWorld, rig) {
    auto& [world, reactor, cluster] = rig;
    SimPool pool(cluster, {.delay_max = {}, .dies_at = {}});
    Report report;
    const auto store = co_await open_store(world.core(), pool);
    const auto container = co_await store->create_container({}, {.label = "c"});
    Uuid idle, busy;
    idle.bytes[0] = 1;
    busy.bytes[0] = 2;
    const auto send = [&](Uuid client, uint32_t slot, uint64_t sequence, bool is_new) {
        return send_named(*store, container->id, {client, slot, sequence}, is_new);
    };
    EXPECT_EQ(co_await send(idle, 0, 1, false), "done");
    EXPECT_EQ(co_await send(idle, 0, 2, true), "done");
    EXPECT_EQ(co_await send(idle, 0, 2, false), "replayed") << "it was done again";
    Orphans seen;
    uint64_t sequence = 0;
    for (const size_t left : {1, 2, 1}) {  // the busy one's stays
        EXPECT_TRUE(co_await store->sweep({}, container->id, report, &seen));
        EXPECT_EQ(replies_in(cluster), left);
        EXPECT_EQ(co_await send(busy, 0, ++sequence, true), "done");
        co_await sleep_for(world.core(), std::chrono::hours(13));
    }
    EXPECT_EQ(co_await send(idle, 0, 2, false), describe(Error{Code::expired}));
    EXPECT_EQ(co_await send(idle, 0, 3, true), "done");
    EXPECT_EQ(co_await send(idle, 0, 3, false), "replayed");
    EXPECT_EQ(co_await send(idle, 1, 1, false), describe(Error{Code::expired}))
        << "it may have been done";
    co_await store->close();
    co_await cluster.close();
}

}  // namespace
}  // namespace ros2s::rados
