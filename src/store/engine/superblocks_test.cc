// Superblocks: which devices belong together, and the effects of crashes and old copies on that.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/sim/co_test.h"
#include "test_support/pool.h"

namespace ros2s::engine {
namespace {

using Pool = PoolBench;

// Leaves the devices' superblocks as after a crash when only the new device's is written.
Task<> grow_half(Pool& pool) {
    co_await pool.start();
    EXPECT_OK(co_await pool.write(0, 4, 5));
    pool.add_disk(4 << 20);
    AlignedBuffer old(block_bytes), fresh(block_bytes);
    pool.disks[0]->peek(0, old.bytes());
    bool seen = false;
    pool.disks[0]->set_hook([&](const device::SimOperation& operation) {
        if (!seen && operation.kind == device::SimKind::write) {
            pool.disks[1]->peek(0, fresh.bytes());
            seen = true;
        }
        return device::SimFault::none;
    });
    auto device = co_await pool.device(1);
    EXPECT_OK(co_await pool.store->grow(std::move(*device), pool.report));
    pool.disks[0]->set_hook({});
    EXPECT_OK(co_await pool.close());
    for (const auto& [disk, block] : {std::pair{0, &old}, std::pair{1, &fresh}}) {
        pool.disks[disk]->poke(0, block->bytes());
        pool.disks[disk]->poke(pool.disks[disk]->size() - block_bytes, block->bytes());
    }
}
CO_TEST(Superblocks, MissingDeviceAfterInterruptedGrowthIsReported, Pool, pool, 1, 1, 4 << 20) {
    co_await grow_half(pool);
    EXPECT_OK(co_await pool.open());
    EXPECT_OK(co_await pool.expect(0, 4, 5));
    for (uint64_t dkey = 1; dkey < 20; ++dkey) EXPECT_OK(co_await pool.write(dkey, 16, 6));
    EXPECT_OK(co_await pool.close());
    auto second = std::move(pool.disks[1]);
    pool.disks.pop_back();
    const auto opened = co_await pool.open();
    EXPECT_FALSE(opened.has_value());
    EXPECT_THAT(pool.report.text(), testing::HasSubstr("missing: device-1"));
    pool.disks.push_back(std::move(second));
    EXPECT_OK(co_await pool.open());
    EXPECT_OK(co_await pool.close());
}

CO_TEST(Superblocks, DamagedCopyIsRewritten, Pool, pool, 1, 2, 4 << 20) {
    co_await pool.start();
    EXPECT_OK(co_await pool.write(0, 4, 5));
    EXPECT_OK(co_await pool.close());
    for (const uint64_t at : {uint64_t{0}, pool.disks[1]->size() - block_bytes, uint64_t{0}}) {
        pool.disks[1]->rot(at + 100);
        EXPECT_OK(co_await pool.open());
        EXPECT_OK(co_await pool.expect(0, 4, 5));
        EXPECT_OK(co_await pool.close());
    }
}

AlignedBuffer image_of(const device::SimDisk& disk) {
    AlignedBuffer image(disk.size());
    disk.peek(0, image.bytes());
    return image;
}

// The copy is taken while the pool is closed, or while it is open.
Task<> restore_an_old_copy(Pool& pool, bool closed) {
    co_await pool.start();
    EXPECT_OK(co_await pool.write(0, 8, 1));
    if (closed) EXPECT_OK(co_await pool.close());
    std::vector<AlignedBuffer> copies;
    for (const auto& disk : pool.disks) copies.push_back(image_of(*disk));
    if (closed) EXPECT_OK(co_await pool.open());
    EXPECT_OK(co_await pool.write(0, 8, 2));
    EXPECT_OK(co_await pool.close());
    for (size_t i = 0; i < pool.disks.size(); ++i) {
        const AlignedBuffer present = image_of(*pool.disks[i]);
        pool.disks[i]->poke(0, copies[i].bytes());
        const Result<> opened = co_await pool.open();
        EXPECT_FALSE(opened.has_value()) << i;
        EXPECT_THAT(pool.report.text(),
                    testing::HasSubstr(pool.disks[i]->name() + " is device " + std::to_string(i)));
        EXPECT_THAT(pool.report.text(), testing::HasSubstr("restored from an old copy"));
        if (opened) EXPECT_OK(co_await pool.close());
        pool.disks[i]->poke(0, present.bytes());
    }
    EXPECT_OK(co_await pool.open());
    EXPECT_OK(co_await pool.expect(0, 8, 2));
    EXPECT_OK(co_await pool.close());
}
TEST(Superblocks, DeviceFromOldCopyIsRefused) {
    for (const bool closed : {true, false}) {
        Pool pool(1, 3, 4 << 20);
        pool.world.run(restore_an_old_copy(pool, closed));
    }
}

// Power is lost at one operation after another of an opening, or of a closing. Whichever
// superblocks it had written, the devices fit together.
Task<> interrupt(Pool& pool, bool closing) {
    co_await pool.start();
    EXPECT_OK(co_await pool.write(0, 8, 1));
    EXPECT_OK(co_await pool.close());
    bool whole = false;
    for (uint64_t left = 0; !whole && left < 1000; ++left) {
        uint64_t operations = 0;
        bool lost = false;
        if (closing) EXPECT_OK(co_await pool.open());
        for (const auto& disk : pool.disks) {
            disk->set_hook([&](const device::SimOperation&) {
                if (lost || operations++ < left) return device::SimFault::none;
                lost = true;
                for (const auto& each : pool.disks) each->power_loss();
                return device::SimFault::none;
            });
        }
        const Result<> opened = closing ? Result<>() : co_await pool.open();
        if (!closing) whole = !lost;
        if (opened) {
            (void)co_await pool.close();
        }
        if (closing) whole = !lost;
        for (const auto& disk : pool.disks) disk->set_hook({});
        EXPECT_OK(co_await pool.open());
        EXPECT_OK(co_await pool.expect(0, 8, 1));
        EXPECT_OK(co_await pool.close());
    }
    EXPECT_TRUE(whole);
}
TEST(Superblocks, InterruptedOpeningIsRecovered) {
    Pool pool(1, 3, 4 << 20);
    pool.world.run(interrupt(pool, false));
}
TEST(Superblocks, InterruptedClosingIsRecovered) {
    Pool pool(1, 3, 4 << 20);
    pool.world.run(interrupt(pool, true));
}

device::DeviceIdentity namespace_with(uint8_t last) {
    device::DeviceIdentity identity{.kind = device::DeviceIdentity::Kind::eui64};
    identity.bytes[7] = last;
    return identity;
}

CO_TEST(Superblocks, CopiedDeviceIsRefused, Pool, pool, 1, 2, 4 << 20) {
    pool.disks[1]->identity = namespace_with(1);
    co_await pool.start();
    EXPECT_OK(co_await pool.write(0, 4, 5));
    EXPECT_OK(co_await pool.close());
    // A file, for example an image of it, does not count as another medium.
    pool.disks[1]->identity = {};
    EXPECT_OK(co_await pool.open());
    EXPECT_OK(co_await pool.close());
    pool.disks[1]->identity = namespace_with(2);
    const auto refused = co_await pool.open();
    EXPECT_EQ(refused.error().code, Code::invalid);
    EXPECT_THAT(pool.report.text(),
                testing::HasSubstr("device-1 is eui.0000000000000002, and device 1 of "));
    EXPECT_THAT(pool.report.text(), testing::HasSubstr("is eui.0000000000000001: it is a copy"));
    pool.options.accept_copies = true;
    EXPECT_OK(co_await pool.open());
    EXPECT_OK(co_await pool.close());
    // This is permanent: now the original counts as the copy.
    pool.options.accept_copies = false;
    EXPECT_OK(co_await pool.open());
    EXPECT_OK(co_await pool.expect(0, 4, 5));
    EXPECT_OK(co_await pool.close());
    pool.disks[1]->identity = namespace_with(1);
    EXPECT_EQ((co_await pool.open()).error().code, Code::invalid);
}

CO_TEST(Superblocks, ConcurrentGrowthsAreSerialized, Pool, pool, 1, 1, 4 << 20) {
    co_await pool.start();
    pool.add_disk(4 << 20);
    pool.add_disk(4 << 20);
    auto one = co_await pool.device(1);
    auto other = co_await pool.device(2);
    const auto grow = [](Pool& of, std::unique_ptr<device::BlockDevice> device) -> Task<> {
        Report report;
        EXPECT_OK(co_await of.store->grow(std::move(device), report));
    };
    Nursery nursery(pool.world.core(), 2);
    co_await nursery.spawn(grow(pool, std::move(*one)));
    co_await nursery.spawn(grow(pool, std::move(*other)));
    co_await nursery.join();
    for (uint64_t dkey = 0; dkey < 40; ++dkey) EXPECT_OK(co_await pool.write(dkey, 16, 7));
    EXPECT_OK(co_await pool.reopen());
    for (uint64_t dkey = 0; dkey < 40; ++dkey) EXPECT_OK(co_await pool.expect(dkey, 16, 7));
    EXPECT_OK(co_await pool.close());
}

// Otherwise cores would number the devices differently from each other or from the superblock.
CO_TEST(Superblocks, DeviceMissingOnOneCoreIsRefused, Pool, pool, 1, 1, 4 << 20, 2) {
    co_await pool.start();
    EXPECT_OK(co_await pool.write(0, 4, 7));
    for (int i = 0; i < 2; ++i) pool.add_disk(4 << 20);
    pool.disks[1]->one_handle = true;
    for (const Code expected : {Code::unsupported, Code::read_only}) {
        auto device = co_await pool.device(expected == Code::unsupported ? 1 : 2);
        EXPECT_EQ((co_await pool.store->grow(std::move(*device), pool.report)).error().code,
                  expected);
    }
    EXPECT_THAT(pool.store->read_only_reason(), testing::HasSubstr("open the pool again"));
    EXPECT_OK(co_await pool.close());
    pool.disks.resize(1);
    EXPECT_OK(co_await pool.open());
    EXPECT_OK(co_await pool.expect(0, 4, 7));
    EXPECT_OK(co_await pool.close());
}

Task<> grow_and_crash(Pool& pool, uint64_t at) {
    co_await pool.start();
    EXPECT_OK(co_await pool.write(0, 4, 5));
    pool.add_disk(4 << 20);
    auto device = co_await pool.device(1);
    uint64_t left = at;
    for (auto& disk : pool.disks) {
        disk->set_hook([&](const device::SimOperation&) {
            if (left-- == 0) {
                for (auto& each : pool.disks) each->power_loss();
                pool.index_medium.crash(pool.world.random());
            }
            return device::SimFault::none;
        });
    }
    static_cast<void>(co_await pool.store->grow(std::move(*device), pool.report));
    static_cast<void>(co_await pool.close());
    for (auto& disk : pool.disks) disk->set_hook(nullptr);
    // With both devices; or without the new one, as long as the old one does not name it.
    if (!co_await pool.open()) {
        pool.disks.pop_back();
        EXPECT_OK(co_await pool.open());
    }
    EXPECT_OK(co_await pool.expect(0, 4, 5));
    EXPECT_OK(co_await pool.write(1, 4, 6));
    EXPECT_OK(co_await pool.close());
    if (pool.disks.size() == 1) co_return;
    // After the pool was open with the new device, it cannot be opened without it.
    pool.disks.pop_back();
    const auto without = co_await pool.open();
    EXPECT_FALSE(without.has_value());
    if (without) EXPECT_OK(co_await pool.close());
}
TEST(Superblocks, CrashDuringGrowthLosesNothing) {
    for (uint64_t at = 0; at < 12; ++at) {
        Pool pool(at + 1, 1, 4 << 20);
        pool.world.run(grow_and_crash(pool, at));
    }
}

}  // namespace
}  // namespace ros2s::engine
