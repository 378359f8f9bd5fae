// The limit of a pool's memory, for operations on more data than fits into it. The caches stay near
// their share while a container is destroyed, a long file is removed in steps, and a journal is
// replayed.
#include <gtest/gtest.h>

#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/sim/co_test.h"
#include "test_support/pool.h"

namespace ros2s::engine {
namespace {

constexpr uint64_t memory_bytes = 4 << 20;
constexpr uint64_t cache_share = memory_bytes / 4;
constexpr uint64_t entries = 8000;  // several times the caches' limit
constexpr uint64_t entries_each = 100;
constexpr size_t value_bytes = 300;

struct LargePool : PoolBench {
    explicit LargePool(size_t cores = 1) : PoolBench(1, 1, 64 << 20, cores) {
        options.memory_bytes = memory_bytes;
        create_options.journal_bytes = 32 << 20;  // so that all of it stays there
    }
    // For one object: values, and an array of as many segments.
    Task<> fill(object::ObjectId object, uint64_t from, uint64_t to) {
        const std::string value(value_bytes, 'v');
        for (uint64_t at = from; at < to; at += entries_each) {
            object::Transaction transaction;
            for (uint64_t i = at; i < std::min(at + entries_each, to); ++i) {
                transaction.operations.push_back(
                    {.kind = object::Operation::Kind::put,
                     .object = object,
                     .dkey = object::Dkey::integer(i),
                     .akey = {"v"},
                     .window = object::Window::local(as_bytes(value))});
            }
            EXPECT_OK(co_await store->update(call, container, transaction));
        }
    }
    Task<Result<>> write_far(uint64_t segment, uint64_t offset = 0) {
        const AlignedBuffer block(block_bytes);
        object::Transaction transaction;
        transaction.operations.push_back({.kind = object::Operation::Kind::write,
                                          .object = {1, 9},
                                          .dkey = {"array"},
                                          .akey = {"a"},
                                          .extent = {(segment << 20) + offset, block_bytes},
                                          .window = object::Window::local(block.bytes())});
        const auto done = co_await store->update(call, container, transaction);
        co_return done ? Result<>() : fail(done.error());
    }
    // From now on records the greatest size of the caches at any operation of the disk.
    void watch() {
        peak = 0;
        disks[0]->set_hook([this](const device::SimOperation&) {
            if (store) peak = std::max(peak, metric("ros2store_engine_cache_bytes"));
            return device::SimFault::none;
        });
    }
    uint64_t peak = 0;
};

void on_one_and_several_cores(Task<> (*test)(LargePool&)) {
    for (const size_t cores : {1, 3}) {
        SCOPED_TRACE(cores);
        LargePool pool(cores);
        pool.world.run(test(pool));
    }
}

Task<> destroy(LargePool& pool) {
    co_await pool.start();
    const auto empty = co_await pool.store->space(pool.call, {});
    co_await pool.fill({1, 1}, 0, entries);
    for (uint64_t segment = 0; segment < 1500; ++segment) {
        EXPECT_OK(co_await pool.write_far(segment));
    }
    EXPECT_OK(co_await pool.reopen());
    pool.watch();
    EXPECT_OK(co_await pool.store->destroy_container(pool.call, pool.container));
    EXPECT_LE(pool.peak, 2 * cache_share);
    const auto after = co_await pool.store->space(pool.call, {});
    EXPECT_EQ(after->free_bytes, empty->free_bytes);
    EXPECT_OK(co_await pool.reopen());
    EXPECT_TRUE((co_await pool.store->list_containers(pool.call))->empty());
    EXPECT_OK(co_await pool.close());
}
TEST(BoundedMemory, ContainerIsDestroyedInSteps) { on_one_and_several_cores(destroy); }

// The destruction of a large container keeps nobody from making and changing others.
Task<> make_while_one_is_destroyed(LargePool& pool) {
    co_await pool.start();
    co_await pool.fill({1, 1}, 0, entries);
    EXPECT_OK(co_await pool.reopen());
    Nursery nursery(pool.world.core(), 1);
    bool is_destroyed = false;
    co_await nursery.spawn([](LargePool& its, bool& done) -> Task<> {
        EXPECT_OK(co_await its.store->destroy_container(its.call, its.container));
        done = true;
    }(pool, is_destroyed));
    while (!(co_await pool.store->list_containers(pool.call))->empty()) {
        co_await sleep_for(pool.world.core(), std::chrono::microseconds(10));
    }
    const auto made = co_await pool.store->create_container(pool.call, {.label = "other"});
    EXPECT_OK(made);
    if (made) EXPECT_OK(co_await pool.store->set_container(pool.call, made->id, {.values = 7}));
    EXPECT_FALSE(is_destroyed);
    co_await nursery.join();
    EXPECT_TRUE(is_destroyed);
    EXPECT_EQ((co_await pool.store->list_containers(pool.call))->size(), 1U);
    EXPECT_OK(co_await pool.close());
}
TEST(BoundedMemory, CreationSucceedsDuringDestruction) {
    on_one_and_several_cores(make_while_one_is_destroyed);
}

// A crash in the middle leaves an invisible container; the next opening continues.
CO_TEST(BoundedMemory, DestructionContinuesAfterCrash, LargePool, pool) {
    co_await pool.start();
    const auto empty = co_await pool.store->space(pool.call, {});
    co_await pool.fill({1, 1}, 0, 1000);
    for (uint64_t segment = 0; segment < 300; ++segment) {
        EXPECT_OK(co_await pool.write_far(segment));
    }
    EXPECT_OK(co_await pool.reopen());
    uint64_t flushes = 0;
    pool.disks[0]->set_hook([&](const device::SimOperation& operation) {
        if (operation.kind == device::SimKind::flush && ++flushes == 6) {
            pool.disks[0]->power_loss();
            pool.index_medium.crash(pool.world.random());
        }
        return device::SimFault::none;
    });
    EXPECT_FALSE((co_await pool.store->destroy_container(pool.call, pool.container)).has_value());
    pool.disks[0]->set_hook({});
    (void)co_await pool.close();
    EXPECT_OK(co_await pool.open());
    EXPECT_TRUE((co_await pool.store->list_containers(pool.call))->empty());
    for (int turns = 0; turns < 1000; ++turns) {
        if ((co_await pool.store->space(pool.call, {}))->free_bytes == empty->free_bytes) break;
        co_await sleep_for(pool.env.reactor, std::chrono::milliseconds(1));
    }
    EXPECT_EQ((co_await pool.store->space(pool.call, {}))->free_bytes, empty->free_bytes);
    EXPECT_OK(co_await pool.close());
}

// As Dfs removes a long file: from its end, a number of keys at a time.
CO_TEST(BoundedMemory, ObjectIsRemovedInSteps, LargePool, pool) {
    co_await pool.start();
    co_await pool.fill({1, 1}, 0, entries);
    EXPECT_OK(co_await pool.reopen());
    pool.watch();
    for (uint64_t end = entries; end > 0; end -= 500) {
        object::Transaction transaction;
        transaction.operations.push_back({.kind = object::Operation::Kind::punch_dkeys,
                                          .object = {1, 1},
                                          .dkey = object::Dkey::integer(end - 500),
                                          .dkey_end = object::Dkey::integer(end)});
        const auto done = co_await pool.store->update(pool.call, pool.container, transaction);
        EXPECT_TRUE(done) << end << ": " << describe(done.error());
        if (!done) break;
    }
    EXPECT_LE(pool.peak, 2 * cache_share);
    EXPECT_OK(co_await pool.close());
}

// Each segment of an array is in memory while a hole is cut out of it.
CO_TEST(BoundedMemory, WideHoleIsCutInStepsOrRefused, LargePool, pool) {
    constexpr uint64_t segments = 1500, step = 250, segment_bytes = 1 << 20;
    co_await pool.start();
    for (uint64_t i = 0; i < segments; ++i) {
        // The last block, so that the segment's map is as large as it gets.
        EXPECT_OK(co_await pool.write_far(i, segment_bytes - block_bytes));
    }
    EXPECT_OK(co_await pool.reopen());
    pool.watch();
    using Kind = object::Operation::Kind;
    const auto cut = [&pool](Kind kind, object::Extent extent) -> Task<Result<>> {
        object::Transaction transaction;
        transaction.operations.push_back(
            {.kind = kind, .object = {1, 9}, .dkey = {"array"}, .akey = {"a"}, .extent = extent});
        const auto done = co_await pool.store->update(pool.call, pool.container, transaction);
        co_return done ? Result<>() : fail(done.error());
    };
    const object::Extent all{0, segments * segment_bytes};
    for (const Kind kind : {Kind::set_size, Kind::punch_akey}) {
        EXPECT_EQ(co_await cut(kind, {}), Result<>(fail(Code::no_memory)));
    }
    EXPECT_EQ(co_await cut(Kind::punch_extent, all), Result<>(fail(Code::no_memory)));
    for (uint64_t i = 0; i < segments; i += step) {
        const object::Extent some{i * segment_bytes, step * segment_bytes};
        EXPECT_OK(co_await cut(Kind::punch_extent, some));
    }
    EXPECT_OK(co_await cut(Kind::punch_akey, {}));
    EXPECT_LE(pool.peak, 3 * cache_share);
    EXPECT_OK(co_await pool.close());
}

// A loss of power, with all of it only in the journal.
Task<> leave_a_long_journal(LargePool& pool) {
    co_await pool.start();
    pool.options.memory_bytes = 512 << 20;  // so that it all stays there
    EXPECT_OK(co_await pool.reopen());
    co_await pool.fill({1, 1}, 0, entries);
    for (auto& disk : pool.disks) disk->power_loss();
    pool.index_medium.crash(pool.world.random());
    (void)co_await pool.close();
}
Task<> expect_all(LargePool& pool) {
    EXPECT_GT(pool.store->replayed_groups(), 40U);
    const object::Akey akey{"v"};
    const auto found = co_await pool.store->query(pool.call, pool.container, {1, 1}, akey);
    EXPECT_EQ(found->highest_dkey, object::Dkey::integer(entries - 1));
}

Task<> replay(LargePool& pool) {
    co_await leave_a_long_journal(pool);
    pool.options.memory_bytes = memory_bytes;
    EXPECT_OK(co_await pool.open());
    EXPECT_GT(pool.metric("ros2store_engine_recovery_cache_bytes"), 0U);
    EXPECT_LE(pool.metric("ros2store_engine_recovery_cache_bytes"), 2 * cache_share);
    EXPECT_LE(pool.metric("ros2store_engine_cache_bytes"), 2 * cache_share);
    co_await expect_all(pool);
    EXPECT_OK(co_await pool.close());
}
TEST(BoundedMemory, JournalReplayStaysWithinTheLimit) { on_one_and_several_cores(replay); }

// For a read-only opening nothing is written to the index: it fits, or the error says what to do.
CO_TEST(BoundedMemory, ReadOnlyReplayFitsOrIsRefused, LargePool, pool) {
    co_await leave_a_long_journal(pool);
    pool.options.read_only = true;
    pool.options.memory_bytes = memory_bytes;
    const Result<> refused = co_await pool.open();
    EXPECT_EQ(refused, Result<>(fail(Code::no_memory)));
    EXPECT_NE(pool.report.text().find("Raise engine.memory"), std::string::npos)
        << pool.report.text();
    pool.options.memory_bytes = 8 * memory_bytes;
    EXPECT_OK(co_await pool.open());
    EXPECT_LE(pool.metric("ros2store_engine_recovery_cache_bytes"), 8 * cache_share);
    co_await expect_all(pool);
    EXPECT_OK(co_await pool.close());
    pool.options.read_only = false;
    pool.options.memory_bytes = memory_bytes;
    EXPECT_OK(co_await pool.open());
    co_await expect_all(pool);
    EXPECT_OK(co_await pool.close());
}

// A list with values has at most 1 MiB of them.
CO_TEST(BoundedMemory, ListWithValuesIsLimited, LargePool, pool) {
    co_await pool.start();
    constexpr uint64_t values = 40;
    const std::string value(object::value_bytes_max, 'v');
    for (uint64_t i = 0; i < values; ++i) {
        object::Transaction transaction;
        transaction.operations.push_back({.kind = object::Operation::Kind::put,
                                          .object = {1, 1},
                                          .dkey = object::Dkey::integer(i),
                                          .akey = {"v"},
                                          .window = object::Window::local(as_bytes(value))});
        EXPECT_OK(co_await pool.store->update(pool.call, pool.container, transaction));
    }
    object::ListRequest request{
        .what = object::ListRequest::What::dkeys, .object = {1, 1}, .akey = {"v"}};
    uint64_t seen = 0;
    for (bool more = true; more;) {
        const auto reply = co_await pool.store->list(pool.call, pool.container, request);
        EXPECT_OK(reply);
        if (!reply || reply->entries.empty()) break;
        EXPECT_LE(reply->entries.size(), 16U);
        for (const object::ListEntry& entry : reply->entries) {
            EXPECT_EQ(entry.key, object::Dkey::integer(seen++).bytes);
            EXPECT_EQ(entry.value, value);
        }
        request.after = reply->entries.back().key;
        more = reply->more;
    }
    EXPECT_EQ(seen, values);
    EXPECT_OK(co_await pool.close());
}

// A list that finds nothing for long ends at its deadline.
CO_TEST(BoundedMemory, EmptyListEndsAtItsDeadline, LargePool, pool) {
    co_await pool.start();
    co_await pool.fill({1, 1}, 0, entries);
    const object::ListRequest request{
        .what = object::ListRequest::What::dkeys, .object = {1, 1}, .akey = {"absent"}, .limit = 1};
    const Time begun = pool.world.core().now();
    const auto all = co_await pool.store->list(pool.call, pool.container, request);
    EXPECT_TRUE(all && all->entries.empty());
    const Duration took = pool.world.core().now() - begun;
    Call hasty;
    hasty.deadline = pool.world.core().now() + took / 10;
    const auto some = co_await pool.store->list(hasty, pool.container, request);
    EXPECT_EQ(some.error().code, Code::deadline);
    EXPECT_LE(pool.world.core().now(), hasty.deadline + took / 10);
    EXPECT_OK(co_await pool.close());
}

// However many entries are in memory, a short list looks at few of them, and all pages together
// have each entry once.
Task<> list_what_is_in_memory(LargePool& pool) {
    const uint64_t few = pool.more_reactors.size() * 1100 + 1100;
    pool.options.memory_bytes = 256 << 20;
    co_await pool.start();
    co_await pool.fill({1, 1}, 0, entries);
    uint64_t looked = 0;
    Call call = pool.call;
    call.entries_looked = &looked;
    object::ListRequest request{
        .what = object::ListRequest::What::dkeys, .object = {1, 1}, .limit = 1};
    EXPECT_EQ((co_await pool.store->list(call, pool.container, request))->entries.size(), 1U);
    EXPECT_LE(looked, few);
    request.limit = 1000;
    uint64_t seen = 0;
    for (bool more = true; more;) {
        const auto reply = co_await pool.store->list(call, pool.container, request);
        EXPECT_OK(reply);
        if (!reply || reply->entries.empty()) break;
        for (const object::ListEntry& entry : reply->entries) {
            EXPECT_EQ(entry.key, object::Dkey::integer(seen++).bytes);
        }
        request.after = reply->entries.back().key;
        more = reply->more;
    }
    EXPECT_EQ(seen, entries);
    // The highest dkey is searched for backwards, over what is no longer there.
    for (uint64_t i = 2000; i < entries; i += 1000) {
        object::Transaction transaction;
        for (uint64_t k = i; k < i + 1000; ++k) {
            transaction.operations.push_back({.kind = object::Operation::Kind::punch_dkey,
                                              .object = {1, 1},
                                              .dkey = object::Dkey::integer(k)});
        }
        EXPECT_OK(co_await pool.store->update(pool.call, pool.container, transaction));
    }
    looked = 0;
    const auto highest = co_await pool.store->query(call, pool.container, {1, 1}, {"v"});
    EXPECT_TRUE(highest && highest->exists);
    if (highest) EXPECT_EQ(highest->highest_dkey.bytes, object::Dkey::integer(1999).bytes);
    EXPECT_GE(looked, entries - 2000);
    EXPECT_LE(looked, entries + few);
    EXPECT_OK(co_await pool.close());
}
TEST(BoundedMemory, ShortListExaminesFewCachedEntries) {
    on_one_and_several_cores(list_what_is_in_memory);
}

}  // namespace
}  // namespace ros2s::engine
