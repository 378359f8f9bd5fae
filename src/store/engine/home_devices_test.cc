// Small transactions go to persistent memory, as long as it has room. Then no disk is used.
#include "home_devices.h"

#include <array>
#include <set>

#include "ros2s/object/test_support/batch.h"
#include "test_support/engine.h"

namespace ros2s::engine {
namespace {

std::set<uint32_t> homes_of(const HomeDevices& homes, uint64_t payload_bytes) {
    std::set<uint32_t> found;
    for (uint64_t segment = 0; segment < 100; ++segment) {
        found.insert(homes.home(payload_bytes, {1, 2}, "dkey", segment));
    }
    return found;
}

HomeDevices of(std::initializer_list<bool> devices) {
    HomeDevices homes;
    for (const bool is_memory : devices) homes = *homes.with_device(is_memory);
    return homes;
}

TEST(HomeDevices, SmallUpdatesGoToPmemAndLargeToDisk) {
    const HomeDevices homes = of({true, false, false, true});
    EXPECT_EQ(homes.devices(), 4U);
    EXPECT_EQ(homes_of(homes, 0), (std::set<uint32_t>{0, 3}));
    EXPECT_EQ(homes_of(homes, HomeDevices::small_bytes_max), (std::set<uint32_t>{0, 3}));
    EXPECT_EQ(homes_of(homes, HomeDevices::small_bytes_max + 1), (std::set<uint32_t>{1, 2}));
}

TEST(HomeDevices, DevicesOfOneKindTakeAllSizes) {
    for (const bool is_memory : {false, true}) {
        const HomeDevices homes = of({is_memory, is_memory, is_memory});
        for (const uint64_t bytes : {uint64_t{1}, uint64_t{1} << 20}) {
            EXPECT_EQ(homes_of(homes, bytes), (std::set<uint32_t>{0, 1, 2}));
        }
    }
}

// Small files have one chunk each, and all first chunks have the same dkey.
TEST(HomeDevices, ObjectsWithEqualDkeysAreSpread) {
    const HomeDevices homes = of({false, false, false, false});
    std::array<int, 4> count{};
    for (uint64_t low = 0; low < 1000; ++low) {
        ++count[homes.home(uint64_t{1} << 20, {7, low}, "dkey", 0)];
    }
    for (const int here : count) EXPECT_GT(here, 200);
}

// Memory, which has the journal, and a disk after it.
class MemoryAndDisk : public testing::Test {
  protected:
    MemoryAndDisk() : bench_(1, 0) {
        bench_.add_disk(uint64_t{4} << 20, true);
        bench_.add_disk(uint64_t{32} << 20);
    }

    Task<Result<>> open() {
        ROS2S_CO_TRY(co_await bench_.create());
        ROS2S_CO_TRY(co_await bench_.open());
        ROS2S_CO_TRY_ASSIGN(container_,
                            co_await bench_.store->create_container(bench_.call, {.label = "c"}));
        co_return Result<>();
    }
    Task<Result<>> write(uint64_t dkey, uint64_t bytes) {
        const AlignedBuffer buffer(bytes);
        std::memset(buffer.data(), static_cast<int>(1 + dkey % 255), bytes);
        object::Transaction transaction;
        transaction.operations.push_back({.kind = object::Operation::Kind::write,
                                          .object = {1, 1},
                                          .dkey = object::Dkey::integer(dkey),
                                          .akey = {"a"},
                                          .extent = {0, bytes},
                                          .window = object::Window::local(buffer.bytes())});
        ROS2S_CO_TRY(co_await bench_.store->update(bench_.call, container_.id, transaction));
        co_return Result<>();
    }
    // The first byte under the dkey.
    Task<Result<uint8_t>> first_byte(uint64_t dkey) {
        AlignedBuffer buffer(block_bytes);
        auto item =
            object::fetch_item({1, 1}, object::Dkey::integer(dkey), {"a"}, 0, buffer.bytes());
        ROS2S_CO_TRY(co_await bench_.store->fetch(bench_.call, container_.id, {&item, 1}));
        co_return static_cast<uint8_t>(buffer.bytes()[0]);
    }
    void run(Task<Result<>> task) {
        const auto done = bench_.world.run(std::move(task));
        EXPECT_TRUE(done) << describe(done.error()) << bench_.report.text();
    }
    uint64_t disk_operations() { return bench_.disks[1]->operations(); }

    Bench bench_;
    object::ContainerRecord container_;
};

TEST_F(MemoryAndDisk, SmallWriteStaysInMemory) {
    run(open());
    const uint64_t before = disk_operations();
    for (uint64_t i = 0; i < 100; ++i) run(write(i, block_bytes));
    EXPECT_EQ(disk_operations(), before);
    run(write(100, uint64_t{1} << 20));
    EXPECT_GT(disk_operations(), before);
    run(bench_.crash_and_open());
    for (uint64_t i = 0; i <= 100; ++i) {
        const auto found = bench_.world.run(first_byte(i));
        ASSERT_TRUE(found) << i;
        EXPECT_EQ(*found, 1 + i % 255);
    }
    run(bench_.close());
}

TEST_F(MemoryAndDisk, FullMemorySendsSmallWritesToDisk) {
    run(open());
    const uint64_t before = disk_operations();
    constexpr uint64_t more_than_memory = 1200;
    for (uint64_t i = 0; i < more_than_memory; ++i) run(write(i, block_bytes));
    EXPECT_GT(disk_operations(), before);
    for (uint64_t i = 0; i < more_than_memory; i += 100) {
        const auto found = bench_.world.run(first_byte(i));
        ASSERT_TRUE(found) << i;
        EXPECT_EQ(*found, 1 + i % 255);
    }
    run(bench_.close());
}

}  // namespace
}  // namespace ros2s::engine
