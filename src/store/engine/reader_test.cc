// A Reader without a pool: one disk, and a node whose block addresses the test sets.
#include "reader.h"

#include <gtest/gtest.h>

#include "ros2s/base/crc32c.h"
#include "ros2s/device/sim/sim_device.h"
#include "ros2s/engine/index/sim/ordered_map_index.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/sim/world.h"

namespace ros2s::engine {
namespace {

constexpr object::ContainerId readable{Uuid{{1}}};
constexpr uint32_t media_block = 5;

struct Shelf {
    Shelf() {
        state.containers[readable];
        publisher.reads_moved = [this] { ++reads_ended; };
        std::memset(memory.data(), 7, block_bytes);
        disk.poke(media_block * block_bytes, memory.bytes().first(block_bytes));
        Node& node = cores.home().cache.insert(key(0).view());
        EntryValue& entry = node.value.emplace<EntryValue>();
        entry.kind = EntryValue::Kind::array;
        entry.size = 2 * block_bytes;
        entry.map.set(
            0, {BlockAddress::make(0, media_block), crc32c(memory.bytes().first(block_bytes))});
        cores.home().cache.charge(node);
    }
    Task<object::FetchItem> fetch(object::Extent extent, uint64_t room = 0) {
        Report report;
        auto device = co_await device::SimDevice::open(world.core(), disk, report);
        cores.home().devices = {device->get()};
        object::FetchItem item{.object = {1, 1},
                               .dkey = {"d"},
                               .akey = {"a"},
                               .extent = extent,
                               .window = object::Window::local(memory.bytes().first(extent.length)),
                               .room = room};
        EXPECT_TRUE(co_await reader.fetch({}, readable, {&item, 1}));
        co_await (*device)->close();
        co_return item;
    }

    static KeyBuilder key(uint32_t segment) {
        return entry_key(readable, {1, 1}, "d", "a", segment);
    }
    EntryValue& head() {
        return std::get<EntryValue>(cores.home().cache.find(key(0).view())->value);
    }
    // While the fetch loads segment 1.
    Task<> grow(uint64_t size, object::Epoch epoch) {
        for (int i = 0; i < 1000 && !has_grown; ++i) {
            const Node* const node = cores.home().cache.find(key(1).view());
            if (node != nullptr && node->loading) {
                head().size = size;
                head().epoch = epoch;
                has_grown = true;
            }
            co_await sleep_for(world.core(), std::chrono::microseconds(1));
        }
    }
    Task<object::FetchItem> fetch_and_grow(object::Extent extent, uint64_t size,
                                           object::Epoch epoch) {
        object::FetchItem item;
        Nursery nursery(world.core(), 2);
        co_await nursery.spawn(
            [](Shelf& shelf, object::Extent wanted, object::FetchItem& into) -> Task<> {
                into = co_await shelf.fetch(wanted);
            }(*this, extent, item));
        co_await nursery.spawn(grow(size, epoch));
        co_await nursery.join();
        co_return item;
    }

    sim::World world{1};
    Environment env{world.core(), world.blocking()};
    device::SimDisk disk{world.random(), {.size = 1 << 20}, "disk"};
    OrderedMapMedium medium;
    std::unique_ptr<Index> index = medium.open();
    State state{RepliesOptions{}};
    Cores cores{env, *index, 1, {}};
    Publisher publisher{env, cores, state};
    object::PinTable pins;
    object::LockTable locks{pins};
    object::LeaseTable leases{env.reactor, pins};
    const EngineOptions options{};
    AwaitedClients awaited{env.reactor};
    PinHolders holders{env, options, pins, locks, awaited};
    Reader reader{cores, state, publisher, pins, locks, leases, holders};
    AlignedBuffer memory{4 * block_bytes};
    int reads_ended = 0;
    bool has_grown = false;
};

TEST(EngineReader, BlockIsReadAndHoleIsZero) {
    Shelf shelf;
    const auto item = shelf.world.run(shelf.fetch({0, 2 * block_bytes}));
    EXPECT_TRUE(item.status);
    EXPECT_EQ(item.size, 2 * block_bytes);
    EXPECT_EQ(shelf.memory.bytes()[block_bytes - 1], std::byte{7});
    EXPECT_EQ(shelf.memory.bytes()[block_bytes], std::byte{0});
    EXPECT_EQ(shelf.reads_ended, 1);
}

TEST(EngineReader, MismatchingBlockIsCorrupt) {
    Shelf shelf;
    const AlignedBuffer other(block_bytes);
    std::memset(other.data(), 8, block_bytes);
    shelf.disk.poke(media_block * block_bytes, other.bytes());
    const auto item = shelf.world.run(shelf.fetch({0, block_bytes}));
    EXPECT_EQ(item.status, Result<>(fail(Code::corrupt, block_bytes)));
    EXPECT_EQ(shelf.cores.home().metrics.fetch_rereads.value(), 1U);
    EXPECT_TRUE(item.checksums.empty());
}

TEST(EngineReader, PartOfABlockIsReadAsAWholeIfThereIsRoom) {
    constexpr uint64_t part = 100;
    for (const uint64_t room : {block_bytes - part - 1, block_bytes - part}) {
        Shelf shelf;
        std::memset(shelf.memory.data(), 9, shelf.memory.bytes().size());
        const auto item = shelf.world.run(shelf.fetch({0, part}, room));
        EXPECT_TRUE(item.status);
        EXPECT_EQ(shelf.memory.bytes()[part - 1], std::byte{7});
        EXPECT_EQ(shelf.memory.bytes()[block_bytes], std::byte{9});
        ASSERT_EQ(item.checksums.size(), 1U);
        EXPECT_EQ(item.checksums[0], crc32c(shelf.memory.bytes().first(part)));
        const bool is_whole = room == block_bytes - part;
        EXPECT_EQ(shelf.cores.home().metrics.fetch_bounced.value(), is_whole ? 0U : 1U);
        EXPECT_EQ(shelf.memory.bytes()[part], std::byte{is_whole ? uint8_t{7} : uint8_t{9}});
        const AlignedBuffer other(block_bytes);
        shelf.disk.poke(media_block * block_bytes, other.bytes());
        EXPECT_EQ(shelf.world.run(shelf.fetch({0, part}, room)).status.error().code, Code::corrupt);
    }
}

// Even if the extent is not in the segment that has them.
TEST(EngineReader, SizeAndEpochMatchTheBlocks) {
    constexpr uint64_t segment_bytes = segment_blocks * block_bytes;
    Shelf shelf;
    shelf.head().size = segment_bytes + 100;
    // It answers every second question at once. Then there is no moment to grow in.
    EXPECT_TRUE(shelf.index->get_cached("").has_value());
    const auto item = shelf.world.run(shelf.fetch_and_grow(
        {segment_bytes, block_bytes}, segment_bytes + block_bytes, object::Epoch{9}));
    EXPECT_TRUE(shelf.has_grown);
    EXPECT_TRUE(item.status);
    EXPECT_EQ(item.size, segment_bytes + block_bytes);
    EXPECT_EQ(item.epoch, object::Epoch{9});
}

}  // namespace
}  // namespace ros2s::engine
