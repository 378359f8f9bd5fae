#include "partial_blocks.h"

#include <gtest/gtest.h>

#include <numeric>

#include "test_support/engine.h"

namespace ros2s::engine {
namespace {

constexpr size_t model_bytes = 6 * block_bytes;

// Arrays of six blocks, and what they must contain.
struct Arrays {
    using Kind = object::Operation::Kind;
    explicit Arrays(size_t cores) : bench(3, 2, 32 << 20, cores) {
        bench.disks[0]->set_hook(counts());
        bench.disks[1]->set_hook(counts());
    }
    device::SimDisk::Hook counts() {
        return [this](const device::SimOperation& operation) {
            if (operation.kind == device::SimKind::read) ++reads;
            return device::SimFault::none;
        };
    }
    Task<Result<>> begin() {
        ROS2S_CO_TRY(co_await bench.create());
        ROS2S_CO_TRY(co_await bench.open());
        ROS2S_CO_TRY_ASSIGN(const auto made,
                            co_await bench.store->create_container(bench.call, {.label = "c"}));
        container = made.id;
        co_return Result<>();
    }
    static object::Operation operation(Kind kind, uint64_t dkey, object::Extent extent) {
        return {.kind = kind,
                .object = {1, 2},
                .dkey = object::Dkey::integer(dkey),
                .akey = {"data"},
                .extent = extent};
    }
    Task<Result<>> update(object::Operation one) {
        object::Transaction transaction;
        transaction.operations.push_back(std::move(one));
        ROS2S_CO_TRY(co_await bench.store->update(bench.call, container, transaction));
        co_return Result<>();
    }
    Task<Result<>> write(uint64_t dkey, uint64_t offset, uint64_t length) {
        std::vector<std::byte> bytes(length);
        for (std::byte& byte : bytes) byte = static_cast<std::byte>(++written);
        std::string& content = contents[dkey];
        content.resize(std::max<size_t>(content.size(), offset + length));
        std::memcpy(content.data() + offset, bytes.data(), length);
        object::Operation one = operation(Kind::write, dkey, {offset, length});
        one.window = object::Window::local(std::span<const std::byte>(bytes));
        co_return co_await update(one);
    }
    Task<Result<>> punch(uint64_t dkey, uint64_t offset, uint64_t length) {
        std::string& content = contents[dkey];
        for (uint64_t i = offset; i < std::min<size_t>(content.size(), offset + length); ++i) {
            content[i] = 0;
        }
        co_return co_await update(operation(Kind::punch_extent, dkey, {offset, length}));
    }
    Task<Result<>> set_size(uint64_t dkey, uint64_t size) {
        contents[dkey].resize(size);
        object::Operation one = operation(Kind::set_size, dkey, {});
        one.size = size;
        co_return co_await update(one);
    }
    Task<Result<>> remove(uint64_t dkey) {
        contents[dkey].clear();
        co_return co_await update(operation(Kind::punch_dkey, dkey, {}));
    }
    Task<Result<>> compare(uint64_t dkey) {
        const std::string& content = contents[dkey];
        std::string found(model_bytes, '?');
        std::vector<object::FetchItem> items(1);
        items[0].object = {1, 2};
        items[0].dkey = object::Dkey::integer(dkey);
        items[0].akey = {"data"};
        items[0].extent = {0, model_bytes};
        items[0].window = object::Window::local(std::as_writable_bytes(std::span(found)));
        ROS2S_CO_TRY(co_await bench.store->fetch(bench.call, container, items));
        const bool is_absent = !items[0].status && items[0].status.error().code == Code::not_found;
        if (content.empty() && is_absent) co_return Result<>();
        EXPECT_TRUE(items[0].status) << describe(items[0].status.error());
        EXPECT_TRUE(found.starts_with(content)) << "dkey " << dkey;
        EXPECT_EQ(found.find_first_not_of('\0', content.size()), std::string::npos);
        co_return Result<>();
    }

    Bench bench;
    object::ContainerId container;
    std::map<uint64_t, std::string> contents;
    uint64_t reads = 0;
    uint8_t written = 0;
};

Task<Result<>> append(Arrays& arrays) {
    ROS2S_CO_TRY(co_await arrays.begin());
    const uint64_t before = arrays.reads;
    for (uint64_t offset = 0; offset + 100 <= model_bytes; offset += 100) {
        for (uint64_t dkey = 0; dkey < 3; ++dkey) {
            ROS2S_CO_TRY(co_await arrays.write(dkey, offset, 100));
        }
    }
    EXPECT_EQ(arrays.reads, before);
    for (uint64_t dkey = 0; dkey < 3; ++dkey) ROS2S_CO_TRY(co_await arrays.compare(dkey));
    co_return co_await arrays.bench.close();
}

TEST(PartialBlocks, SmallAppendsReadNothing) {
    for (const size_t cores : {1, 3}) {
        Arrays arrays(cores);
        const Result<> done = arrays.bench.world.run(append(arrays));
        EXPECT_TRUE(done) << describe(done.error()) << ": " << arrays.bench.report.text();
    }
}

Task<Result<>> change_at_random(Arrays& arrays) {
    ROS2S_CO_TRY(co_await arrays.begin());
    Random& random = arrays.bench.world.random();
    for (int step = 0; step < 3000; ++step) {
        const uint64_t dkey = random.below(3);
        const uint64_t offset = random.below(model_bytes - 1);
        const uint64_t most = model_bytes - offset;
        const uint64_t length =
            1 + random.below(std::min<uint64_t>(most, random.one_in(4) ? most : 600));
        switch (random.below(12)) {
            case 0: ROS2S_CO_TRY(co_await arrays.punch(dkey, offset, length)); break;
            case 1: ROS2S_CO_TRY(co_await arrays.set_size(dkey, offset)); break;
            case 2: ROS2S_CO_TRY(co_await arrays.remove(dkey)); break;
            case 3: {
                const uint64_t first = offset / block_bytes;
                ROS2S_CO_TRY(co_await arrays.write(dkey, first * block_bytes, block_bytes));
                break;
            }
            default: ROS2S_CO_TRY(co_await arrays.write(dkey, offset, length));
        }
        ROS2S_CO_TRY(co_await arrays.compare(dkey));
        if (random.one_in(200)) ROS2S_CO_TRY(co_await arrays.bench.reopen());
    }
    co_return co_await arrays.bench.close();
}

TEST(PartialBlocks, ChangesOfAnyKindLeaveNoOldBytes) {
    for (const size_t cores : {1, 3}) {
        Arrays arrays(cores);
        const Result<> done = arrays.bench.world.run(change_at_random(arrays));
        EXPECT_TRUE(done) << describe(done.error()) << ": " << arrays.bench.report.text();
    }
}

// A block of this byte, and its CRC.
AlignedBuffer block_of(int byte) {
    AlignedBuffer bytes(block_bytes);
    std::memset(bytes.data(), byte, block_bytes);
    return bytes;
}
uint32_t crc_of(int byte) { return crc32c(block_of(byte).bytes()); }

TEST(PartialBlocks, BlockWhoseBytesChangedElsewhereIsNotFound) {
    PartialBlocks blocks;
    blocks.add({1, 7}, block_of(5));
    EXPECT_EQ(blocks.take({1, 7}, crc_of(6)).size(), 0U);
    EXPECT_EQ(blocks.take({1, 7}, crc_of(5)).size(), 0U) << "it was taken out";
    blocks.add({1, 7}, block_of(5));
    blocks.drop({1, 3}, 4);
    EXPECT_EQ(blocks.take({2, 7}, crc_of(5)).size(), 0U);
    EXPECT_EQ(blocks.take({1, 7}, crc_of(5)).size(), block_bytes);
    blocks.add({1, 7}, block_of(5));
    blocks.drop({1, 3}, 5);
    EXPECT_EQ(blocks.take({1, 7}, crc_of(5)).size(), 0U);
}

TEST(PartialBlocks, OldestIsReplaced) {
    PartialBlocks blocks;
    for (uint64_t i = 0; i <= PartialBlocks::blocks_max; ++i) blocks.add({1, i}, block_of(0));
    EXPECT_EQ(blocks.take({1, 0}, crc_of(0)).size(), 0U);
    EXPECT_EQ(blocks.take({1, 1}, crc_of(0)).size(), block_bytes);
}

}  // namespace
}  // namespace ros2s::engine
