#include <gtest/gtest.h>

#include <cerrno>
#include <set>

#include "ros2s/device/sim/sim_device.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/sim/co_test.h"

namespace ros2s::device {
namespace {

AlignedBuffer filled(uint8_t value, size_t blocks = 1) {
    AlignedBuffer buffer(blocks * block_bytes);
    std::memset(buffer.data(), value, buffer.size());
    return buffer;
}
uint8_t first_byte(const SimDisk& disk, uint64_t block) {
    std::byte byte{};
    disk.peek(block * block_bytes, Bytes(&byte, 1));
    return static_cast<uint8_t>(byte);
}

Task<std::unique_ptr<BlockDevice>> open(Reactor& reactor, SimDisk& disk) {
    Report report;
    auto opened = co_await SimDevice::open(reactor, disk, report);
    EXPECT_TRUE(opened) << report.text();
    co_return std::move(*opened);
}
Task<> write_now(BlockDevice& device, uint64_t block, uint8_t value, Result<>* result = nullptr) {
    const auto buffer = filled(value);
    const auto written = co_await device.write(block * block_bytes, buffer.bytes());
    if (result != nullptr) *result = written;
}

// Writes 1s and flushes, then writes 2s without a flush, crashes, and reports the contents.
Task<> written_twice(Reactor& reactor, SimDisk& disk, uint64_t blocks) {
    auto device = co_await open(reactor, disk);
    for (uint64_t i = 0; i < blocks; ++i) co_await write_now(*device, i, 1);
    EXPECT_TRUE(co_await device->flush());
    for (uint64_t i = 0; i < blocks; ++i) co_await write_now(*device, i, 2);
    EXPECT_EQ(disk.unflushed_writes(), blocks);
    disk.power_loss();
    Result<> late;
    co_await write_now(*device, 0, 3, &late);
    EXPECT_EQ(late.error().os_errno, EIO);
    co_await device->close();
}
TEST(SimDisk, PowerLossKeepsFlushedAndPartOfTheRest) {
    std::set<uint64_t> survivor_counts;
    for (uint64_t seed = 0; seed < 60; ++seed) {
        sim::World world(seed);
        SimDisk disk(world.random(), {.torn_sectors = false});
        world.run(written_twice(world.core(), disk, 16));
        uint64_t survivors = 0;
        for (uint64_t i = 0; i < 16; ++i) {
            const auto found = first_byte(disk, i);
            EXPECT_TRUE(found == 1 || found == 2) << seed;
            survivors += found == 2 ? 1 : 0;
        }
        survivor_counts.insert(survivors);
    }
    // All, none and shares between were observed.
    EXPECT_TRUE(survivor_counts.contains(0) && survivor_counts.contains(16));
    EXPECT_GT(survivor_counts.size(), 5U);
}
// The contents of 1s and 2s after a power loss in the middle of a write, by 8-byte words.
Task<> torn_write(Reactor& reactor, SimDisk& disk) {
    auto device = co_await open(reactor, disk);
    co_await write_now(*device, 0, 1);
    Nursery writes(reactor, 1);
    co_await writes.spawn([](BlockDevice& onto) -> Task<> {
        Result<> cut;
        co_await write_now(onto, 0, 2, &cut);
        EXPECT_EQ(cut.error().os_errno, EIO);
    }(*device));
    disk.power_loss();
    co_await writes.join();
    co_await device->close();
}
TEST(SimDisk, MemoryKeepsCompleteWritesAndTearsOthers) {
    size_t torn_lines = 0;
    for (uint64_t seed = 0; seed < 60; ++seed) {
        sim::World world(seed);
        SimDisk disk(world.random(), {.memory = true});
        world.run(torn_write(world.core(), disk));
        auto block = filled(0);
        disk.peek(0, block.bytes());
        std::array<uint64_t, block_bytes / 8> words{};
        std::memcpy(words.data(), block.data(), block_bytes);
        for (size_t line = 0; line < words.size(); line += 8) {
            const std::set<uint64_t> found(words.begin() + line, words.begin() + line + 8);
            for (const uint64_t word : found) {
                EXPECT_TRUE(word == 0x0101010101010101 || word == 0x0202020202020202) << seed;
            }
            torn_lines += found.size() > 1 ? 1 : 0;
        }
    }
    EXPECT_GT(torn_lines, 5U);
}
TEST(SimDisk, PowerLossTearsSectors) {
    size_t torn = 0;
    for (uint64_t seed = 0; seed < 60; ++seed) {
        sim::World world(seed);
        SimDisk disk(world.random(), {});
        world.run(written_twice(world.core(), disk, 4));
        for (uint64_t i = 0; i < 4; ++i) {
            auto block = filled(0);
            disk.peek(i * block_bytes, block.bytes());
            std::set<std::byte> values(block.bytes().begin(), block.bytes().end());
            torn += values.size() > 1 ? 1 : 0;
        }
    }
    EXPECT_GT(torn, 5U);
}

Task<> killed_with_writes_in_flight(Reactor& reactor, SimDisk& disk) {
    auto device = co_await open(reactor, disk);
    co_await write_now(*device, 0, 1);
    Nursery nursery(reactor, 8);
    Result<> interrupted[8];
    for (uint64_t i = 0; i < 8; ++i) {
        co_await nursery.spawn(write_now(*device, i + 1, 2, &interrupted[i]));
    }
    EXPECT_EQ(disk.writes_in_flight(), 8U);
    disk.process_crash();
    co_await nursery.join();
    for (const auto& result : interrupted) EXPECT_FALSE(result);
    co_await device->close();

    EXPECT_EQ(first_byte(disk, 0), 1);
    auto again = co_await open(reactor, disk);
    EXPECT_TRUE(co_await again->flush());
    disk.power_loss();
    EXPECT_EQ(first_byte(disk, 0), 1);
    co_await again->close();
}
TEST(SimDisk, ProcessCrashKeepsCompletedWrites) {
    for (uint64_t seed = 0; seed < 20; ++seed) {
        sim::World world(seed);
        SimDisk disk(world.random(), {});
        world.run(killed_with_writes_in_flight(world.core(), disk));
    }
}

Task<> flush_started_before_the_write_completed(Reactor& reactor, SimDisk& disk, bool& lost) {
    auto device = co_await open(reactor, disk);
    co_await write_now(*device, 0, 1);
    Nursery nursery(reactor, 1);
    co_await nursery.spawn(write_now(*device, 1, 1));
    EXPECT_TRUE(co_await device->flush());
    co_await nursery.join();
    disk.power_loss();
    EXPECT_EQ(first_byte(disk, 0), 1);
    lost = first_byte(disk, 1) == 0;
    co_await device->close();
}
TEST(SimDisk, FlushCoversOnlyCompletedWrites) {
    size_t losses = 0;
    for (uint64_t seed = 0; seed < 30; ++seed) {
        sim::World world(seed);
        SimDisk disk(world.random(), {});
        bool lost = false;
        world.run(flush_started_before_the_write_completed(world.core(), disk, lost));
        losses += lost ? 1 : 0;
    }
    EXPECT_GT(losses, 0U);
    EXPECT_LT(losses, 30U);
}

Task<> with_faults(Reactor& reactor, SimDisk& disk, SimFault& next) {
    auto device = co_await open(reactor, disk);
    next = SimFault::lost;
    Result<> result;
    co_await write_now(*device, 0, 1, &result);
    EXPECT_TRUE(result);
    EXPECT_EQ(first_byte(disk, 0), 0);

    next = SimFault::misdirected;
    co_await write_now(*device, 1, 2, &result);
    EXPECT_TRUE(result);
    EXPECT_EQ(first_byte(disk, 1), 0);

    next = SimFault::rotten;
    co_await write_now(*device, 2, 3, &result);
    EXPECT_TRUE(result);
    auto found = filled(0);
    const auto clean = filled(3);
    disk.peek(2 * block_bytes, found.bytes());
    EXPECT_NE(std::memcmp(found.data(), clean.data(), block_bytes), 0);

    next = SimFault::error;
    EXPECT_EQ((co_await device->read(0, found.bytes())).error().os_errno, EIO);
    next = SimFault::none;
    co_await write_now(*device, 3, 4);
    next = SimFault::rotten;
    EXPECT_TRUE(co_await device->read(3 * block_bytes, found.bytes()));
    const auto four = filled(4);
    EXPECT_NE(std::memcmp(found.data(), four.data(), block_bytes), 0);

    next = SimFault::slow;
    const Time before = reactor.now();
    EXPECT_TRUE(co_await device->read(0, found.bytes()));
    EXPECT_EQ(reactor.now() - before, std::chrono::milliseconds(10));
    EXPECT_EQ(device->counters().errors.value(), 1U);
    co_await device->close();
}
TEST(SimDisk, FaultOfTheHookIsInjected) {
    sim::World world(1);
    SimDisk disk(world.random(), {});
    SimFault next = SimFault::none;
    std::vector<SimOperation> seen;
    disk.set_hook([&](const SimOperation& operation) {
        seen.push_back(operation);
        return next;
    });
    world.run(with_faults(world.core(), disk, next));
    ASSERT_EQ(seen.size(), 7U);
    EXPECT_EQ(disk.operations(), 7U);
    EXPECT_EQ(seen[1].kind, SimKind::write);
    EXPECT_EQ(seen[1].writes_in_flight, 1U);
    EXPECT_EQ(seen[6].kind, SimKind::read);
    EXPECT_EQ(seen[6].index, 6U);
    EXPECT_EQ(seen[6].unflushed_writes,
              3U);  // misdirected, rotten and clean; the lost one never
}

Task<> flush_fails_once(Reactor& reactor, SimDisk& disk, SimFault& next, size_t& lost) {
    auto device = co_await open(reactor, disk);
    for (uint64_t i = 0; i < 16; ++i) co_await write_now(*device, i, 1);
    next = SimFault::error;
    EXPECT_FALSE(co_await device->flush());
    next = SimFault::none;
    EXPECT_TRUE(co_await device->flush());
    for (uint64_t i = 0; i < 16; ++i) EXPECT_EQ(first_byte(disk, i), 1);
    // Data written and flushed again are durable, also on blocks that were given up.
    co_await write_now(*device, 15, 2);
    EXPECT_TRUE(co_await device->flush());
    EXPECT_EQ(first_byte(disk, 15), 2);
    disk.power_loss();
    EXPECT_EQ(first_byte(disk, 15), 2);
    for (uint64_t i = 0; i < 16; ++i) lost += first_byte(disk, i) == 0 ? 1 : 0;
    co_await device->close();
}
TEST(SimDisk, SecondFlushDoesNotRepairAFailedOne) {
    size_t lost = 0;
    for (uint64_t seed = 0; seed < 10; ++seed) {
        sim::World world(seed);
        SimDisk disk(world.random(), {});
        SimFault next = SimFault::none;
        disk.set_hook([&](const SimOperation&) { return next; });
        world.run(flush_fails_once(world.core(), disk, next, lost));
    }
    EXPECT_GT(lost, 0U);
}

CO_TEST(SimDisk, CrashHappensAtTheChosenOperation, sim::World, world, 3) {
    SimDisk disk(world.random(), {});
    disk.set_hook([&](const SimOperation& operation) {
        if (operation.index == 3) disk.power_loss();
        return SimFault::none;
    });
    Reactor& reactor = world.core();
    auto device = co_await open(reactor, disk);
    for (uint64_t i = 0; i < 5; ++i) {
        Result<> result;
        co_await write_now(*device, i, 1, &result);
        EXPECT_EQ(result.has_value(), i < 3);
    }
    EXPECT_FALSE(co_await device->flush());
    co_await device->close();
    auto again = co_await open(reactor, disk);
    auto block = filled(0);
    EXPECT_TRUE(co_await again->read(0, block.bytes()));
    co_await again->close();
    // Frozen operations are not counted: 4 writes and the read.
    EXPECT_EQ(disk.operations(), 5U);
}

CO_TEST(SimDevice, SecondOpeningIsRefused, sim::World, world, 1) {
    SimDisk disk(world.random(), {});
    Reactor& reactor = world.core();
    auto device = co_await open(reactor, disk);
    Report report;
    const auto second = co_await SimDevice::open(reactor, disk, report);
    EXPECT_EQ(second.error().code, Code::busy);
    co_await device->close();
    auto third = co_await open(reactor, disk);
    co_await third->close();
}

}  // namespace
}  // namespace ros2s::device
