// Pools that somebody else made: every checksum is valid, and the contents are meant to harm. What
// is bad is refused, and nothing is touched that should not be.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ros2s/engine/extent/space.h"
#include "ros2s/engine/format/keys.h"
#include "ros2s/engine/format/record.h"
#include "ros2s/engine/format/values.h"
#include "ros2s/object/blocks.h"
#include "ros2s/runtime/sim/co_test.h"
#include "test_support/pool.h"

namespace ros2s::engine {
namespace {

using testing::HasSubstr;

constexpr uint64_t ring_first = 3, ring_blocks = (1 << 20) / block_bytes;
constexpr uint64_t data_first = ring_first + ring_blocks;

struct HostilePool : PoolBench {
    explicit HostilePool(size_t cores = 1) : PoolBench(1, 1, 16 << 20, cores) {
        env.log = Log([this](LogLevel, std::string_view line) { lines += line; });
    }
    // A closed pool with an array of one block under each of two dkeys.
    Task<> make() {
        co_await start();
        for (const uint64_t dkey : {0, 1}) EXPECT_OK(co_await write(dkey, 1, 7));
        EXPECT_OK(co_await close());
    }
    Task<> crash() {
        for (auto& disk : disks) disk->power_loss();
        index_medium.crash(world.random());
        EXPECT_FALSE(co_await close());
    }
    Task<Result<>> put(uint64_t dkey, std::string_view text) {
        object::Transaction transaction;
        transaction.operations.push_back({.kind = object::Operation::Kind::put,
                                          .object = {1, 1},
                                          .dkey = object::Dkey::integer(dkey),
                                          .akey = {"v"},
                                          .window = object::Window::local(as_bytes(text))});
        const auto commit = co_await store->update(call, container, transaction);
        co_return commit ? Result<>() : fail(commit.error());
    }
    Task<Result<>> punch_object() {
        object::Transaction transaction;
        transaction.operations.push_back(
            {.kind = object::Operation::Kind::punch_object, .object = {1, 1}});
        const auto commit = co_await store->update(call, container, transaction);
        co_return commit ? Result<>() : fail(commit.error());
    }
    [[nodiscard]] std::string key(uint64_t dkey, uint32_t segment = 0) const {
        return entry_key(container, {1, 1}, object::Dkey::integer(dkey).bytes, "a", segment).take();
    }
    std::string value_at(std::string_view key) {
        const auto index = index_medium.open();
        return index->get(key).value().value();
    }
    void set_values(const std::vector<std::pair<std::string, std::string>>& values) {
        const auto index = index_medium.open();
        IndexBatch batch;
        for (const auto& [key, value] : values) batch.put(key, value);
        EXPECT_OK(index->apply(std::move(batch)));
        EXPECT_OK(index->flush());
        EXPECT_OK(index->close());
    }
    // Appends a record to the journal, as the next group of the closed pool.
    void append(const TransactionRecord& transaction) {
        AlignedBuffer block(block_bytes);
        RecordHeader last;
        uint64_t end = 0;
        for (uint64_t at = ring_first; at < data_first; ++at) {
            disks[0]->peek(at * block_bytes, block.bytes());
            const auto found = decode_record_header(block.bytes());
            if (!found || found->sequence < last.sequence) continue;
            last = *found;
            end = at + record_bytes(found->payload_bytes) / block_bytes;
        }
        RecordHeader header = last;
        header.previous_id = last.id;
        header.id = last.next_id;
        header.next_id = 1;
        header.durable_upto = last.sequence++;
        header.sequence = last.sequence;
        header.first_epoch += last.transactions;
        RecordBuilder record;
        record.add(transaction);
        disks[0]->poke(end * block_bytes, record.finish(header));
    }
    std::string lines;
};

Task<> expect_refused(HostilePool& pool, Code code, std::string_view sentence) {
    pool.report = {};
    const Result<> opened = co_await pool.open();
    EXPECT_FALSE(opened.has_value());
    if (opened) {
        EXPECT_OK(co_await pool.close());
        co_return;
    }
    EXPECT_EQ(describe(opened.error().code), describe(code));
    EXPECT_THAT(pool.report.text(), HasSubstr(sentence));
}

// ---- values of the index -------------------------------------------------------------------

// The array under dkey 0 cannot be used, and everything else can.
Task<> expect_bad_array(HostilePool& pool, std::string_view fault) {
    EXPECT_OK(co_await pool.open());
    EXPECT_EQ((co_await pool.expect(0, 1, 7)).error().code, Code::corrupt);
    EXPECT_EQ((co_await pool.write(0, 1, 8)).error().code, Code::corrupt);
    EXPECT_OK(co_await pool.expect(1, 1, 7));
    EXPECT_OK(co_await pool.write(2, 1, 9));
    EXPECT_EQ(pool.store->read_only_reason(), "");
    EXPECT_THAT(pool.lines, HasSubstr("object 0000000000000001.0000000000000001 dkey"));
    EXPECT_THAT(pool.lines, HasSubstr(fault));
    EXPECT_OK(co_await pool.close());
}

Task<> block_elsewhere(HostilePool& pool, BlockAddress address) {
    co_await pool.make();
    EntryValue entry{
        .kind = EntryValue::Kind::array, .size = 2 * block_bytes, .epoch = {1}, .time = {}};
    entry.map.set(0, {BlockAddress::make(0, data_first), 1});
    entry.map.set(1, {address, 1});
    pool.set_values({{pool.key(0), encode(entry)}});
    co_await expect_bad_array(pool, "names a block that cannot hold data");
}
TEST(HostilePool, ArrayBlockOutsideDataAreaIsRefused) {
    const uint64_t end = (16 << 20) / block_bytes - 1;  // the second superblock
    const std::vector<BlockAddress> elsewhere{BlockAddress::make(0, 1),
                                              BlockAddress::make(0, data_first - 1),
                                              BlockAddress::make(0, end),
                                              BlockAddress::make(0, uint64_t{1} << 47),
                                              BlockAddress::make(1, 1),
                                              BlockAddress::make(65535, data_first),
                                              BlockAddress::make(0xffff, ~uint64_t{0} >> 16)};
    for (const size_t cores : {1, 2}) {
        for (const BlockAddress address : elsewhere) {
            SCOPED_TRACE(testing::Message() << address.value << " on " << cores << " cores");
            HostilePool pool(cores);
            pool.world.run(block_elsewhere(pool, address));
        }
    }
}

// A pool's later devices have data, too.
Task<> grown(HostilePool& pool) {
    co_await pool.start();
    pool.add_disk(16 << 20);
    auto added = co_await pool.device(1);
    EXPECT_OK(added);
    EXPECT_OK(co_await pool.store->grow(std::move(*added), pool.report));
    for (uint64_t dkey = 0; dkey < 8; ++dkey) EXPECT_OK(co_await pool.write(dkey, 2, 7));
    EXPECT_OK(co_await pool.reopen());
    for (uint64_t dkey = 0; dkey < 8; ++dkey) EXPECT_OK(co_await pool.expect(dkey, 2, 7));
    EXPECT_OK(co_await pool.close());
}
TEST(HostilePool, DataBlocksOfAddedDeviceAreAccepted) {
    for (const size_t cores : {1, 2}) {
        HostilePool pool(cores);
        pool.world.run(grown(pool));
    }
}

CO_TEST(HostilePool, SegmentInPlaceOfArrayHeadIsRefused, HostilePool, pool) {
    co_await pool.make();
    auto entry = decode_entry(pool.value_at(pool.key(0)));
    EXPECT_OK(entry);
    entry->kind = EntryValue::Kind::segment;
    pool.set_values({{pool.key(0), encode(*entry)}});
    co_await expect_bad_array(pool, "of another kind than its key");
}

// Keys with such strings would be built in a buffer of fixed size.
CO_TEST(HostilePool, KeyWithTooLongStringIsRefused, HostilePool, pool) {
    co_await pool.make();
    KeyBuilder prefix(Table::entries);
    prefix.container(pool.container).object({1, 1}).string("d");
    const std::string key =
        prefix.take() + std::string(5000, 'a') + std::string("\0\0", 2) + std::string(4, '\0');
    pool.set_values({{key, pool.value_at(pool.key(1))}});
    EXPECT_OK(co_await pool.open());
    EXPECT_EQ((co_await pool.punch_object()).error().code, Code::corrupt);
    EXPECT_EQ((co_await pool.store->destroy_container(pool.call, pool.container)).error().code,
              Code::corrupt);
    EXPECT_OK(co_await pool.close());
    EXPECT_OK(co_await pool.open());  // goes on with the removal, and fails again
    EXPECT_EQ(pool.store->read_only_reason(), "");
    EXPECT_OK(co_await pool.close());
}

std::string used_blocks(uint64_t first, uint64_t end) {
    std::string bits(SpaceMap::region_blocks / 8, '\0');
    for (uint64_t block = first; block < end; ++block) {
        bits[block / 8] = static_cast<char>(bits[block / 8] | 1 << block % 8);
    }
    return encode_space(bits);
}
CO_TEST(HostilePool, UsedBlocksOutsideDataAreaAreRefused, HostilePool, pool) {
    co_await pool.make();
    const std::string key = space_key(0, 0).take();
    pool.set_values({{key, used_blocks(data_first, (16 << 20) / block_bytes - 1)}});
    EXPECT_OK(co_await pool.open());
    const auto space = co_await pool.store->space(pool.call, {});
    EXPECT_OK(space);
    EXPECT_EQ(space->free_bytes, 0U);
    EXPECT_EQ((co_await pool.write(2, 1, 7)).error().code, Code::no_space);
    EXPECT_OK(co_await pool.close());
    pool.set_values({{key, used_blocks(data_first - 1, data_first)}});
    co_await expect_refused(pool, Code::corrupt, "index");
}

// ---- caches --------------------------------------------------------------------------------

object::Operation putting(std::string key, const object::Akey& akey, ConstBytes value) {
    return {.kind = object::Operation::Kind::put,
            .object = object::blocks_object,
            .dkey = {std::move(key)},
            .akey = akey,
            .window = object::Window::local(value)};
}
Task<Result<object::Commit>> put_block(HostilePool& pool, std::string key) {
    const object::BlockHead head;
    object::Transaction put;
    put.conditions.push_back({.kind = object::Condition::Kind::absent,
                              .object = object::blocks_object,
                              .dkey = {key},
                              .akey = object::block_head_akey()});
    put.operations.push_back({.kind = object::Operation::Kind::write,
                              .object = object::blocks_object,
                              .dkey = {key},
                              .akey = object::block_data_akey()});
    put.operations.push_back(
        putting(std::move(key), object::block_head_akey(), object_bytes(head)));
    co_return co_await pool.store->update(pool.call, pool.container, put);
}
Task<> make_cache(HostilePool& pool) {
    co_await pool.start();
    const object::CacheRecord record;
    object::Transaction transaction;
    transaction.operations.push_back(putting({}, object::cache_akey(), object_bytes(record)));
    EXPECT_OK(co_await pool.store->set_container(pool.call, pool.container, {.bytes = 1 << 20}));
    EXPECT_OK(co_await pool.store->update(pool.call, pool.container, transaction));
    EXPECT_OK(co_await put_block(pool, "known"));
}

CO_TEST(HostilePool, BlockWithTooLongKeyIsRemoved, HostilePool, pool) {
    co_await make_cache(pool);
    EXPECT_OK(co_await pool.close());
    const auto key_of = [&](const std::string& dkey) {
        return entry_key(pool.container, object::blocks_object, dkey, "head", 0).take();
    };
    const std::string too_long(object::block_key_bytes_max + 1, 'k');
    const std::string head = pool.value_at(key_of("known"));
    pool.set_values({{key_of(too_long), head}, {key_of({}), head}});
    EXPECT_OK(co_await pool.open());
    co_await sleep_for(pool.env.reactor, std::chrono::seconds(3));
    const auto listed = co_await pool.store->list(pool.call, pool.container,
                                                  {.what = object::ListRequest::What::dkeys,
                                                   .object = object::blocks_object,
                                                   .akey = object::block_head_akey(),
                                                   .limit = 10});
    EXPECT_OK(listed);
    std::vector<std::string> keys;
    for (const auto& entry : listed->entries) keys.push_back(entry.key);
    EXPECT_THAT(keys, testing::ElementsAre("", "known"));
    EXPECT_EQ((co_await put_block(pool, "known")).error().code, Code::condition_failed);
    EXPECT_OK(co_await put_block(pool, "another"));
    EXPECT_OK(co_await pool.close());
}

// It would be in the way of others that need the memory of its key: it cannot be removed.
CO_TEST(HostilePool, BlockWithoutAKeyIsRefused, HostilePool, pool) {
    co_await make_cache(pool);
    EXPECT_EQ((co_await put_block(pool, {})).error().code, Code::unsupported);
    EXPECT_OK(co_await pool.close());
}

// ---- records of the journal ----------------------------------------------------------------

CO_TEST(HostilePool, ArrayReplacingValueHasNoneOfItsBytes, HostilePool, pool) {
    co_await pool.start();
    EXPECT_OK(co_await pool.put(0, "a single value"));
    co_await pool.crash();
    Change change{.kind = Change::Kind::array,
                  .size_rule = Change::SizeRule::exactly,
                  .object = {1, 1},
                  .dkey = object::Dkey::integer(0).bytes,
                  .akey = "v"};
    TransactionRecord transaction;
    transaction.container = pool.container;
    transaction.changes.push_back(std::move(change));
    pool.append(transaction);
    EXPECT_OK(co_await pool.open());
    EXPECT_GT(pool.store->replayed_groups(), 0U);
    const AlignedBuffer buffer(block_bytes);
    std::memset(buffer.data(), 0x55, block_bytes);
    object::FetchItem item{.object = {1, 1},
                           .dkey = object::Dkey::integer(0),
                           .akey = {"v"},
                           .extent = {0, 1},
                           .window = object::Window::local(buffer.bytes().first(1))};
    EXPECT_OK(co_await pool.store->fetch(pool.call, pool.container, {&item, 1}));
    EXPECT_OK(item.status);
    EXPECT_FALSE(item.is_value);
    EXPECT_EQ(item.size, 0U);
    for (size_t i = 1; i < 32; ++i) EXPECT_EQ(buffer.data()[i], std::byte{0x55}) << i;
    EXPECT_OK(co_await pool.close());
}

Task<> no_akey(HostilePool& pool, Change::Kind kind) {
    co_await pool.start();
    EXPECT_OK(co_await pool.write(0, 1, 7));
    co_await pool.crash();
    TransactionRecord transaction;
    transaction.container = pool.container;
    transaction.changes.push_back(
        {.kind = kind, .object = {1, 1}, .dkey = object::Dkey::integer(0).bytes});
    pool.append(transaction);
    EXPECT_OK(co_await pool.open());
    EXPECT_EQ(pool.store->read_only_reason(), "");
    EXPECT_OK(co_await pool.expect(0, 1, 7));
    EXPECT_OK(co_await pool.close());
}
TEST(HostilePool, ChangeWithoutAkeyIsIgnored) {
    for (const auto kind : {Change::Kind::array, Change::Kind::put, Change::Kind::punch_akey}) {
        HostilePool pool;
        pool.world.run(no_akey(pool, kind));
    }
}

// ---- memory --------------------------------------------------------------------------------

CO_TEST(HostilePool, RepliesBeyondMemoryLimitAreRefused, HostilePool, pool) {
    co_await pool.make();
    std::vector<std::pair<std::string, std::string>> replies;
    for (uint32_t slot = 0; slot < 50'000; ++slot) {
        const ReplyKey key{.owner = {}, .client = {{1}}, .container = pool.container, .slot = slot};
        replies.emplace_back(reply_key(key).take(), encode(ReplyValue{.sequence = 1}));
    }
    pool.set_values(replies);
    pool.options.memory_bytes = 64 << 10;
    co_await expect_refused(pool, Code::no_memory, "Raise engine.memory");
    pool.options.memory_bytes = 64 << 20;
    EXPECT_OK(co_await pool.open());
    EXPECT_OK(co_await pool.expect(0, 1, 7));
    EXPECT_OK(co_await pool.close());
}

CO_TEST(HostilePool, ChangeOfTooManyKeysIsRefused, HostilePool, pool) {
    co_await pool.start();
    const std::string value(4000, 'v');
    for (uint64_t dkey = 0; dkey < 2000; ++dkey) EXPECT_OK(co_await pool.put(dkey, value));
    EXPECT_OK(co_await pool.reopen());
    EXPECT_OK(co_await pool.punch_object());
    co_await pool.crash();
    pool.options.memory_bytes = 32 << 10;
    co_await expect_refused(pool, Code::no_memory, "raise engine.memory");
    pool.options.memory_bytes = 16 << 20;
    EXPECT_OK(co_await pool.open());
    EXPECT_EQ(pool.store->read_only_reason(), "");
    EXPECT_OK(co_await pool.close());
}

CO_TEST(HostilePool, SpaceMapBeyondMemoryLimitIsRefused, HostilePool, pool) {
    co_await pool.make();
    pool.options.memory_bytes = 16;
    co_await expect_refused(pool, Code::no_memory, "4096 blocks of 4 KiB");
    pool.options.memory_bytes = 16 << 20;
    EXPECT_OK(co_await pool.open());
    EXPECT_OK(co_await pool.close());
}

// Otherwise the pool would not open again.
CO_TEST(HostilePool, GrowthBeyondMemoryLimitIsRefused, HostilePool, pool) {
    pool.options.memory_bytes = 8 << 10;
    co_await pool.start();
    pool.add_disk(uint64_t{3} << 30);
    auto added = co_await pool.device(1);
    EXPECT_OK(added);
    const Result<> refused = co_await pool.store->grow(std::move(*added), pool.report);
    EXPECT_EQ(refused.error().code, Code::no_memory) << pool.report.text();
    EXPECT_EQ(pool.store->read_only_reason(), "");
    EXPECT_OK(co_await pool.close());
}

}  // namespace
}  // namespace ros2s::engine
