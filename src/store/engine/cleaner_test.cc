// The cleaner during random updates, compared with a model; which blocks it moves and which it
// leaves.
#include "cleaner.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "ros2s/object/checksum.h"
#include "ros2s/object/test_support/batch.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/sim/co_test.h"
#include "test_support/pool.h"

namespace ros2s::engine {
namespace {

using Kind = object::Operation::Kind;
using std::chrono::milliseconds;

constexpr uint32_t test_section_blocks = 8;
constexpr uint64_t aged_columns = 4;  // of each worker, each an array under a dkey
constexpr uint64_t aged_array_bytes = 280 * block_bytes;  // two segments

// One array as it should be.
struct AgedArray {
    std::vector<std::byte> bytes = std::vector<std::byte>(aged_array_bytes);
    std::set<uint64_t> blocks;  // that are not holes
    std::map<uint64_t, std::string> seals;
    uint64_t size = 0;
    uint64_t epoch = 0;
    bool exists = false;

    void zero(uint64_t from, uint64_t to) {
        std::fill(bytes.begin() + static_cast<ptrdiff_t>(from),
                  bytes.begin() + static_cast<ptrdiff_t>(to), std::byte{0});
    }
    void apply_seals(const object::Operation& operation) {
        uint64_t from = operation.extent.offset;
        uint64_t to = from + operation.extent.length;
        if (operation.kind == Kind::set_size) {
            from = operation.size;
            to = operation.size < size ? aged_array_bytes : from;
        }
        if (from == to) return;
        for (uint64_t b = from / block_bytes; b * block_bytes < to; ++b) {
            seals.erase(b);
            if (operation.seals.empty()) continue;
            seals[b] = operation.seals.substr((b - from / block_bytes) * object::seal_bytes,
                                              object::seal_bytes);
        }
    }
    void apply(const object::Operation& operation) {
        const uint64_t from = operation.extent.offset;
        const uint64_t to = from + operation.extent.length;
        apply_seals(operation);
        if (operation.kind == Kind::punch_akey) {
            *this = {};
        } else if (operation.kind == Kind::write) {
            std::ranges::copy(operation.window.bytes(),
                              bytes.begin() + static_cast<ptrdiff_t>(from));
            for (uint64_t b = from / block_bytes; b * block_bytes < to; ++b) blocks.insert(b);
            size = std::max(size, to);
            exists = true;
        } else if (operation.kind == Kind::punch_extent) {
            zero(from, to);
            std::erase_if(blocks, [&](uint64_t b) {
                return b * block_bytes >= from && (b + 1) * block_bytes <= to;
            });
        } else {
            zero(operation.size, aged_array_bytes);
            std::erase_if(blocks, [&](uint64_t b) { return b * block_bytes >= operation.size; });
            size = operation.size;
            exists = true;
        }
    }
};

struct AgedPool : PoolBench {
    AgedPool(uint64_t seed, size_t cores, size_t devices, uint64_t bytes)
        : PoolBench(seed, devices, bytes, cores), number(seed) {
        options.section_blocks = test_section_blocks;
        options.cleaner_percent = 400;
    }
    uint64_t number;
    std::map<std::pair<uint64_t, uint64_t>, AgedArray> arrays;  // by worker and column
    uint64_t refused = 0;
};

object::Operation aged_place(uint64_t worker, uint64_t column) {
    return {.object = {1, worker}, .dkey = object::Dkey::integer(column), .akey = {"a"}};
}

// Mostly few whole blocks; near the beginning, or around the border of the segments.
object::Operation draw_aged(Random& random, uint64_t worker, uint64_t column, Bytes memory) {
    object::Operation operation = aged_place(worker, column);
    const uint64_t grain = random.one_in(3) ? 512 : block_bytes;
    const uint64_t base = random.one_in(2) ? 0 : 244 * block_bytes;
    operation.extent.offset = base + random.below(24 * block_bytes / grain) * grain;
    operation.extent.length = (1 + random.below(2 * block_bytes / grain)) * grain;
    switch (random.below(16)) {
        case 0: operation.kind = Kind::punch_akey; break;
        case 1:
            operation.kind = Kind::set_size;
            operation.size = operation.extent.offset;
            break;
        case 2:
        case 3: operation.kind = Kind::punch_extent; break;
        default:
            operation.kind = Kind::write;
            operation.window = object::Window::local(memory.first(operation.extent.length));
            for (std::byte& byte : memory) byte = static_cast<std::byte>(random.next());
            if (random.one_in(3)) break;
            operation.seals.resize(
                object::piece_count(operation.extent.offset, operation.extent.length) *
                object::seal_bytes);
            for (char& each : operation.seals) each = static_cast<char>(random.next());
    }
    if (operation.kind == Kind::punch_akey || operation.kind == Kind::set_size) {
        operation.extent = {};
    }
    return operation;
}

Task<> compare_aged(AgedPool& pool, uint64_t worker, uint64_t column) {
    AgedArray& expected = pool.arrays[{worker, column}];
    AlignedBuffer buffer(aged_array_bytes);
    object::FetchItem item{.object = {1, worker},
                           .dkey = object::Dkey::integer(column),
                           .akey = {"a"},
                           .extent = {0, aged_array_bytes},
                           .window = object::Window::local(buffer.bytes()),
                           .wants_seals = true};
    EXPECT_OK(co_await pool.store->fetch(pool.call, pool.container, {&item, 1}));
    std::string seals(expected.exists ? aged_array_bytes / block_bytes * object::seal_bytes : 0,
                      '\0');
    for (const auto& [block, seal] : expected.seals) {
        seals.replace(block * object::seal_bytes, object::seal_bytes, seal);
    }
    EXPECT_TRUE(item.seals == seals) << "seed " << pool.number;
    if (!expected.exists) {
        EXPECT_FALSE(item.status.has_value()) << "seed " << pool.number;
        co_return;
    }
    EXPECT_OK(item.status);
    EXPECT_TRUE(std::ranges::equal(buffer.bytes(), expected.bytes))
        << "seed " << pool.number << ", array " << worker << "." << column;
    EXPECT_EQ(item.size, expected.size) << "seed " << pool.number;
    // A move does not count as an update.
    EXPECT_EQ(item.epoch.value, expected.epoch) << "seed " << pool.number;
}

Task<> work_aged(AgedPool& pool, uint64_t worker, uint64_t updates) {
    Random random(pool.number * 100 + worker + pool.arrays.size());
    const AlignedBuffer memory(2 * block_bytes);
    for (uint64_t i = 0; i < updates; ++i) {
        const uint64_t column = random.below(aged_columns);
        object::Transaction transaction;
        transaction.operations.push_back(draw_aged(random, worker, column, memory.bytes()));
        AgedArray& expected = pool.arrays[{worker, column}];
        const bool exists = expected.exists;
        const auto commit = co_await pool.store->update(pool.call, pool.container, transaction);
        if (commit) {
            const object::Operation& operation = transaction.operations[0];
            if (exists || operation.kind != Kind::punch_extent) expected.apply(operation);
            if (exists || expected.exists) expected.epoch = commit->epoch.value;
        } else {
            EXPECT_EQ(commit.error().code, Code::no_space);
            ++pool.refused;
        }
        if (random.one_in(8)) co_await compare_aged(pool, worker, column);
        if (random.one_in(16)) {
            co_await sleep_for(pool.env.reactor, std::chrono::microseconds(random.below(3000)));
        }
    }
}

Task<> compare_all_aged(AgedPool& pool) {
    uint64_t blocks = 0, keys = 0;
    for (auto& [place, expected] : pool.arrays) {
        co_await compare_aged(pool, place.first, place.second);
        blocks += expected.blocks.size();
        if (!expected.exists) continue;
        keys += object::akey_bytes + 1 + object::Dkey::integer(place.second).bytes.size();
    }
    EXPECT_EQ(pool.metric("ros2store_engine_used_bytes"), blocks * block_bytes)
        << "seed " << pool.number;
    EXPECT_EQ(pool.metric("ros2store_engine_inconsistencies_total"), 0U);
    const auto capped = pool.store->capped_containers();
    EXPECT_EQ(capped.size(), 1U);
    if (!capped.empty()) EXPECT_EQ(capped[0].used.bytes, blocks * block_bytes + keys);
}

Task<> age_and_compare(AgedPool& pool, uint64_t& moved) {
    co_await pool.start();
    const object::ContainerChange caps{.bytes = uint64_t{1} << 40};
    EXPECT_OK(co_await pool.store->set_container(pool.call, pool.container, caps));
    for (int round = 0; round < 4; ++round) {
        const uint64_t before = pool.metric("ros2store_engine_cleaner_moved_bytes_total");
        const uint64_t written = pool.metric("ros2store_engine_update_bytes_total");
        {
            Nursery nursery(pool.env.reactor, 6);
            for (uint64_t worker = 0; worker < 6; ++worker) {
                co_await nursery.spawn(work_aged(pool, worker, 60));
            }
            co_await nursery.join();
        }
        if (round % 2 == 0) co_await sleep_for(pool.env.reactor, milliseconds(200));
        moved += pool.metric("ros2store_engine_cleaner_moved_bytes_total") - before;
        EXPECT_LE(pool.metric("ros2store_engine_cleaner_moved_bytes_total"),
                  4 * pool.metric("ros2store_engine_update_bytes_total"));
        EXPECT_GT(pool.metric("ros2store_engine_update_bytes_total"), written);
        co_await compare_all_aged(pool);
        if (round == 1) EXPECT_OK(co_await pool.reopen());
        if (round == 2) EXPECT_OK(co_await pool.crash_and_open());
        if (round == 1 || round == 2) co_await compare_all_aged(pool);
    }
    EXPECT_OK(co_await pool.close());
}

class CleanerAgainstModel : public testing::TestWithParam<size_t> {};
TEST_P(CleanerAgainstModel, MovesAreInvisibleToReaders) {
    uint64_t moved = 0;
    for (uint64_t seed = 1; seed <= 12 && !HasFailure(); ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        AgedPool pool(seed, GetParam(), 1 + seed % 2, seed % 2 == 0 ? 3 << 20 : 9 << 18);
        if (seed % 4 > 1) pool.options.cleaner_yields_at = UINT32_MAX;
        pool.options.memory_bytes = seed % 3 == 0 ? 4 << 20 : 64 << 20;
        pool.world.run(age_and_compare(pool, moved));
    }
    EXPECT_GT(moved, 200 * block_bytes);
}
INSTANTIATE_TEST_SUITE_P(Cores, CleanerAgainstModel, testing::Values(1, 3));

// Whole blocks are written without a lock against moves of the same blocks, which take long here.
constexpr uint64_t hot_blocks = 128;
constexpr uint64_t hot_writers = 16;

Task<> overwrite_hot(AgedPool& pool, uint64_t writer, std::vector<uint8_t>& expected) {
    const AlignedBuffer buffer(block_bytes);
    Random random(pool.number * 100 + writer);
    for (int i = 0; i < 200; ++i) {
        const uint64_t block = random.below(hot_blocks / hot_writers) * hot_writers + writer;
        const uint8_t fill = ++expected[block];
        std::memset(buffer.data(), fill, buffer.size());
        object::Transaction transaction;
        transaction.operations.push_back(PoolBench::writing(0, buffer.bytes()));
        transaction.operations[0].extent.offset = block * block_bytes;
        EXPECT_OK(co_await pool.store->update(pool.call, pool.container, transaction));
    }
}

Task<> overtake(AgedPool& pool, uint64_t& moved) {
    co_await pool.start();
    std::vector<uint8_t> expected(hot_blocks);
    {
        Nursery nursery(pool.env.reactor, hot_writers);
        for (uint64_t writer = 0; writer < hot_writers; ++writer) {
            co_await nursery.spawn(overwrite_hot(pool, writer, expected));
        }
        co_await nursery.join();
    }
    moved += pool.metric("ros2store_engine_cleaner_moved_bytes_total") / block_bytes;
    for (const bool again : {false, true}) {
        if (again) {
            // Not in the index yet, so the pool that loses power has something left to write.
            EXPECT_OK(co_await pool.write(1, 1, 1));
            EXPECT_OK(co_await pool.crash_and_open());
        }
        AlignedBuffer buffer(hot_blocks * block_bytes);
        auto item = object::fetch_item({1, 1}, object::Dkey::integer(0), {"a"}, 0, buffer.bytes());
        EXPECT_OK(co_await pool.store->fetch(pool.call, pool.container, {&item, 1}));
        EXPECT_OK(item.status);
        for (uint64_t block = 0; block < hot_blocks; ++block) {
            EXPECT_EQ(buffer.bytes()[block * block_bytes + 9], std::byte{expected[block]})
                << "seed " << pool.number << ", block " << block << (again ? ", replayed" : "");
        }
        EXPECT_EQ(pool.metric("ros2store_engine_inconsistencies_total"), 0U);
    }
    EXPECT_OK(co_await pool.close());
}
TEST_P(CleanerAgainstModel, UpdateDuringMoveWins) {
    uint64_t moved = 0;
    for (uint64_t seed = 1; seed <= 12 && !HasFailure(); ++seed) {
        AgedPool pool(seed, GetParam(), 0, 0);
        pool.disks.push_back(std::make_unique<device::SimDisk>(
            pool.world.random(),
            device::SimDiskOptions{.size = (1 << 20) + 200 * block_bytes,
                                   .read_latency = std::chrono::microseconds(800),
                                   .flush_latency = std::chrono::microseconds(100)},
            "slow to read"));
        pool.options.cleaner_percent = 1000;
        pool.options.cleaner_yields_at = UINT32_MAX;
        pool.options.groups_in_flight = 1 + seed % 3;
        pool.world.run(overtake(pool, moved));
    }
    EXPECT_GT(moved, 50U);
}

// Every second block is freed.
Task<> make_holes(AgedPool& pool, uint64_t dkeys) {
    for (uint64_t dkey = 0; dkey < dkeys; ++dkey) {
        EXPECT_OK(co_await pool.write(dkey, 16, static_cast<uint8_t>(1 + dkey)));
    }
    for (uint64_t dkey = 0; dkey < dkeys; ++dkey) {
        for (uint64_t block = 1; block < 16; block += 2) {
            object::Transaction transaction;
            transaction.operations.push_back({.kind = Kind::punch_extent,
                                              .object = {1, 1},
                                              .dkey = object::Dkey::integer(dkey),
                                              .akey = {"a"},
                                              .extent = {block * block_bytes, block_bytes}});
            EXPECT_OK(co_await pool.store->update(pool.call, pool.container, transaction));
        }
    }
}

// The device's writes for 64 blocks.
Task<> write_64(AgedPool& pool, uint64_t& runs) {
    const uint64_t before = pool.metric("ros2store_engine_runs_total");
    EXPECT_OK(co_await pool.write(1 << 20, 64, 9));
    runs = pool.metric("ros2store_engine_runs_total") - before;
}

CO_TEST(Cleaner, FragmentedSpaceIsFreedInWholeSections, AgedPool, pool, 1, 1, 1,
        uint64_t{4} << 20) {
    co_await pool.start();
    const uint64_t total = pool.metric("ros2store_engine_total_bytes");
    const uint64_t dkeys = total / (16 * block_bytes) - 2;
    // Nothing happens in a fresh pool.
    EXPECT_OK(co_await pool.write(0, 16, 1));
    co_await sleep_for(pool.env.reactor, milliseconds(200));
    EXPECT_EQ(pool.metric("ros2store_engine_cleaner_passes_total"), 0U);
    co_await make_holes(pool, dkeys);
    co_await sleep_for(pool.env.reactor, std::chrono::seconds(2));
    const uint64_t unused = total - pool.metric("ros2store_engine_used_bytes");
    EXPECT_GT(pool.metric("ros2store_engine_clear_bytes"), unused * 2 / 5);
    const uint64_t passes = pool.metric("ros2store_engine_cleaner_passes_total");
    EXPECT_GT(passes, 0U);
    uint64_t runs = 0;
    co_await write_64(pool, runs);
    EXPECT_LE(runs, 64 / test_section_blocks);
    // It stops when it is done.
    co_await sleep_for(pool.env.reactor, std::chrono::seconds(10));
    EXPECT_EQ(pool.metric("ros2store_engine_cleaner_passes_total"), passes);
    for (uint64_t dkey = 0; dkey < dkeys; ++dkey) {
        AlignedBuffer buffer(block_bytes);
        auto item = object::fetch_item({1, 1}, object::Dkey::integer(dkey), {"a"}, 14 * block_bytes,
                                       buffer.bytes());
        EXPECT_OK(co_await pool.store->fetch(pool.call, pool.container, {&item, 1}));
        EXPECT_OK(item.status);
        EXPECT_EQ(buffer.bytes()[7], std::byte(1 + dkey));
    }
    EXPECT_OK(co_await pool.close());
}

CO_TEST(Cleaner, ZeroPercentDisablesIt, AgedPool, pool, 1, 1, 1, uint64_t{4} << 20) {
    pool.options.cleaner_percent = 0;
    co_await pool.start();
    co_await make_holes(pool, pool.metric("ros2store_engine_total_bytes") / (16 * block_bytes) - 2);
    co_await sleep_for(pool.env.reactor, std::chrono::seconds(2));
    EXPECT_EQ(pool.metric("ros2store_engine_cleaner_passes_total"), 0U);
    uint64_t runs = 0;
    co_await write_64(pool, runs);
    EXPECT_GE(runs, 16U);
    EXPECT_OK(co_await pool.close());
}

// The bytes of a block change on the media. It must not get a new CRC, or be lost.
CO_TEST(Cleaner, CorruptBlocksAreNotMoved, AgedPool, pool, 1, 1, 1, uint64_t{4} << 20) {
    co_await pool.start();
    pool.options.cleaner_percent = 0;
    EXPECT_OK(co_await pool.reopen());
    const uint64_t total = pool.metric("ros2store_engine_total_bytes");
    const uint64_t dkeys = total / (16 * block_bytes) - 2;
    co_await make_holes(pool, dkeys);
    EXPECT_OK(co_await pool.close());
    // One bit of each block with the fill of dkey 5 rots.
    device::SimDisk& disk = *pool.disks[0];
    std::vector<std::byte> block(block_bytes);
    uint64_t rotten = 0;
    for (uint64_t at = 0; at < disk.size(); at += block_bytes) {
        disk.peek(at, block);
        if (!std::ranges::all_of(block, [](std::byte b) { return b == std::byte{6}; })) continue;
        block[100] ^= std::byte{4};
        disk.poke(at, block);
        ++rotten;
    }
    EXPECT_GE(rotten, 8U);
    pool.options.cleaner_percent = 400;
    EXPECT_OK(co_await pool.open());
    for (uint64_t i = 0; i < 60; ++i) EXPECT_OK(co_await pool.write(6 + i % 4, 16, 1));
    co_await make_holes(pool, 1);
    co_await sleep_for(pool.env.reactor, std::chrono::seconds(2));
    EXPECT_GT(pool.metric("ros2store_engine_cleaner_moved_bytes_total"), 0U);
    EXPECT_GT(pool.metric("ros2store_engine_cleaner_spared_blocks_total"), 0U);
    AlignedBuffer buffer(block_bytes);
    for (uint64_t i = 0; i < 16; i += 2) {
        auto item = object::fetch_item({1, 1}, object::Dkey::integer(5), {"a"}, i * block_bytes,
                                       buffer.bytes());
        EXPECT_OK(co_await pool.store->fetch(pool.call, pool.container, {&item, 1}));
        EXPECT_FALSE(item.status.has_value());
        if (!item.status) EXPECT_EQ(item.status.error().code, Code::corrupt);
    }
    EXPECT_OK(co_await pool.close());
}

}  // namespace
}  // namespace ros2s::engine
