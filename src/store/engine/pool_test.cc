// Pools as a whole: groups, home devices, memory, replies, shutdown, traces.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ros2s/object/test_support/batch.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/sim/co_test.h"
#include "ros2s/runtime/trace.h"
#include "test_support/pool.h"

namespace ros2s::engine {
namespace {

using Pool = PoolBench;

// ---- groups --------------------------------------------------------------------------------

// Two writes of `blocks` blocks, the second when the first one's record is being written. Which
// writes were in progress before the first flush?
struct BeforeTheFlush {
    uint64_t data_blocks = 0;
    uint64_t records = 0;
    friend bool operator==(const BeforeTheFlush&, const BeforeTheFlush&) = default;
};
Task<BeforeTheFlush> before_the_flush(Pool& pool, uint64_t blocks) {
    co_await pool.start();
    for (uint64_t dkey : {1, 2}) co_await write_into(pool, dkey, blocks);  // to load them
    const uint64_t journal_end = (3 * block_bytes) + pool.create_options.journal_bytes;
    BeforeTheFlush seen;
    bool flushed = false;
    pool.disks[0]->set_hook([&](const device::SimOperation& operation) {
        flushed = flushed || operation.kind == device::SimKind::flush;
        if (flushed || operation.kind != device::SimKind::write) return device::SimFault::none;
        if (operation.offset < journal_end) {
            ++seen.records;
        } else {
            seen.data_blocks += operation.length / block_bytes;
        }
        return device::SimFault::none;
    });
    {
        Nursery nursery(pool.env.reactor, 2);
        co_await nursery.spawn(write_into(pool, 1, blocks));
        while (seen.records == 0) {
            co_await sleep_for(pool.env.reactor, std::chrono::microseconds(1));
        }
        co_await nursery.spawn(write_into(pool, 2, blocks));
        co_await nursery.join();
    }
    pool.disks[0]->set_hook({});
    const BeforeTheFlush before = seen;
    EXPECT_OK(co_await pool.expect(1, blocks, 7));
    EXPECT_OK(co_await pool.expect(2, blocks, 7));
    EXPECT_OK(co_await pool.close());
    co_return before;
}

TEST(CommitGroups, SmallGroupWaitsAndLargeGroupDoesNot) {
    constexpr uint64_t large = (1 << 20) / block_bytes;
    Pool small(1);
    EXPECT_EQ(small.world.run(before_the_flush(small, large - 1)).records, 1U);
    Pool both(1);
    EXPECT_EQ(both.world.run(before_the_flush(both, large)), (BeforeTheFlush{2 * large, 2}));
}

// So that they do not all end together, and the device writes the first while the next is copied.
CO_TEST(CommitGroups, ConcurrentLargeRequestsGetOwnGroups, Pool, pool, 1) {
    constexpr uint64_t large = (1 << 20) / block_bytes;
    co_await pool.start();
    for (uint64_t dkey = 1; dkey <= 4; ++dkey) co_await write_into(pool, dkey, large);
    const uint64_t done = pool.metric("ros2store_engine_groups_total");
    {
        Nursery nursery(pool.env.reactor, 4);
        for (uint64_t dkey = 1; dkey <= 4; ++dkey) {
            co_await nursery.spawn(write_into(pool, dkey, large));
        }
        co_await nursery.join();
    }
    EXPECT_EQ(pool.metric("ros2store_engine_groups_total") - done, 4U);
    EXPECT_OK(co_await pool.close());
}

// Its record and its flush wait for the previous group; its data need not.
TEST(CommitGroups, DataIsWrittenWhileTheGroupGrows) {
    Pool a_run_worth_a_write(1);
    EXPECT_EQ(a_run_worth_a_write.world.run(before_the_flush(a_run_worth_a_write, 16)),
              (BeforeTheFlush{32, 1}));
    Pool less(1);
    EXPECT_EQ(less.world.run(before_the_flush(less, 15)), (BeforeTheFlush{15, 1}));
}

// The flush of the previous group fails while a slow device still reads the memory of the open one.
Task<> write_failing(Pool& pool, uint64_t dkey, uint64_t blocks) {
    EXPECT_FALSE((co_await pool.write(dkey, blocks, 8)).has_value());
}
CO_TEST(CommitGroups, FailedGroupKeepsMemoryUntilWritten, Pool, pool, 1) {
    co_await pool.start();
    for (uint64_t dkey : {1, 2}) co_await write_into(pool, dkey, 16);  // to load them
    const uint64_t journal_end = (3 * block_bytes) + pool.create_options.journal_bytes;
    uint64_t records = 0;
    uint64_t slow_writes = 0;
    pool.disks[0]->set_hook([&](const device::SimOperation& operation) {
        if (operation.kind == device::SimKind::flush) return device::SimFault::error;
        if (operation.kind != device::SimKind::write) return device::SimFault::none;
        if (operation.offset < journal_end) ++records;
        if (operation.offset < journal_end || records == 0) return device::SimFault::none;
        ++slow_writes;
        return device::SimFault::slow;
    });
    {
        Nursery nursery(pool.env.reactor, 2);
        co_await nursery.spawn(write_failing(pool, 1, 16));
        while (records == 0) {
            co_await sleep_for(pool.env.reactor, std::chrono::microseconds(1));
        }
        co_await nursery.spawn(write_failing(pool, 2, 16));
        co_await nursery.join();
    }
    EXPECT_EQ(slow_writes, 1U);
    EXPECT_NE(pool.store->read_only_reason(), "");
    pool.disks[0]->set_hook({});
    EXPECT_OK(co_await pool.close());
}

// ---- devices -------------------------------------------------------------------------------

CO_TEST(EnginePool, DkeysAreSpreadOverDevices, Pool, pool, 1, 4) {
    co_await pool.start();
    for (uint64_t dkey = 0; dkey < 64; ++dkey) EXPECT_OK(co_await pool.write(dkey, 4, 1));
    for (const device::BlockDevice* device : pool.store->devices()) {
        EXPECT_GT(device->counters().written_bytes.value(), 64 * 4 * block_bytes / 8);
    }
    EXPECT_OK(co_await pool.close());
}

// ---- memory --------------------------------------------------------------------------------

Task<> put_many(Pool& pool, uint64_t first, uint64_t count, uint64_t& most) {
    const std::string text(3000, 'x');
    for (uint64_t i = first; i < first + count; ++i) {
        object::Transaction transaction;
        transaction.operations.push_back({.kind = object::Operation::Kind::put,
                                          .object = {2, i / 100},
                                          .dkey = object::Dkey::integer(i),
                                          .akey = {"v"},
                                          .window = object::Window::local(as_bytes(text))});
        const auto commit = co_await pool.store->update(pool.call, pool.container, transaction);
        EXPECT_OK(commit);
        most = std::max(most, pool.store->memory_bytes());
    }
}
CO_TEST(EnginePool, LargeIndexStaysWithinTheMemoryLimit, Pool, pool, 1, 1, 48 << 20) {
    pool.create_options.journal_bytes = 16 << 20;
    pool.options.memory_bytes = 4 << 20;
    co_await pool.start();
    constexpr uint64_t writers = 16, each = 900;
    uint64_t most = 0;
    {
        Nursery nursery(pool.world.core(), writers);
        for (uint64_t w = 0; w < writers; ++w) {
            co_await nursery.spawn(put_many(pool, w * each, each, most));
        }
        co_await nursery.join();
    }
    EXPECT_GT(writers * each * 3000, 10 * pool.options.memory_bytes);
    // All of them again, in an order that is bad for any cache.
    std::string text(3000, ' ');
    for (uint64_t i = 0; i < writers * each; ++i) {
        const uint64_t n = i * 7919 % (writers * each);
        auto item = object::fetch_item({2, n / 100}, object::Dkey::integer(n), {"v"}, 0,
                                       std::as_writable_bytes(std::span(text)));
        EXPECT_OK(co_await pool.store->fetch(pool.call, pool.container, {&item, 1}));
        EXPECT_OK(item.status);
        EXPECT_EQ(item.size, 3000U);
        most = std::max(most, pool.store->memory_bytes());
    }
    EXPECT_LE(most, pool.options.memory_bytes - pool.options.index_share());
    EXPECT_OK(co_await pool.close());
}

// Memory for payload is kept for later requests while there are some, and no longer.
CO_TEST(EnginePool, IdlePoolReturnsStagingMemory, Pool, pool, 1) {
    constexpr std::chrono::seconds rest{5};
    pool.options.rest_after = rest;
    co_await pool.start();
    for (int round = 0; round < 2; ++round) {
        {
            Nursery nursery(pool.env.reactor, 64);
            for (uint64_t dkey = 0; dkey < 64; ++dkey) {
                co_await nursery.spawn(write_into(pool, dkey, 16));
            }
            co_await nursery.join();
        }
        EXPECT_GE(pool.metric("ros2store_engine_staging_bytes"), 64 * 16 * block_bytes);
        co_await sleep_for(pool.env.reactor, 3 * rest);
        EXPECT_EQ(pool.metric("ros2store_engine_staging_bytes"), 0U);
    }
    EXPECT_OK(co_await pool.close());
}

Task<> put_until_refused(Pool& pool, uint64_t first) {
    const std::string text(30000, 'x');
    for (uint64_t i = first;; ++i) {
        object::Transaction transaction;
        transaction.operations.push_back({.kind = object::Operation::Kind::put,
                                          .object = {2, 1},
                                          .dkey = object::Dkey::integer(i),
                                          .akey = {"v"},
                                          .window = object::Window::local(as_bytes(text))});
        if (!co_await pool.store->update(pool.call, pool.container, transaction)) co_return;
    }
}
CO_TEST(EnginePool, FailedCheckpointRefusesWaitingUpdates, Pool, pool, 1) {
    pool.options.memory_bytes = 4 << 20;
    co_await pool.start();
    pool.disks[0]->set_hook([](const device::SimOperation& operation) {
        const bool slot = operation.offset == block_bytes || operation.offset == 2 * block_bytes;
        return slot ? device::SimFault::error : device::SimFault::none;
    });
    {
        Nursery nursery(pool.world.core(), 8);
        for (uint64_t w = 0; w < 8; ++w) {
            co_await nursery.spawn(put_until_refused(pool, w * 10000));
        }
        co_await nursery.join();
    }
    EXPECT_THAT(pool.store->read_only_reason(), testing::HasSubstr("checkpoint"));
    EXPECT_OK(co_await pool.close());
}

// ---- replies (more in replies_test.cc) -------------------------------------------------------

CO_TEST(EnginePool, RepeatedUpdateGetsStoredReplyAfterRestart, Pool, pool, 1) {
    co_await pool.start();
    const Uuid client = Uuid::make(pool.world.secrets());
    const auto id = [&](uint32_t slot, uint64_t sequence) {
        return UpdateName{client, slot, sequence, {}, 77};
    };
    const auto first = *co_await pool.write(0, 1, 1, id(0, 1));
    for (const bool crash : {false, true}) {
        if (crash) {
            EXPECT_OK(co_await pool.crash_and_open());
        } else {
            EXPECT_OK(co_await pool.reopen());
        }
        const auto again = *co_await pool.write(0, 1, 2, id(0, 1));
        EXPECT_TRUE(again.replayed);
        EXPECT_EQ(again.epoch, first.epoch);
        EXPECT_EQ(again.time, first.time);
        EXPECT_OK(co_await pool.expect(0, 1, 1));
    }
    EXPECT_FALSE((co_await pool.write(0, 1, 3, id(0, 2)))->replayed);
    EXPECT_EQ((co_await pool.write(0, 1, 3, id(0, 1))).error().code, Code::stale);
    EXPECT_OK(co_await pool.close());
}

// ---- shutdown, groups, traces --------------------------------------------------------------

CO_TEST(EnginePool, CleanShutdownLeavesNothingToReplay, Pool, pool, 1) {
    co_await pool.start();
    for (uint64_t i = 0; i < 20; ++i) EXPECT_OK(co_await pool.write(i, 1, 1));
    EXPECT_OK(co_await pool.reopen());
    EXPECT_EQ(pool.store->replayed_groups(), 0U);
    EXPECT_OK(co_await pool.write(3, 1, 2));
    EXPECT_OK(co_await pool.crash_and_open());
    EXPECT_GT(pool.store->replayed_groups(), 0U);
    EXPECT_OK(co_await pool.expect(3, 1, 2));
    EXPECT_OK(co_await pool.close());
}

Task<> one_write(Pool& pool, uint64_t dkey) { EXPECT_OK(co_await pool.write(dkey, 1, 1)); }
CO_TEST(CommitGroups, ConcurrentRequestsShareGroupRunAndFlush, Pool, pool, 1) {
    co_await pool.start();
    for (uint64_t i = 0; i < 32; ++i) EXPECT_OK(co_await pool.write(i, 1, 1));
    const uint64_t runs = pool.metric("ros2store_engine_runs_total");
    const uint64_t done = pool.metric("ros2store_engine_groups_total");
    const uint64_t flushes = pool.store->devices()[0]->counters().flushes.value();
    Nursery nursery(pool.world.core(), 32);
    for (uint64_t i = 0; i < 32; ++i) co_await nursery.spawn(one_write(pool, i));
    co_await nursery.join();
    // The first is alone or in a small group, the others together: one run and one flush each.
    EXPECT_LE(pool.metric("ros2store_engine_groups_total") - done, 3U);
    EXPECT_LE(pool.metric("ros2store_engine_runs_total") - runs, 3U);
    EXPECT_LE(pool.store->devices()[0]->counters().flushes.value() - flushes, 3U);
    EXPECT_EQ(pool.metric("ros2store_engine_inconsistencies_total"), 0U);
    EXPECT_OK(co_await pool.close());
}

// A client that sends its next request a moment after the last reply; the moments differ.
Task<> closed_loop(Pool& pool, uint64_t client, int rounds) {
    for (int round = 0; round < rounds; ++round) {
        for (uint64_t i = 0; i < client; ++i) co_await yield(pool.world.core());
        EXPECT_OK(co_await pool.write(client, 1, 1));
    }
}
CO_TEST(CommitGroups, BurstOfClientsSharesTheNextGroup, Pool, pool, 1) {
    constexpr int rounds = 20;
    co_await pool.start();
    const uint64_t done = pool.metric("ros2store_engine_groups_total");
    Nursery nursery(pool.world.core(), 32);
    for (uint64_t i = 0; i < 32; ++i) co_await nursery.spawn(closed_loop(pool, i, rounds));
    co_await nursery.join();
    EXPECT_LE(pool.metric("ros2store_engine_groups_total") - done,
              rounds * 3 / 2);  // halves would make 40
    EXPECT_OK(co_await pool.close());
}

// Half of the clients send three turns after the others, and a turn between takes longer than a
// burst may be quiet.
Task<> late_half(Pool& pool, uint64_t client, int rounds) {
    for (int round = 0; round < rounds; ++round) {
        for (int turn = 0; turn < 3 && client >= 16; ++turn) {
            co_await yield(pool.world.core());
            if (client == 31 && turn == 1) pool.world.compute(std::chrono::microseconds(50));
        }
        EXPECT_OK(co_await pool.write(client, 1, 1));
    }
}
CO_TEST(CommitGroups, SlowTurnDoesNotEndABurst, Pool, pool, 1) {
    constexpr int rounds = 20;
    co_await pool.start();
    for (uint64_t i = 0; i < 32; ++i) EXPECT_OK(co_await pool.write(i, 1, 1));
    const uint64_t done = pool.metric("ros2store_engine_groups_total");
    Nursery nursery(pool.world.core(), 32);
    for (uint64_t i = 0; i < 32; ++i) co_await nursery.spawn(late_half(pool, i, rounds));
    co_await nursery.join();
    EXPECT_LE(pool.metric("ros2store_engine_groups_total") - done,
              rounds + 3);  // halves would make 30
    EXPECT_OK(co_await pool.close());
}

// Client i thinks for i times `apart` after each reply.
struct Thinkers {
    uint64_t clients;
    Duration apart;
    int rounds;
    uint64_t groups = 0;
    Duration first_took{};  // client 0
};
Task<> thinks(Pool& pool, uint64_t client, Thinkers& all) {
    const Time begun = pool.world.core().now();
    for (int round = 0; round < all.rounds; ++round) {
        co_await sleep_for(pool.world.core(), client * all.apart);
        EXPECT_OK(co_await pool.write(client, 1, 1));
    }
    if (client == 0) all.first_took = pool.world.core().now() - begun;
}
Task<> think(Pool& pool, Thinkers& all) {
    co_await pool.start();
    for (uint64_t i = 0; i < all.clients; ++i) EXPECT_OK(co_await pool.write(i, 1, 1));
    const uint64_t before = pool.metric("ros2store_engine_groups_total");
    {
        Nursery nursery(pool.world.core(), all.clients);
        for (uint64_t i = 0; i < all.clients; ++i) {
            co_await nursery.spawn(thinks(pool, i, all));
        }
        co_await nursery.join();
    }
    all.groups = pool.metric("ros2store_engine_groups_total") - before;
    EXPECT_OK(co_await pool.close());
}
// As behind a DPU or on slow processors.
TEST(CommitGroups, SpreadOutBurstIsAwaited) {
    Pool pool(1);
    Thinkers all{.clients = 16, .apart = std::chrono::microseconds(12), .rounds = 40};
    pool.world.run(think(pool, all));
    EXPECT_LE(all.groups, 60U);  // halves would make 80
}
// The client that answers at once must not wait for the one that thinks for a millisecond.
TEST(CommitGroups, SlowClientIsNotAwaited) {
    Pool alone(1), pool(1);
    Thinkers one{.clients = 1, .apart = {}, .rounds = 200};
    alone.world.run(think(alone, one));
    Thinkers two{.clients = 2, .apart = std::chrono::milliseconds(1), .rounds = 200};
    pool.world.run(think(pool, two));
    EXPECT_LT(two.first_took, one.first_took * 3 / 2);
}

CO_TEST(EnginePool, TraceNamesTheSteps, Pool, pool, 1) {
    co_await pool.start();
    Trace trace;
    pool.call.trace = &trace;
    EXPECT_OK(co_await pool.write(0, 1, 1));
    EXPECT_OK(co_await pool.expect(0, 1, 1));
    pool.call.trace = nullptr;
    std::vector<std::string> names;
    for (const TraceStep& step : trace.steps()) names.emplace_back(step.name);
    EXPECT_THAT(names, testing::ElementsAre("engine.update", "engine.lock", "engine.commit",
                                            "device.write", "journal.write", "device.flush",
                                            "engine.fetch", "device.read"));
    for (const TraceStep& step : trace.steps()) EXPECT_GE(step.end, step.begin) << step.name;
    EXPECT_GE(trace.steps()[5].begin, trace.steps()[3].end) << "the flush comes after the data";
    EXPECT_GE(trace.steps()[5].begin, trace.steps()[4].end) << "and after the record";
    EXPECT_OK(co_await pool.close());
}

// A traced update joins a group of which an untraced one is being written already.
Task<> write_one(Pool& pool, uint64_t dkey, uint64_t blocks) {
    EXPECT_OK(co_await pool.write(dkey, blocks, 1));
}
CO_TEST(EnginePool, TraceJoinsAGroupBeingWritten, Pool, pool, 1) {
    co_await pool.start();
    for (uint64_t turns = 0; turns < 20; ++turns) {
        Nursery nursery(pool.world.core(), 2);
        co_await nursery.spawn(write_one(pool, 0, 32));
        for (uint64_t i = 0; i < turns; ++i) co_await yield(pool.world.core());
        Trace trace;
        Call call;
        call.trace = &trace;
        const std::string text = "x";
        object::Transaction transaction;
        transaction.operations.push_back({.kind = object::Operation::Kind::put,
                                          .object = {1, 2},
                                          .dkey = object::Dkey::integer(1),
                                          .akey = {"v"},
                                          .window = object::Window::local(as_bytes(text))});
        EXPECT_OK(co_await pool.store->update(call, pool.container, transaction));
        for (const TraceStep& step : trace.steps()) EXPECT_GE(step.end, step.begin) << step.name;
        co_await nursery.join();
    }
    EXPECT_OK(co_await pool.close());
}

Task<> destroyed(Pool& pool, uint64_t at) {
    co_await pool.start();
    const auto empty = *co_await pool.store->space(pool.call, {});
    for (uint64_t i = 0; i < 40; ++i) EXPECT_OK(co_await pool.write(i, 2, 1));
    uint64_t left = at;
    pool.disks[0]->set_hook([&](const device::SimOperation&) {
        if (left-- == 0) {
            pool.disks[0]->power_loss();
            pool.index_medium.crash(pool.world.random());
        }
        return device::SimFault::none;
    });
    const auto gone = co_await pool.store->destroy_container(pool.call, pool.container);
    static_cast<void>(co_await pool.close());
    pool.disks[0]->set_hook(nullptr);
    EXPECT_OK(co_await pool.open());
    EXPECT_OK(co_await pool.reopen());  // waits for what opening has resumed
    const auto containers = *co_await pool.store->list_containers(pool.call);
    const auto space = *co_await pool.store->space(pool.call, {});
    if (gone) EXPECT_TRUE(containers.empty());
    EXPECT_EQ(containers.empty(), space.free_bytes == empty.free_bytes);
    EXPECT_OK(co_await pool.close());
}
TEST(EnginePool, DestroyedContainerFreesSpaceAfterCrash) {
    for (uint64_t at = 0; at < 12; ++at) {
        Pool pool(at + 1, 1, 8 << 20);
        pool.world.run(destroyed(pool, at));
    }
}

}  // namespace
}  // namespace ros2s::engine
