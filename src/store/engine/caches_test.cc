// Caches: a budget that holds, eviction, age, and what is there after a restart.
#include "ros2s/base/crc32c.h"
#include "ros2s/object/blocks.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/sim/co_test.h"
#include "test_support/pool.h"

namespace ros2s::engine {
namespace {

using object::BlockHead;
using object::CacheUse;
using Kind = object::Operation::Kind;

constexpr uint64_t block_blocks = 4;
constexpr uint64_t block_use = block_blocks * block_bytes + 3 * 64;  // more or less

struct CachePool : PoolBench {
    explicit CachePool(size_t cores = 1, uint64_t seed = 1) : PoolBench(seed, 1, 64 << 20, cores) {}

    // A cache with room for that many blocks.
    Task<> start_cache(uint64_t blocks, Duration ttl = {}) {
        co_await start();
        EXPECT_OK(co_await store->set_container(call, container, {.bytes = blocks * block_use}));
        EXPECT_OK(co_await put_record(ttl));
    }
    Task<Result<object::Commit>> put_record(Duration ttl) {
        const object::CacheRecord record{.ttl_ns = static_cast<uint64_t>(ttl.count())};
        object::Transaction transaction;
        transaction.operations.push_back({.kind = Kind::put,
                                          .object = object::blocks_object,
                                          .dkey = object::cache_dkey(),
                                          .akey = object::cache_akey(),
                                          .window = object::Window::local(object_bytes(record))});
        co_return co_await store->update(call, container, transaction);
    }
    Task<Result<object::Commit>> put(std::string key, uint64_t blocks = block_blocks) {
        const AlignedBuffer buffer(blocks * block_bytes);
        std::memset(buffer.data(), key.front(), buffer.size());
        const BlockHead head{.crc = crc32c(buffer.bytes()), .length = buffer.size()};
        object::Transaction transaction;
        transaction.conditions.push_back({.kind = object::Condition::Kind::absent,
                                          .object = object::blocks_object,
                                          .dkey = {key},
                                          .akey = object::block_head_akey()});
        transaction.operations.push_back({.kind = Kind::write,
                                          .object = object::blocks_object,
                                          .dkey = {key},
                                          .akey = object::block_data_akey(),
                                          .extent = {0, buffer.size()},
                                          .window = object::Window::local(buffer.bytes())});
        transaction.operations.push_back({.kind = Kind::put,
                                          .object = object::blocks_object,
                                          .dkey = {key},
                                          .akey = object::block_head_akey(),
                                          .window = object::Window::local(object_bytes(head))});
        co_return co_await store->update(call, container, transaction);
    }
    // True: it is there and whole. Anything between is a failure.
    Task<bool> get(std::string key) {
        const AlignedBuffer buffer(block_blocks * block_bytes);
        BlockHead head;
        object::FetchItem items[2];
        items[0] = {.object = object::blocks_object,
                    .dkey = {key},
                    .akey = object::block_head_akey(),
                    .extent = {0, sizeof head},
                    .window = object::Window::local(std::as_writable_bytes(std::span(&head, 1)))};
        items[1] = {.object = object::blocks_object,
                    .dkey = {key},
                    .akey = object::block_data_akey(),
                    .extent = {0, buffer.size()},
                    .window = object::Window::local(buffer.bytes())};
        EXPECT_OK(co_await store->fetch(call, container, items));
        EXPECT_EQ(items[0].status.has_value(), items[1].status.has_value()) << key;
        if (!items[0].status) co_return false;
        EXPECT_EQ(head.length, buffer.size());
        EXPECT_EQ(head.crc, crc32c(buffer.bytes())) << key;
        EXPECT_EQ(buffer.data()[0], std::byte(key.front()));
        co_return true;
    }
    Task<uint64_t> count(uint64_t keys) {
        uint64_t there = 0;
        for (uint64_t i = 0; i < keys; ++i) there += co_await get(name(i)) ? 1 : 0;
        co_return there;
    }
    // A holder's pins of k`from` and the following ones.
    Task<Result<object::Commit>> pin(uint64_t from, uint64_t count, object::Holder holder = {},
                                     Duration length = std::chrono::hours(1)) {
        const object::PinRecord record{.length_ns = static_cast<uint64_t>(length.count())};
        object::Transaction transaction{.holder = holder};
        for (uint64_t i = from; i < from + count; ++i) {
            transaction.operations.push_back(
                {.kind = Kind::put,
                 .object = object::blocks_object,
                 .dkey = {name(i)},
                 .akey = object::block_pin_akey(),
                 .window = object::Window::local(object_bytes(record))});
        }
        co_return co_await store->update(call, container, transaction);
    }
    Task<> unpin(std::string key, object::Holder holder) {
        object::Transaction transaction{.holder = holder};
        transaction.operations.push_back({.kind = Kind::punch_akey,
                                          .object = object::blocks_object,
                                          .dkey = {std::move(key)},
                                          .akey = object::block_pin_akey()});
        EXPECT_OK(co_await store->update(call, container, transaction));
    }
    Task<> put_many(uint64_t from, uint64_t count) {
        for (uint64_t i = from; i < from + count; ++i) EXPECT_OK(co_await put(name(i)));
    }
    Task<uint64_t> pinned() { co_return (co_await use()).pinned; }
    Task<CacheUse> use() {
        CacheUse use;
        object::FetchItem item{
            .object = object::blocks_object,
            .dkey = object::cache_dkey(),
            .akey = object::cache_use_akey(),
            .extent = {0, sizeof use},
            .window = object::Window::local(std::as_writable_bytes(std::span(&use, 1)))};
        EXPECT_OK(co_await store->fetch(call, container, {&item, 1}));
        EXPECT_OK(item.status);
        co_return use;
    }
    Task<object::ContainerRecord> record() {
        co_return (*co_await store->list_containers(call)).front();
    }
    static std::string name(uint64_t i) { return "k" + std::to_string(i); }
    uint64_t made = 0;
};

Task<> exceed(CachePool& pool) {
    co_await pool.start_cache(10);
    for (uint64_t i = 0; i < 40; ++i) {
        EXPECT_OK(co_await pool.put(pool.name(i)));
        const auto record = co_await pool.record();
        EXPECT_LE(record.used.bytes, record.properties.caps.bytes);
    }
    EXPECT_TRUE(co_await pool.get(pool.name(39)));
    const CacheUse use = co_await pool.use();
    EXPECT_EQ(use.puts, 40U);
    EXPECT_EQ(use.blocks + use.evicted, 40U);
    EXPECT_GE(use.blocks, 9U);
    EXPECT_EQ(co_await pool.count(40), use.blocks);
    EXPECT_OK(co_await pool.close());
}
TEST(Caches, BudgetIsNeverExceeded) {
    CachePool pool;
    pool.world.run(exceed(pool));
}
TEST(Caches, BudgetOfAPoolOnTwoCoresIsNeverExceeded) {
    CachePool pool(2);
    pool.world.run(exceed(pool));
}

Task<> put_into(CachePool& pool, uint64_t from, uint64_t count, uint64_t& done) {
    for (uint64_t i = from; i < from + count; ++i) {
        const auto put = co_await pool.put(pool.name(i));
        EXPECT_OK(put);
        done += put ? 1 : 0;
        const auto record = co_await pool.record();
        EXPECT_LE(record.used.bytes, record.properties.caps.bytes);
    }
}
CO_TEST(Caches, PutsAtOnceAllSucceedWithinTheBudget, CachePool, pool) {
    co_await pool.start_cache(10);
    uint64_t done = 0;
    {
        Nursery clients(pool.env.reactor, 16);
        for (uint64_t i = 0; i < 16; ++i) {
            co_await clients.spawn(put_into(pool, i * 20, 20, done));
        }
        co_await clients.join();
    }
    EXPECT_EQ(done, 320U);
    const CacheUse use = co_await pool.use();
    EXPECT_EQ(use.blocks + use.evicted, 320U);
    EXPECT_EQ(co_await pool.count(320), use.blocks);
    EXPECT_OK(co_await pool.close());
}

CO_TEST(Caches, BlockLargerThanTheBudgetIsRefusedAndRemovesNothing, CachePool, pool) {
    co_await pool.start_cache(10);
    for (uint64_t i = 0; i < 5; ++i) EXPECT_OK(co_await pool.put(pool.name(i)));
    EXPECT_EQ((co_await pool.put("large", 11 * block_blocks)).error().code, Code::over_cap);
    EXPECT_EQ(co_await pool.count(5), 5U) << "nothing was removed for it";
    EXPECT_OK(co_await pool.close());
}

CO_TEST(Caches, PresentBlockCannotBeChanged, CachePool, pool) {
    co_await pool.start();
    EXPECT_EQ((co_await pool.put("a")).error().code, Code::unsupported) << "no cache yet";
    EXPECT_OK(co_await pool.put_record({}));
    EXPECT_OK(co_await pool.put("a"));
    EXPECT_EQ((co_await pool.put("a")).error().code, Code::condition_failed);
    object::Transaction change;
    const AlignedBuffer buffer(block_bytes);
    change.operations.push_back({.kind = Kind::write,
                                 .object = object::blocks_object,
                                 .dkey = {"a"},
                                 .akey = object::block_data_akey(),
                                 .extent = {0, block_bytes},
                                 .window = object::Window::local(buffer.bytes())});
    EXPECT_EQ((co_await pool.store->update(pool.call, pool.container, change)).error().code,
              Code::unsupported);
    EXPECT_TRUE(co_await pool.get("a"));
    EXPECT_OK(co_await pool.close());
}

// Others would see the change before it is durable.
CO_TEST(Caches, ChangeOfABlockAndOfAnotherObjectIsRefused, CachePool, pool) {
    co_await pool.start_cache(10);
    EXPECT_OK(co_await pool.put("a"));
    object::Transaction transaction;
    transaction.operations.push_back(
        {.kind = Kind::punch_dkey, .object = object::blocks_object, .dkey = {"a"}});
    transaction.operations.push_back(
        {.kind = Kind::touch, .object = {1, 2}, .dkey = object::Dkey::integer(1), .akey = {"a"}});
    const auto done = co_await pool.store->update(pool.call, pool.container, transaction);
    EXPECT_EQ(done ? Code{} : done.error().code, Code::unsupported);
    EXPECT_TRUE(co_await pool.get("a"));
    EXPECT_OK(co_await pool.close());
}

CO_TEST(Caches, ScanLeavesBlocksThatAreUsed, CachePool, pool) {
    co_await pool.start_cache(50);
    for (uint64_t i = 0; i < 40; ++i) {
        EXPECT_OK(co_await pool.put(pool.name(i)));
        EXPECT_TRUE(co_await pool.get(pool.name(i)));
    }
    for (uint64_t i = 1000; i < 1200; ++i) EXPECT_OK(co_await pool.put(pool.name(i)));
    EXPECT_GE(co_await pool.count(40), 36U);
    EXPECT_OK(co_await pool.close());
}

Task<> open_again(CachePool& pool) {
    co_await pool.start_cache(10);
    for (uint64_t i = 0; i < 30; ++i) EXPECT_OK(co_await pool.put(pool.name(i)));
    const uint64_t before = co_await pool.count(30);
    EXPECT_OK(co_await pool.reopen());
    EXPECT_EQ(co_await pool.count(30), before);
    EXPECT_EQ((co_await pool.use()).blocks, before);
    for (uint64_t i = 30; i < 60; ++i) {
        EXPECT_OK(co_await pool.put(pool.name(i)));
        const auto record = co_await pool.record();
        EXPECT_LE(record.used.bytes, record.properties.caps.bytes);
    }
    EXPECT_TRUE(co_await pool.get(pool.name(59)));
    EXPECT_OK(co_await pool.close());
}
TEST(Caches, BlocksAreThereAfterARestartAndCanBeEvicted) {
    CachePool pool;
    pool.world.run(open_again(pool));
}
TEST(Caches, BlocksOnTwoCoresAreThereAfterARestart) {
    CachePool pool(2);
    pool.world.run(open_again(pool));
}

Task<> lose_power(CachePool& pool) {
    co_await pool.start_cache(10);
    for (uint64_t i = 0; i < 30; ++i) EXPECT_OK(co_await pool.put(pool.name(i)));
    EXPECT_GT(pool.metric("ros2store_engine_deferred_groups_total"), 0U);
    EXPECT_OK(co_await pool.crash_and_open());
    // Each is whole or absent: get() checks it. The table agrees with what is there.
    EXPECT_EQ(co_await pool.count(30), (co_await pool.use()).blocks);
    const auto record = co_await pool.record();
    EXPECT_LE(record.used.bytes, record.properties.caps.bytes);
    EXPECT_OK(co_await pool.put("after"));
    EXPECT_OK(co_await pool.close());
}
TEST(Caches, BlockIsWholeOrAbsentAfterALossOfPower) {
    for (uint64_t seed = 1; seed <= 30; ++seed) {
        CachePool pool(1, seed);
        pool.world.run(lose_power(pool));
    }
}

CO_TEST(Caches, TablesKeepWithinTheirMemory, CachePool, pool) {
    pool.options.memory_bytes = 4 << 20;
    co_await pool.start_cache(4000);
    for (uint64_t i = 0; i < 3000; ++i) EXPECT_OK(co_await pool.put(pool.name(i), 1));
    const uint64_t before = (co_await pool.use()).blocks;
    EXPECT_LT(before, 3000U);
    EXPECT_GT(before, 2000U);
    EXPECT_LE(pool.metric("ros2store_cache_table_bytes"), pool.options.caches_share());
    pool.options.memory_bytes = 2 << 20;
    EXPECT_OK(co_await pool.reopen());
    co_await sleep_for(pool.env.reactor, std::chrono::seconds(3));
    EXPECT_LE(pool.metric("ros2store_cache_table_bytes"), pool.options.caches_share());
    const CacheUse use = co_await pool.use();
    EXPECT_EQ((co_await pool.record()).used.values, use.blocks + 1) << "the others are removed";
    EXPECT_OK(co_await pool.put("after", 1));
    EXPECT_OK(co_await pool.close());
}

CO_TEST(Caches, TenantWithMostKeysGivesThemUpForOthers, CachePool, pool) {
    pool.options.memory_bytes = 4 << 20;
    co_await pool.start_cache(4000);
    const auto one = pool.container;
    EXPECT_OK(co_await pool.store->set_container(pool.call, one, {.owner = "alice"}));
    const auto two = co_await pool.store->create_container(
        pool.call, object::ContainerProperties{.label = "other", .owner = "bob"});
    EXPECT_OK(two);
    pool.container = two->id;
    EXPECT_OK(co_await pool.put_record({}));
    const auto put = [](CachePool& pool, object::ContainerId into, uint64_t count) -> Task<> {
        pool.container = into;
        for (uint64_t i = 0; i < count; ++i) {
            EXPECT_OK(co_await pool.put("k" + std::to_string(pool.made++), 1));
        }
    };
    co_await put(pool, one, 2500);
    EXPECT_LT((co_await pool.use()).blocks, 2500U) << "the table is full";
    co_await put(pool, two->id, 500);
    EXPECT_EQ((co_await pool.use()).blocks, 500U);
    co_await put(pool, one, 2500);
    pool.container = two->id;
    EXPECT_EQ((co_await pool.use()).evicted, 0U);
    EXPECT_LE(pool.metric("ros2store_cache_table_bytes"), pool.options.caches_share());
    EXPECT_OK(co_await pool.close());
}

CO_TEST(Caches, ManyCachesOfATenantLeaveOthersTheirKeys, CachePool, pool) {
    pool.options.memory_bytes = 4 << 20;
    co_await pool.start_cache(4000);
    const auto one = pool.container;
    EXPECT_OK(co_await pool.store->set_container(pool.call, one, {.owner = "alice"}));
    for (uint64_t i = 0; i < 1500; ++i) EXPECT_OK(co_await pool.put(pool.name(i), 1));
    std::vector<object::ContainerId> others;
    for (int i = 0; i < 30; ++i) {
        const auto made = co_await pool.store->create_container(
            pool.call,
            object::ContainerProperties{.label = "b" + std::to_string(i), .owner = "bob"});
        EXPECT_OK(made);
        pool.container = others.emplace_back(made->id);
        EXPECT_OK(co_await pool.put_record({}));
    }
    pool.container = one;
    for (uint64_t i = 2000; i < 2010; ++i) EXPECT_OK(co_await pool.put(pool.name(i), 1));
    EXPECT_EQ((co_await pool.use()).evicted, 0U) << "empty ones take little";
    for (const auto other : others) {
        pool.container = other;
        EXPECT_OK(co_await pool.put("k", 1));
    }
    pool.container = one;
    EXPECT_GT((co_await pool.use()).blocks, 1000U) << "half of the memory";
    for (uint64_t i = 3000; i < 3500; ++i) EXPECT_OK(co_await pool.put(pool.name(i), 1));
    EXPECT_GT((co_await pool.use()).blocks, 1000U);
    EXPECT_LE(pool.metric("ros2store_cache_table_bytes"), pool.options.caches_share());
    for (const auto other : others) {
        EXPECT_OK(co_await pool.store->destroy_container(pool.call, other));
    }
    for (uint64_t i = 4000; i < 7000; ++i) EXPECT_OK(co_await pool.put(pool.name(i), 1));
    EXPECT_GT((co_await pool.use()).blocks, 2000U) << "all of it again";
    EXPECT_OK(co_await pool.close());
}

CO_TEST(Caches, BlockOlderThanTheTtlIsAMissAndIsRemoved, CachePool, pool) {
    co_await pool.start_cache(10, std::chrono::seconds(60));
    EXPECT_OK(co_await pool.put("a"));
    co_await sleep_for(pool.env.reactor, std::chrono::seconds(30));
    EXPECT_OK(co_await pool.put("b"));
    EXPECT_TRUE(co_await pool.get("a"));
    co_await sleep_for(pool.env.reactor, std::chrono::seconds(31));
    EXPECT_FALSE(co_await pool.get("a"));
    EXPECT_TRUE(co_await pool.get("b"));
    co_await sleep_for(pool.env.reactor, std::chrono::seconds(60));
    const CacheUse use = co_await pool.use();
    EXPECT_EQ(use.expired, 2U);
    EXPECT_EQ(use.blocks, 0U);
    EXPECT_OK(co_await pool.put("a"));
    EXPECT_OK(co_await pool.close());
}

CO_TEST(Caches, AgesOfEvictedBlocksAreCounted, CachePool, pool) {
    co_await pool.start_cache(10);
    co_await pool.put_many(0, 8);
    EXPECT_EQ((co_await pool.use()).evicted_age(), Duration{});
    co_await sleep_for(pool.env.reactor, std::chrono::seconds(100));
    EXPECT_TRUE(co_await pool.get(pool.name(7)));
    co_await pool.put_many(100, 9);
    const CacheUse use = co_await pool.use();
    EXPECT_GT(use.evicted, 4U);
    EXPECT_GT(use.evicted_age(), std::chrono::seconds(50));
    EXPECT_LE(use.evicted_age(), std::chrono::seconds(100));
    EXPECT_OK(co_await pool.close());
}

CO_TEST(Caches, HiddenOldBlockIsNotInTheWayOfANewOne, CachePool, pool) {
    co_await pool.start_cache(10, std::chrono::seconds(60));
    EXPECT_OK(co_await pool.put("a"));
    co_await sleep_for(pool.env.reactor, std::chrono::milliseconds(59'900));
    for (int i = 0; i < 2000 && co_await pool.get("a"); ++i) {
        co_await sleep_for(pool.env.reactor, std::chrono::microseconds(100));
    }
    EXPECT_EQ((co_await pool.use()).blocks, 1U) << "hidden, and not removed yet";
    EXPECT_OK(co_await pool.put("a"));
    EXPECT_TRUE(co_await pool.get("a"));
    EXPECT_EQ((co_await pool.use()).expired, 1U);
    EXPECT_OK(co_await pool.close());
}

CO_TEST(Caches, PutThatCannotFitBesideOtherDataRemovesNothing, CachePool, pool) {
    co_await pool.start_cache(10);
    EXPECT_OK(co_await pool.write(1, 8 * block_blocks, 1));
    EXPECT_OK(co_await pool.put("a"));
    EXPECT_EQ((co_await pool.put("large", 4 * block_blocks)).error().code, Code::over_cap);
    EXPECT_TRUE(co_await pool.get("a")) << "nothing was removed for it";
    EXPECT_OK(co_await pool.close());
}

Task<> write_to(CachePool& pool, object::ContainerId container, uint64_t dkey) {
    const AlignedBuffer buffer(block_bytes);
    std::memset(buffer.data(), 1, buffer.size());
    object::Transaction transaction;
    transaction.operations.push_back(pool.writing(dkey, buffer.bytes()));
    EXPECT_OK(co_await pool.store->update(pool.call, container, transaction));
}
CO_TEST(Caches, PutDoesNotWaitForAnotherContainerOfItsOwner, CachePool, pool) {
    co_await pool.start_cache(10);
    EXPECT_OK(co_await pool.store->set_container(pool.call, pool.container, {.owner = "alice"}));
    const auto other = co_await pool.store->create_container(
        pool.call, object::ContainerProperties{.label = "other", .owner = "alice"});
    for (uint64_t i = 0; i < 4; ++i) co_await write_to(pool, other->id, i);
    // Full, and writes over old data are in progress.
    pool.store->set_owner_caps({{"alice", {.bytes = 6 * block_bytes}}});
    Nursery writes(pool.env.reactor, 64);
    for (uint64_t i = 0; i < 50; ++i) {
        co_await writes.spawn(write_to(pool, other->id, i % 4));
        EXPECT_EQ((co_await pool.put("a")).error().code, Code::over_cap);
    }
    co_await writes.join();
    EXPECT_OK(co_await pool.close());
}

CO_TEST(Caches, PinnedBlocksAreNotEvicted, CachePool, pool) {
    co_await pool.start_cache(10);
    co_await pool.put_many(0, 8);
    EXPECT_OK(co_await pool.pin(0, 4));
    EXPECT_EQ(co_await pool.pinned(), 4U);
    co_await pool.put_many(100, 40);
    EXPECT_EQ(co_await pool.count(8), 4U);
    co_await pool.unpin("k0", {});
    co_await pool.unpin("", {});
    EXPECT_EQ(co_await pool.pinned(), 0U);
    for (uint64_t i = 200; i < 260; ++i) {
        EXPECT_OK(co_await pool.put(pool.name(i)));
        EXPECT_TRUE(co_await pool.get(pool.name(i)));
    }
    EXPECT_EQ(co_await pool.count(8), 0U);
    EXPECT_OK(co_await pool.close());
}

CO_TEST(Caches, PinsOfMoreThanHalfTheBudgetAreRefusedAsAWhole, CachePool, pool) {
    co_await pool.start_cache(10);
    co_await pool.put_many(0, 8);
    EXPECT_EQ((co_await pool.pin(0, 6)).error().code, Code::over_cap);
    EXPECT_EQ(co_await pool.pinned(), 0U);
    EXPECT_OK(co_await pool.pin(0, 4));
    EXPECT_OK(co_await pool.pin(0, 4));
    EXPECT_OK(co_await pool.pin(50, 20));  // absent ones
    EXPECT_EQ((co_await pool.pin(4, 2)).error().code, Code::over_cap);
    EXPECT_EQ(co_await pool.pinned(), 4U);
    EXPECT_EQ((co_await pool.pin(0, 1, {}, {})).error().code, Code::invalid);
    EXPECT_EQ((co_await pool.pin(0, 1, {}, std::chrono::hours(25))).error().code, Code::invalid);
    // Half of what the owner may have is less.
    EXPECT_OK(co_await pool.store->set_container(pool.call, pool.container, {.owner = "alice"}));
    pool.store->set_owner_caps({{"alice", {.bytes = 8 * block_use}}});
    EXPECT_EQ((co_await pool.pin(4, 1)).error().code, Code::over_cap);
    EXPECT_EQ((co_await pool.put("large", 7 * block_blocks)).error().code, Code::over_cap);
    EXPECT_EQ(co_await pool.count(4), 4U);
    EXPECT_OK(co_await pool.close());
}

CO_TEST(Caches, PinEndsWithItsTimeItsSessionOrItsBlock, CachePool, pool) {
    co_await pool.start_cache(10);
    co_await pool.put_many(0, 8);
    const object::Holder one{.client = Uuid{{1}}, .session = 1};
    const object::Holder two{.client = Uuid{{2}}, .session = 2};
    EXPECT_OK(co_await pool.pin(0, 3, one));
    EXPECT_OK(co_await pool.pin(0, 1, two, std::chrono::seconds(10)));
    co_await pool.unpin("k0", one);
    co_await pool.unpin("k7", one);
    EXPECT_EQ(co_await pool.pinned(), 3U) << "the other one has pinned k0, too";
    co_await sleep_for(pool.env.reactor, std::chrono::seconds(13));
    EXPECT_EQ(co_await pool.pinned(), 2U);
    object::Transaction removal;
    removal.operations.push_back(
        {.kind = Kind::punch_dkey, .object = object::blocks_object, .dkey = {"k1"}});
    EXPECT_OK(co_await pool.store->update(pool.call, pool.container, removal));
    EXPECT_OK(co_await pool.put("k1"));
    EXPECT_EQ(co_await pool.pinned(), 1U);
    EXPECT_OK(co_await pool.pin(4, 1, two));
    pool.store->session_ended(1);
    EXPECT_EQ(co_await pool.pinned(), 1U);
    EXPECT_OK(co_await pool.reopen());
    EXPECT_EQ(co_await pool.pinned(), 0U);
    EXPECT_OK(co_await pool.close());
}

CO_TEST(Caches, PinnedBlockOlderThanTheTtlIsRemoved, CachePool, pool) {
    co_await pool.start_cache(10, std::chrono::seconds(60));
    co_await pool.put_many(0, 1);
    EXPECT_OK(co_await pool.pin(0, 1));
    co_await sleep_for(pool.env.reactor, std::chrono::seconds(90));
    EXPECT_EQ(co_await pool.pinned(), 0U);
    EXPECT_EQ((co_await pool.use()).expired, 1U);
    EXPECT_OK(co_await pool.close());
}

CO_TEST(Caches, TooManyPinsAreRefused, CachePool, pool) {
    pool.options.memory_bytes = 4 << 20;  // 93 pins
    co_await pool.start_cache(1000);
    co_await pool.put_many(0, 100);
    EXPECT_OK(co_await pool.pin(0, 45));
    EXPECT_EQ((co_await pool.pin(45, 10)).error().code, Code::no_memory);
    EXPECT_EQ(co_await pool.pinned(), 45U);
    EXPECT_OK(co_await pool.close());
}

CO_TEST(Caches, SmallerBudgetHoldsFromTheNextPutOn, CachePool, pool) {
    co_await pool.start_cache(10);
    for (uint64_t i = 0; i < 9; ++i) EXPECT_OK(co_await pool.put(pool.name(i)));
    object::Transaction removal;
    removal.operations.push_back(
        {.kind = Kind::punch_dkey, .object = object::blocks_object, .dkey = {pool.name(3)}});
    EXPECT_OK(co_await pool.store->update(pool.call, pool.container, removal));
    EXPECT_EQ((co_await pool.use()).removed, 1U);
    EXPECT_OK(
        co_await pool.store->set_container(pool.call, pool.container, {.bytes = 4 * block_use}));
    EXPECT_OK(co_await pool.put("x"));
    const auto record = co_await pool.record();
    EXPECT_LE(record.used.bytes, record.properties.caps.bytes);
    EXPECT_EQ(
        (co_await pool.store->set_container(pool.call, pool.container, {.bytes = 0})).error().code,
        Code::invalid);
    EXPECT_OK(co_await pool.store->destroy_container(pool.call, pool.container));
    EXPECT_EQ(pool.metric("ros2store_cache_table_bytes"), 0U);
    EXPECT_OK(co_await pool.close());
}

}  // namespace
}  // namespace ros2s::engine
