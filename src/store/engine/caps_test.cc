// Space and files of containers, and their caps. The counts are exact, also after crashes. A cap
// refuses only updates that would exceed it.
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <set>

#include "ros2s/base/codec.h"
#include "ros2s/base/crc32c.h"
#include "ros2s/engine/format/keys.h"
#include "ros2s/engine/format/values.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/sim/co_test.h"
#include "test_support/pool.h"

namespace ros2s::engine {
namespace {

using object::Amount;
using Kind = object::Operation::Kind;
using Pool = PoolBench;

Task<object::ContainerRecord> record_of(Pool& pool, std::string label = "c") {
    const auto all = co_await pool.store->list_containers(pool.call);
    EXPECT_OK(all);
    for (const auto& each : *all) {
        if (each.properties.label == label) co_return each;
    }
    ADD_FAILURE() << "no container " << label;
    co_return object::ContainerRecord{};
}

// Counts the same by listing everything.
Task<Amount> recount(Pool& pool) {
    using What = object::ListRequest::What;
    Amount used;
    const auto list = [&](object::ListRequest request) {
        return pool.store->list(pool.call, pool.container, request);
    };
    const auto objects = co_await list({.what = What::objects});
    for (const auto& object : objects->entries) {
        const object::ObjectId id = object::parse_object_key(object.key);
        const auto dkeys = co_await list({.what = What::dkeys, .object = id});
        for (const auto& dkey : dkeys->entries) {
            const auto akeys =
                co_await list({.what = What::akeys, .object = id, .dkey = {dkey.key}});
            for (const auto& akey : akeys->entries) {
                object::FetchItem item{.object = id, .dkey = {dkey.key}, .akey = {akey.key}};
                EXPECT_OK(co_await pool.store->fetch(pool.call, pool.container, {&item, 1}));
                used.bytes += object::akey_bytes + dkey.key.size() + akey.key.size();
                const bool too_small = !item.status && item.status.error().code == Code::too_small;
                const bool is_value = item.is_value || too_small;
                if (!is_value) continue;
                ++used.values;
                used.bytes += item.status ? item.size : item.status.error().detail;
            }
        }
        for (const std::string akey : {"a", "b"}) {
            const auto facts = co_await pool.store->query(pool.call, pool.container, id, {akey});
            used.bytes += facts->bytes_used;
        }
    }
    co_return used;
}

Task<Result<object::Commit>> change(Pool& pool, std::vector<object::Operation> operations) {
    object::Transaction transaction;
    transaction.operations = std::move(operations);
    co_return co_await pool.store->update(pool.call, pool.container, transaction);
}
// Returns nothing: the request succeeded.
Task<std::optional<Code>> code_of(Pool& pool, std::vector<object::Operation> operations) {
    const auto done = co_await change(pool, std::move(operations));
    co_return done ? std::nullopt : std::optional(done.error().code);
}
object::Operation put(const std::string& dkey, std::string& value) {
    return {.kind = Kind::put,
            .object = {2, 2},
            .dkey = {dkey},
            .akey = {"b"},
            .window = object::Window::local(std::as_writable_bytes(std::span(value)))};
}
object::Operation punch(const std::string& dkey) {
    return {.kind = Kind::punch_dkey, .object = {2, 2}, .dkey = {dkey}};
}

Task<> counts(Pool& pool) {
    co_await pool.start();
    EXPECT_EQ((co_await record_of(pool)).used, Amount{});
    std::string value = "some value", longer(300, 'l');
    Random random(7);
    for (int step = 0; step < 300; ++step) {
        const uint64_t dkey = random.below(12);
        const std::string name(1 + dkey, 'n');
        switch (random.below(8)) {
            case 0: EXPECT_OK(co_await pool.write(dkey, 1 + random.below(300), 1)); break;
            case 1: EXPECT_OK(co_await change(pool, {put(name, value)})); break;
            case 2: EXPECT_OK(co_await change(pool, {put(name, longer), put("x", value)})); break;
            case 3: EXPECT_OK(co_await change(pool, {punch(name), put(name + "m", value)})); break;
            case 4: EXPECT_OK(co_await change(pool, {punch(name)})); break;
            case 5:
                EXPECT_OK(co_await change(pool, {{.kind = Kind::set_size,
                                                  .object = {1, 1},
                                                  .dkey = object::Dkey::integer(dkey),
                                                  .akey = {"a"},
                                                  .size = random.below(1 << 20)}}));
                break;
            case 6:
                EXPECT_OK(co_await change(pool, {{.kind = Kind::punch_dkeys,
                                                  .object = {1, 1},
                                                  .dkey = object::Dkey::integer(dkey),
                                                  .dkey_end = object::Dkey::integer(dkey + 2)}}));
                break;
            default:
                if (step % 50 == 0) EXPECT_OK(co_await pool.store->checkpoint());
        }
        if (step % 30 == 29) {
            if (step % 60 == 29) EXPECT_OK(co_await pool.crash_and_open());
            EXPECT_EQ((co_await record_of(pool)).used, co_await recount(pool)) << step;
        }
    }
    EXPECT_OK(co_await pool.reopen());
    EXPECT_EQ((co_await record_of(pool)).used, co_await recount(pool));
    EXPECT_OK(co_await pool.store->destroy_container(pool.call, pool.container));
    EXPECT_EQ(pool.metric("ros2store_engine_inconsistencies_total"), 0U);
    EXPECT_OK(co_await pool.close());
}
TEST(ContainerCaps, UsageIsCountedExactly) {
    for (const size_t cores : {1, 3}) {
        Pool pool(1, 1, 16 << 20, cores);
        pool.world.run(counts(pool));
    }
}

// The record of a container as earlier programs wrote it: without what it uses.
std::string written_before(const ContainerValue& value) {
    std::string text(100 + value.properties.label.size(), '\0');
    Encoder encoder(std::as_writable_bytes(std::span(text)));
    encoder.number(uint8_t{6});
    encoder.number(uint8_t{1});
    encoder.text(value.properties.label);
    encoder.number(value.properties.chunk_bytes);
    encoder.number(int64_t{value.created.time_since_epoch().count()});
    encoder.number(uint8_t{0});
    text.resize(encoder.size());
    const uint32_t crc = crc32c(as_bytes(text));
    text.append(reinterpret_cast<const char*>(&crc), sizeof crc);
    return text;
}

CO_TEST(ContainerCaps, PoolOfEarlierVersionIsCounted, Pool, pool, 6) {
    co_await pool.start();
    std::string value = "some value";
    EXPECT_OK(co_await pool.write(0, 300, 1));
    EXPECT_OK(co_await pool.write(1, 3, 1));
    EXPECT_OK(co_await change(pool, {put("one", value), put("two", value)}));
    const Amount used = (co_await record_of(pool)).used;
    EXPECT_OK(co_await pool.close());
    {
        const auto index = pool.index_medium.open();
        const KeyBuilder key = container_key(pool.container);
        const auto record = decode_container(**index->get(key.view()));
        EXPECT_OK(record);
        IndexBatch batch;
        batch.put(key.view(), written_before(*record));
        EXPECT_OK(index->apply(std::move(batch)));
        EXPECT_OK(index->flush());
    }
    EXPECT_OK(co_await pool.open());
    EXPECT_EQ((co_await record_of(pool)).used, used);
    EXPECT_OK(co_await pool.write(2, 3, 1));
    EXPECT_OK(co_await pool.reopen());
    EXPECT_EQ((co_await record_of(pool)).used, co_await recount(pool));
    EXPECT_OK(co_await pool.close());
}

// The space that one block under an integer dkey counts.
constexpr uint64_t one_block = block_bytes + object::akey_bytes + 8 + 1;

CO_TEST(ContainerCaps, FullContainerAcceptsOverwrites, Pool, pool, 2) {
    co_await pool.start();
    EXPECT_OK(co_await pool.store->set_container(pool.call, pool.container,
                                                 {.bytes = 10 * one_block, .values = 2}));
    for (uint64_t dkey = 0; dkey < 10; ++dkey) EXPECT_OK(co_await pool.write(dkey, 1, 1));
    const auto refused = co_await pool.write(10, 1, 1);
    EXPECT_EQ(refused.error().code, Code::over_cap);
    EXPECT_EQ(refused.error().detail, 10 * one_block);
    EXPECT_EQ(to_errno(refused.error()), EDQUOT);
    EXPECT_EQ((co_await record_of(pool)).used.bytes, 10 * one_block);
    const auto space = co_await pool.store->space(pool.call, pool.container);
    EXPECT_EQ(space->total_bytes, 10 * one_block);
    EXPECT_EQ(space->free_bytes, 0U);
    EXPECT_EQ(space->total_values, 2U);
    EXPECT_EQ(space->free_values, 2U);
    // Updates that need no more space succeed: overwrites, truncation, holes, removals.
    EXPECT_OK(co_await pool.write(3, 1, 2));
    EXPECT_OK(co_await change(pool, {{.kind = Kind::punch_extent,
                                      .object = {1, 1},
                                      .dkey = object::Dkey::integer(1),
                                      .akey = {"a"},
                                      .extent = {5, 100}}}));
    EXPECT_OK(co_await change(pool, {{.kind = Kind::set_size,
                                      .object = {1, 1},
                                      .dkey = object::Dkey::integer(2),
                                      .akey = {"a"},
                                      .size = 100}}));
    EXPECT_OK(co_await change(
        pool, {{.kind = Kind::punch_dkey, .object = {1, 1}, .dkey = object::Dkey::integer(0)}}));
    EXPECT_OK(co_await pool.write(11, 1, 3));
    EXPECT_EQ((co_await pool.write(12, 1, 3)).error().code, Code::over_cap);
    // A cap below the used space removes nothing.
    EXPECT_OK(co_await pool.store->set_container(pool.call, pool.container, {.bytes = one_block}));
    EXPECT_OK(co_await pool.expect(11, 1, 3));
    EXPECT_OK(co_await pool.write(11, 1, 4));
    EXPECT_EQ((co_await pool.store->space(pool.call, pool.container))->free_bytes, 0U);
    // The caps survive a crash, and can be removed.
    EXPECT_OK(co_await pool.crash_and_open());
    EXPECT_EQ((co_await pool.write(12, 1, 3)).error().code, Code::over_cap);
    EXPECT_OK(co_await pool.store->set_container(pool.call, pool.container, {.bytes = 0}));
    EXPECT_OK(co_await pool.write(12, 1, 3));
    EXPECT_OK(co_await pool.reopen());
    EXPECT_EQ((co_await record_of(pool)).properties.caps, (Amount{.values = 2}));
    EXPECT_OK(co_await pool.close());
}

CO_TEST(ContainerCaps, ValuesAreCounted, Pool, pool, 3) {
    co_await pool.start();
    EXPECT_OK(co_await pool.store->set_container(pool.call, pool.container, {.values = 2}));
    std::string value = "v", longer(100, 'l');
    EXPECT_OK(co_await change(pool, {put("one", value), put("two", value)}));
    EXPECT_EQ((co_await change(pool, {put("three", value)})).error().code, Code::over_cap);
    // Replaced, and as a rename does it.
    EXPECT_OK(co_await change(pool, {put("one", longer)}));
    EXPECT_OK(co_await change(pool, {punch("one"), put("another", value)}));
    EXPECT_EQ((co_await change(pool, {punch("none"), put("three", value)})).error().code,
              Code::over_cap);
    EXPECT_EQ((co_await record_of(pool)).used.values, 2U);
    EXPECT_OK(co_await pool.close());
}

Task<> write_many(Pool& pool, uint64_t from, int& done) {
    for (uint64_t dkey = from; dkey < from + 20; ++dkey) {
        const auto written = co_await pool.write(dkey, 1, 1);
        if (written) {
            ++done;
        } else {
            EXPECT_EQ(written.error().code, Code::over_cap);
        }
    }
}
Task<> race(Pool& pool) {
    co_await pool.start();
    constexpr uint64_t cap = 37 * one_block + 100;
    EXPECT_OK(co_await pool.store->set_container(pool.call, pool.container, {.bytes = cap}));
    int done = 0;
    {
        Nursery clients(pool.env.reactor, 16);
        for (uint64_t i = 0; i < 16; ++i) {
            co_await clients.spawn(write_many(pool, i * 100, done));
        }
        co_await clients.join();
    }
    EXPECT_EQ(done, 37);
    EXPECT_EQ((co_await record_of(pool)).used.bytes, 37 * one_block);
    EXPECT_OK(co_await pool.close());
}
TEST(ContainerCaps, ConcurrentWritesStayWithinTheCap) {
    for (const size_t cores : {1, 2}) {
        Pool pool(4, 1, 16 << 20, cores);
        pool.world.run(race(pool));
    }
}

// Compares the planned growth of operations on arrays with the actual growth, block by block.
struct GrowthModel {
    static constexpr int64_t key_bytes = object::akey_bytes + 8 + 1;
    std::map<std::string, std::set<uint64_t>> arrays;  // their blocks, by dkey
    int64_t planned_blocks = 0, planned_bytes = 0;

    void apply(const object::Operation& operation) {
        const auto found = arrays.find(operation.dkey.bytes);
        const bool is_there = found != arrays.end();
        if (operation.kind == Kind::punch_akey) {
            if (!is_there) return;
            planned_bytes -= key_bytes;
            arrays.erase(found);
            return;
        }
        if (operation.kind == Kind::punch_extent && !is_there) return;
        if (!is_there) planned_bytes += key_bytes;
        std::set<uint64_t>& blocks = arrays[operation.dkey.bytes];
        const object::Extent& extent = operation.extent;
        if (operation.kind == Kind::write) {
            const uint64_t end = round_up(extent.end(), block_bytes) / block_bytes;
            for (uint64_t block = extent.offset / block_bytes; block < end; ++block) {
                if (blocks.insert(block).second) ++planned_blocks;
            }
            return;
        }
        const bool is_size = operation.kind == Kind::set_size;
        const uint64_t from = is_size ? operation.size : extent.offset;
        const uint64_t to = is_size ? UINT64_MAX : extent.end() / block_bytes;
        std::erase_if(blocks, [&](uint64_t block) {
            return block >= round_up(from, block_bytes) / block_bytes && block < to;
        });
    }
    [[nodiscard]] int64_t planned() const {
        return planned_blocks * static_cast<int64_t>(block_bytes) + planned_bytes;
    }
    [[nodiscard]] uint64_t bytes() const {
        uint64_t sum = 0;
        for (const auto& [dkey, blocks] : arrays) sum += key_bytes + blocks.size() * block_bytes;
        return sum;
    }
};

// Near others, so that they overlap, in three segments of three arrays.
object::Operation random_change(Random& random, Bytes payload, bool removes) {
    object::Operation operation{.object = {1, 1},
                                .dkey = object::Dkey::integer(random.below(3)),
                                .akey = {"a"},
                                .extent = {random.below(600 * block_bytes),
                                           1 + random.below(payload.size() - block_bytes)}};
    if (random.one_in(2)) {
        operation.extent = {round_up(operation.extent.offset, block_bytes),
                            round_up(operation.extent.length, block_bytes)};
    }
    switch (removes ? random.below(12) : UINT64_MAX) {
        case 0: operation.kind = Kind::punch_akey; break;
        case 1:
            operation.kind = Kind::set_size;
            operation.size = operation.extent.end();
            break;
        case 2:
        case 3:
        case 4: operation.kind = Kind::punch_extent; break;
        default:
            operation.kind = Kind::write;
            operation.window = object::Window::local(payload.first(operation.extent.length));
    }
    if (operation.kind == Kind::punch_akey || operation.kind == Kind::set_size) {
        operation.extent = {};
    }
    return operation;
}

// A cap that is just too small refuses the transaction, and the next larger one does not.
Task<> plan_growth(Pool& pool, uint64_t seed) {
    pool.create_options.journal_bytes = 4 << 20;
    co_await pool.start();
    Random random(seed);
    const AlignedBuffer payload(6 * block_bytes);
    std::memset(payload.data(), 5, payload.size());
    GrowthModel model;
    for (int step = 0; step < 40 && !testing::Test::HasFailure(); ++step) {
        const bool removes = step % 2 == 1;
        const uint64_t count = step % 10 > 7 ? 300 : 1 + random.below(30);
        const uint64_t used = model.bytes();
        model.planned_blocks = model.planned_bytes = 0;
        std::vector<object::Operation> operations;
        for (uint64_t i = 0; i < count; ++i) {
            operations.push_back(random_change(random, payload.bytes(), removes));
            model.apply(operations.back());
        }
        const auto growth = static_cast<uint64_t>(std::max<int64_t>(model.planned(), 0));
        if (model.planned_blocks > 0 && growth > 1) {
            const uint64_t cap = used + growth - 1;
            EXPECT_OK(
                co_await pool.store->set_container(pool.call, pool.container, {.bytes = cap}));
            EXPECT_EQ(co_await code_of(pool, operations), Code::over_cap) << "step " << step;
        }
        const uint64_t cap = std::max<uint64_t>(used + growth, 1);
        EXPECT_OK(co_await pool.store->set_container(pool.call, pool.container, {.bytes = cap}));
        EXPECT_EQ(co_await code_of(pool, operations), std::nullopt) << "step " << step;
        const Amount now = (co_await record_of(pool)).used;
        EXPECT_EQ(now.bytes, model.bytes()) << "step " << step;
        if (!removes) EXPECT_EQ(now.bytes - used, growth) << "step " << step;
        if (step % 10 > 7) EXPECT_EQ(now, co_await recount(pool)) << "step " << step;
    }
    EXPECT_OK(co_await pool.close());
}
TEST(ContainerCaps, PlannedGrowthEqualsCountedGrowth) {
    for (uint64_t seed = 1; seed <= 4 && !HasFailure(); ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        Pool pool(seed, 1, 64 << 20, seed % 2 == 0 ? 3 : 1);
        pool.world.run(plan_growth(pool, seed));
    }
}

CO_TEST(ContainerCaps, ContainersOfOneOwnerShareItsCap, Pool, pool, 5) {
    co_await pool.start();
    const object::ContainerProperties first{.label = "first", .owner = "alice"};
    const object::ContainerProperties second{.label = "second", .owner = "alice"};
    const object::ContainerProperties other{.label = "other", .owner = "CN=bob"};
    const auto a = (co_await pool.store->create_container(pool.call, first))->id;
    const auto b = (co_await pool.store->create_container(pool.call, second))->id;
    const auto c = (co_await pool.store->create_container(pool.call, other))->id;
    pool.store->set_owner_caps({{"alice", {.bytes = 4 * one_block}}, {"nobody", {.values = 1}}});
    const auto write = [&](object::ContainerId where, uint64_t dkey) {
        pool.container = where;
        return pool.write(dkey, 1, 1);
    };
    for (uint64_t i = 0; i < 2; ++i) {
        EXPECT_OK(co_await write(a, i));
        EXPECT_OK(co_await write(b, i));
    }
    EXPECT_EQ((co_await write(a, 9)).error().code, Code::over_cap);
    EXPECT_EQ((co_await write(b, 9)).error().code, Code::over_cap);
    EXPECT_OK(co_await write(c, 9));
    EXPECT_EQ((co_await pool.store->space(pool.call, a))->total_bytes, 2 * one_block);
    EXPECT_EQ((co_await pool.store->space(pool.call, a))->free_bytes, 0U);
    EXPECT_EQ(pool.store->capped_owners().size(), 2U);
    EXPECT_EQ(pool.store->capped_owners()[0].refusals, 2U);
    // A container that changes its owner takes what it uses with it.
    EXPECT_OK(co_await pool.store->set_container(pool.call, b, {.owner = "CN=bob"}));
    EXPECT_OK(co_await write(a, 9));
    EXPECT_OK(co_await pool.reopen());
    pool.store->set_owner_caps({{"alice", {.bytes = 4 * one_block}}});
    EXPECT_EQ(pool.store->capped_owners()[0].used.bytes, 3 * one_block);
    EXPECT_EQ((co_await record_of(pool, "second")).properties.owner, "CN=bob");
    EXPECT_OK(co_await pool.store->destroy_container(pool.call, a));
    EXPECT_EQ(pool.store->capped_owners()[0].used, Amount{});
    EXPECT_OK(co_await pool.close());
}

}  // namespace
}  // namespace ros2s::engine
