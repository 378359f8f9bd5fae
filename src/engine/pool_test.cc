// Pools as a whole: several devices, growth, memory, replies, shutdown, traces.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine_test_support.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/trace.h"

namespace ros2s::engine {
namespace {

#define EXPECT_OK(expression)                                          \
    do {                                                               \
        const auto& result_ = (expression);                            \
        EXPECT_TRUE(result_.has_value()) << describe(result_.error()); \
    } while (false)

struct Pool : Bench {
    using Bench::Bench;
    Task<> start() {
        EXPECT_OK(co_await create());
        EXPECT_OK(co_await open());
        const auto made = co_await store->create_container(call, {.label = "c"});
        EXPECT_OK(made);
        container = made->id;
    }
    Task<Result<object::Commit>> write(uint64_t dkey, uint64_t blocks, uint8_t fill,
                                       object::OperationId id = {}, bool is_new = false) {
        const AlignedBuffer buffer(blocks * block_bytes);
        std::memset(buffer.data(), fill, buffer.size());
        object::Transaction transaction{.id = id, .is_new = is_new};
        transaction.operations.push_back({.kind = object::Operation::Kind::write,
                                          .object = {1, 1},
                                          .dkey = object::Dkey::integer(dkey),
                                          .akey = {"a"},
                                          .extent = {0, buffer.size()},
                                          .window = object::Window::local(buffer.bytes())});
        co_return co_await store->update(call, container, transaction);
    }
    Task<Result<>> expect(uint64_t dkey, uint64_t blocks, uint8_t fill) {
        const AlignedBuffer buffer(blocks * block_bytes);
        object::FetchItem item{.object = {1, 1},
                               .dkey = object::Dkey::integer(dkey),
                               .akey = {"a"},
                               .extent = {0, buffer.size()},
                               .window = object::Window::local(buffer.bytes())};
        ROS2S_CO_TRY(co_await store->fetch(call, container, {&item, 1}));
        if (!item.status) co_return item.status;
        for (const std::byte b : buffer.bytes()) {
            if (b != std::byte{fill}) co_return fail(Code::corrupt);
        }
        co_return Result<>();
    }
    uint64_t metric(std::string_view name) {
        uint64_t found = UINT64_MAX;
        store->visit_metrics([&](std::string_view n, std::string_view, uint64_t value) {
            if (n == name) found = value;
        });
        EXPECT_NE(found, UINT64_MAX) << name;
        return found;
    }
    object::ContainerId container{};
};

// ---- groups --------------------------------------------------------------------------------

Task<> write_into(Pool& pool, uint64_t dkey, uint64_t blocks) {
    EXPECT_OK(co_await pool.write(dkey, blocks, 7));
}

// Two writes of so many blocks, the second when the first one's record is on its way. What was on
// its way before the first flush?
struct BeforeTheFlush {
    uint64_t data_blocks = 0;
    uint64_t records = 0;
    friend bool operator==(const BeforeTheFlush&, const BeforeTheFlush&) = default;
};
Task<BeforeTheFlush> before_the_flush(Pool& pool, uint64_t blocks) {
    co_await pool.start();
    for (uint64_t dkey : {1, 2}) co_await write_into(pool, dkey, blocks);  // to be in memory
    const uint64_t journal_end = (3 * block_bytes) + pool.create_options.journal_bytes;
    BeforeTheFlush seen;
    bool flushed = false;
    pool.disks[0]->set_hook([&](const device::SimOperation& operation) {
        flushed = flushed || operation.kind == device::SimKind::flush;
        if (flushed || operation.kind != device::SimKind::write) return device::SimFault::none;
        if (operation.offset < journal_end) {
            ++seen.records;
        } else {
            seen.data_blocks += operation.length / block_bytes;
        }
        return device::SimFault::none;
    });
    {
        Nursery nursery(pool.env.reactor, 2);
        co_await nursery.spawn(write_into(pool, 1, blocks));
        while (seen.records == 0) {
            co_await sleep_for(pool.env.reactor, std::chrono::microseconds(1));
        }
        co_await nursery.spawn(write_into(pool, 2, blocks));
        co_await nursery.join();
    }
    pool.disks[0]->set_hook({});
    const BeforeTheFlush before = seen;
    EXPECT_OK(co_await pool.expect(1, blocks, 7));
    EXPECT_OK(co_await pool.expect(2, blocks, 7));
    EXPECT_OK(co_await pool.close());
    co_return before;
}

TEST(Pool, ASmallGroupWaitsForTheOneBeforeAndALargeOneDoesNot) {
    constexpr uint64_t large = (1 << 20) / block_bytes;
    Pool small(1);
    EXPECT_EQ(small.world.run(before_the_flush(small, large - 1)).records, 1U);
    Pool both(1);
    EXPECT_EQ(both.world.run(before_the_flush(both, large)), (BeforeTheFlush{2 * large, 2}));
}

// Its record and its flush wait for the group before; its data need not.
TEST(Pool, DataOfAGroupAreWrittenWhileItGrows) {
    Pool a_run_worth_a_write(1);
    EXPECT_EQ(a_run_worth_a_write.world.run(before_the_flush(a_run_worth_a_write, 16)),
              (BeforeTheFlush{32, 1}));
    Pool less(1);
    EXPECT_EQ(less.world.run(before_the_flush(less, 15)), (BeforeTheFlush{15, 1}));
}

// The flush of the group before fails while a slow device still reads the memory of the open one.
Task<> write_failing(Pool& pool, uint64_t dkey, uint64_t blocks) {
    EXPECT_FALSE((co_await pool.write(dkey, blocks, 8)).has_value());
}
Task<> fail_while_growing(Pool& pool) {
    co_await pool.start();
    for (uint64_t dkey : {1, 2}) co_await write_into(pool, dkey, 16);  // to be in memory
    const uint64_t journal_end = (3 * block_bytes) + pool.create_options.journal_bytes;
    uint64_t records = 0;
    uint64_t slow_writes = 0;
    pool.disks[0]->set_hook([&](const device::SimOperation& operation) {
        if (operation.kind == device::SimKind::flush) return device::SimFault::error;
        if (operation.kind != device::SimKind::write) return device::SimFault::none;
        if (operation.offset < journal_end) ++records;
        if (operation.offset < journal_end || records == 0) return device::SimFault::none;
        ++slow_writes;
        return device::SimFault::slow;
    });
    {
        Nursery nursery(pool.env.reactor, 2);
        co_await nursery.spawn(write_failing(pool, 1, 16));
        while (records == 0) {
            co_await sleep_for(pool.env.reactor, std::chrono::microseconds(1));
        }
        co_await nursery.spawn(write_failing(pool, 2, 16));
        co_await nursery.join();
    }
    EXPECT_EQ(slow_writes, 1U);
    EXPECT_NE(pool.store->read_only_reason(), "");
    pool.disks[0]->set_hook({});
    EXPECT_OK(co_await pool.close());
}
TEST(Pool, AGroupThatFailsWhileItGrowsKeepsItsMemoryUntilItIsWritten) {
    Pool pool(1);
    pool.world.run(fail_while_growing(pool));
}

// ---- devices -------------------------------------------------------------------------------

Task<> spread(Pool& pool) {
    co_await pool.start();
    for (uint64_t dkey = 0; dkey < 64; ++dkey) EXPECT_OK(co_await pool.write(dkey, 4, 1));
    for (const device::BlockDevice* device : pool.store->devices()) {
        EXPECT_GT(device->counters().written_bytes.value(), 64 * 4 * block_bytes / 8);
    }
    EXPECT_OK(co_await pool.close());
}
TEST(Pool, DkeysAreSpreadOverTheDevices) {
    Pool pool(1, 4);
    pool.world.run(spread(pool));
}

Task<> fill_and_grow(Pool& pool) {
    co_await pool.start();
    uint64_t written = 0;
    Result<object::Commit> last;
    while ((last = co_await pool.write(written, 16, static_cast<uint8_t>(written)))) ++written;
    EXPECT_EQ(last.error().code, Code::no_space);
    EXPECT_EQ(pool.store->read_only_reason(), "");
    const auto before = *co_await pool.store->space(pool.call);
    pool.add_disk(8 << 20);
    auto device = co_await pool.device(1);
    EXPECT_OK(co_await pool.store->grow(std::move(*device), pool.report));
    const auto after = *co_await pool.store->space(pool.call);
    // Some are kept back.
    EXPECT_LT(after.total_bytes - before.total_bytes, (8 << 20) - 2 * block_bytes);
    EXPECT_GT(after.total_bytes - before.total_bytes, (8 << 20) - (8 << 20) / 32);
    for (uint64_t dkey = written; dkey < written + 40; ++dkey) {
        EXPECT_OK(co_await pool.write(dkey, 16, static_cast<uint8_t>(dkey)));
    }
    EXPECT_OK(co_await pool.reopen());
    for (uint64_t dkey = 0; dkey < written + 40; ++dkey) {
        EXPECT_OK(co_await pool.expect(dkey, 16, static_cast<uint8_t>(dkey)));
    }
    EXPECT_OK(co_await pool.close());
}
TEST(Pool, IsFullGrowsAndGoesOn) {
    Pool pool(1, 1, 4 << 20);
    pool.world.run(fill_and_grow(pool));
}

Task<Result<object::Commit>> change_array(Pool& pool, object::Operation operation) {
    operation.object = {1, 1};
    operation.akey = {"a"};
    object::Transaction transaction;
    transaction.operations.push_back(std::move(operation));
    co_return co_await pool.store->update(pool.call, pool.container, transaction);
}
Task<> free_a_full_pool(Pool& pool) {
    using Kind = object::Operation::Kind;
    co_await pool.start();
    uint64_t written = 0;
    for (const uint64_t blocks : {16, 1}) {
        Result<object::Commit> last;
        while ((last = co_await pool.write(written, blocks, 1))) ++written;
        EXPECT_EQ(last.error().code, Code::no_space);
    }
    const auto space = [&pool] { return pool.store->space(pool.call); };
    const auto full = *co_await space();
    EXPECT_EQ(full.free_bytes, 0U);
    EXPECT_OK(co_await change_array(
        pool, {.kind = Kind::set_size, .dkey = object::Dkey::integer(0), .size = 0}));
    EXPECT_OK(co_await change_array(pool, {.kind = Kind::punch_extent,
                                           .dkey = object::Dkey::integer(1),
                                           .extent = {block_bytes, 2 * block_bytes}}));
    for (int turns = 0; turns < 1000 && (*co_await space()).free_bytes < 18 * block_bytes;
         ++turns) {
        co_await sleep_for(pool.env.reactor, std::chrono::milliseconds(1));
    }
    EXPECT_EQ((*co_await space()).free_bytes, 18 * block_bytes);
    EXPECT_OK(co_await pool.write(written, 16, 2));
    EXPECT_OK(co_await pool.reopen());
    EXPECT_OK(co_await pool.expect(written, 16, 2));
    EXPECT_OK(co_await pool.close());
}
TEST(Pool, AFullOneIsFreedByWhatTakesNoBlock) {
    Pool pool(1, 1, 4 << 20);
    pool.world.run(free_a_full_pool(pool));
}

// Truncation within a block, and writing over what is there, in part and as a whole.
Task<> change_a_full_pool(Pool& pool) {
    using Kind = object::Operation::Kind;
    co_await pool.start();
    uint64_t written = 0;
    for (const uint64_t blocks : {16, 1}) {
        while (co_await pool.write(written, blocks, 1)) ++written;
    }
    const std::string some(1000, 'x');
    EXPECT_OK(co_await change_array(
        pool,
        {.kind = Kind::set_size, .dkey = object::Dkey::integer(0), .size = 16 * block_bytes - 5}));
    EXPECT_OK(co_await change_array(pool, {.kind = Kind::punch_extent,
                                           .dkey = object::Dkey::integer(1),
                                           .extent = {100, block_bytes}}));
    EXPECT_OK(co_await change_array(pool, {.kind = Kind::write,
                                           .dkey = object::Dkey::integer(2),
                                           .extent = {500, some.size()},
                                           .window = object::Window::local(as_bytes(some))}));
    for (int round = 0; round < 20; ++round) {
        Nursery nursery(pool.env.reactor, 8);
        for (uint64_t dkey = 3; dkey < 11; ++dkey) {
            co_await nursery.spawn(write_into(pool, dkey, 8));
        }
        co_await nursery.join();
    }
    // What makes it fuller is refused, and leaves nothing.
    const auto more =
        co_await change_array(pool, {.kind = Kind::write,
                                     .dkey = object::Dkey::integer(2),
                                     .extent = {16 * block_bytes - 10, some.size()},
                                     .window = object::Window::local(as_bytes(some))});
    EXPECT_FALSE(more);
    if (!more) EXPECT_EQ(more.error().code, Code::no_space);
    EXPECT_EQ((*co_await pool.store->space(pool.call)).free_bytes, 0U);
    EXPECT_OK(co_await pool.reopen());
    EXPECT_EQ((*co_await pool.store->space(pool.call)).free_bytes, 0U);
    EXPECT_OK(co_await pool.expect(10, 8, 7));
    EXPECT_OK(co_await pool.close());
}
TEST(Pool, AFullOneIsWrittenToInPlace) {
    Pool pool(1, 1, 4 << 20);
    pool.world.run(change_a_full_pool(pool));
}
TEST(Pool, AFullOneOfTwoDevicesIsWrittenToInPlace) {
    Pool pool(1, 2, 4 << 20);
    pool.world.run(change_a_full_pool(pool));
}

// Leaves the devices' superblocks as a crash does that comes when only the new one is written.
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
Task<> open_after_half_a_growth(Pool& pool) {
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
TEST(Pool, ADeviceInUseIsMissedAlsoWhereGrowingWasInterrupted) {
    Pool pool(1, 1, 4 << 20);
    pool.world.run(open_after_half_a_growth(pool));
}

Task<> lose_the_copies_in_turn(Pool& pool) {
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
TEST(Pool, ATornCopyOfASuperblockIsMadeAgain) {
    Pool pool(1, 2, 4 << 20);
    pool.world.run(lose_the_copies_in_turn(pool));
}

AlignedBuffer image_of(const device::SimDisk& disk) {
    AlignedBuffer image(disk.size());
    disk.peek(0, image.bytes());
    return image;
}

Task<> restore_an_old_copy(Pool& pool) {
    co_await pool.start();
    EXPECT_OK(co_await pool.write(0, 8, 1));
    EXPECT_OK(co_await pool.close());
    std::vector<AlignedBuffer> copies;
    for (const auto& disk : pool.disks) copies.push_back(image_of(*disk));
    EXPECT_OK(co_await pool.open());
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
TEST(Pool, ADeviceRestoredFromAnOldCopyIsRefused) {
    Pool pool(1, 3, 4 << 20);
    pool.world.run(restore_an_old_copy(pool));
}

// Power is lost at one operation after another of an opening: whichever superblocks it had written,
// the devices fit together.
Task<> interrupt_openings(Pool& pool) {
    co_await pool.start();
    EXPECT_OK(co_await pool.write(0, 8, 1));
    EXPECT_OK(co_await pool.close());
    bool whole = false;
    for (uint64_t left = 0; !whole && left < 1000; ++left) {
        uint64_t operations = 0;
        bool lost = false;
        for (const auto& disk : pool.disks) {
            disk->set_hook([&](const device::SimOperation&) {
                if (lost || operations++ < left) return device::SimFault::none;
                lost = true;
                for (const auto& each : pool.disks) each->power_loss();
                return device::SimFault::none;
            });
        }
        const Result<> opened = co_await pool.open();
        whole = !lost;
        if (opened) {
            (void)co_await pool.close();
        }
        for (const auto& disk : pool.disks) disk->set_hook({});
        EXPECT_OK(co_await pool.open());
        EXPECT_OK(co_await pool.expect(0, 8, 1));
        EXPECT_OK(co_await pool.close());
    }
    EXPECT_TRUE(whole);
}
TEST(Pool, AnOpeningMayEndAnywhere) {
    Pool pool(1, 3, 4 << 20);
    pool.world.run(interrupt_openings(pool));
}

device::DeviceIdentity namespace_with(uint8_t last) {
    device::DeviceIdentity identity{.kind = device::DeviceIdentity::Kind::eui64};
    identity.bytes[7] = last;
    return identity;
}

Task<> exchange_a_disk_for_a_copy(Pool& pool) {
    pool.disks[1]->identity = namespace_with(1);
    co_await pool.start();
    EXPECT_OK(co_await pool.write(0, 4, 5));
    EXPECT_OK(co_await pool.close());
    // A file, say an image of it, is no other medium.
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
    // For good: now the original is the copy.
    pool.options.accept_copies = false;
    EXPECT_OK(co_await pool.open());
    EXPECT_OK(co_await pool.expect(0, 4, 5));
    EXPECT_OK(co_await pool.close());
    pool.disks[1]->identity = namespace_with(1);
    EXPECT_EQ((co_await pool.open()).error().code, Code::invalid);
}
TEST(Pool, ACopyIsNotTakenForTheOriginal) {
    Pool pool(1, 2, 4 << 20);
    pool.world.run(exchange_a_disk_for_a_copy(pool));
}

Task<> grow_twice_at_once(Pool& pool) {
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
TEST(Pool, TwoGrowthsAtOnceGoOneByOne) {
    Pool pool(1, 1, 4 << 20);
    pool.world.run(grow_twice_at_once(pool));
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
    // With both devices, or, as long as the old one knows nothing of the new one, without it.
    if (!co_await pool.open()) {
        pool.disks.pop_back();
        EXPECT_OK(co_await pool.open());
    }
    EXPECT_OK(co_await pool.expect(0, 4, 5));
    EXPECT_OK(co_await pool.write(1, 4, 6));
    EXPECT_OK(co_await pool.close());
    if (pool.disks.size() == 1) co_return;
    // Once a pool was open with the new device, it is not without.
    pool.disks.pop_back();
    const auto without = co_await pool.open();
    EXPECT_FALSE(without.has_value());
    if (without) EXPECT_OK(co_await pool.close());
}
TEST(Pool, ACrashWhileGrowingLosesNothing) {
    for (uint64_t at = 0; at < 12; ++at) {
        Pool pool(at + 1, 1, 4 << 20);
        pool.world.run(grow_and_crash(pool, at));
    }
}

// ---- memory --------------------------------------------------------------------------------

Task<> put_many(Pool& pool, uint64_t first, uint64_t count, uint64_t& most) {
    const std::string text(3000, 'x');
    for (uint64_t i = first; i < first + count; ++i) {
        object::Transaction transaction;
        transaction.operations.push_back({.kind = object::Operation::Kind::put,
                                          .object = {2, i / 100},
                                          .dkey = object::Dkey::integer(i),
                                          .akey = {"v"},
                                          .window = object::Window::local(as_bytes(text))});
        const auto commit = co_await pool.store->update(pool.call, pool.container, transaction);
        EXPECT_OK(commit);
        most = std::max(most, pool.store->memory_bytes());
    }
}
Task<> ten_times_the_cap(Pool& pool) {
    co_await pool.start();
    constexpr uint64_t writers = 16, each = 900;
    uint64_t most = 0;
    {
        Nursery nursery(pool.world.core(), writers);
        for (uint64_t w = 0; w < writers; ++w) {
            co_await nursery.spawn(put_many(pool, w * each, each, most));
        }
        co_await nursery.join();
    }
    EXPECT_GT(writers * each * 3000, 10 * pool.options.memory_bytes);
    // All of them again, in an order that no cache likes.
    std::string text(3000, ' ');
    for (uint64_t i = 0; i < writers * each; ++i) {
        const uint64_t n = i * 7919 % (writers * each);
        object::FetchItem item{
            .object = {2, n / 100},
            .dkey = object::Dkey::integer(n),
            .akey = {"v"},
            .extent = {0, text.size()},
            .window = object::Window::local(std::as_writable_bytes(std::span(text)))};
        EXPECT_OK(co_await pool.store->fetch(pool.call, pool.container, {&item, 1}));
        EXPECT_OK(item.status);
        EXPECT_EQ(item.size, 3000U);
        most = std::max(most, pool.store->memory_bytes());
    }
    EXPECT_LE(most, pool.options.memory_bytes - pool.options.index_share());
    EXPECT_OK(co_await pool.close());
}
TEST(Pool, KeepsItsMemoryCapWithAnIndexTenTimesAsLarge) {
    Pool pool(1, 1, 48 << 20);
    pool.create_options.journal_bytes = 16 << 20;
    pool.options.memory_bytes = 4 << 20;
    pool.world.run(ten_times_the_cap(pool));
}

Task<> put_until_refused(Pool& pool, uint64_t first) {
    const std::string text(30000, 'x');
    for (uint64_t i = first;; ++i) {
        object::Transaction transaction;
        transaction.operations.push_back({.kind = object::Operation::Kind::put,
                                          .object = {2, 1},
                                          .dkey = object::Dkey::integer(i),
                                          .akey = {"v"},
                                          .window = object::Window::local(as_bytes(text))});
        if (!co_await pool.store->update(pool.call, pool.container, transaction)) co_return;
    }
}
Task<> dies_while_updates_wait(Pool& pool) {
    co_await pool.start();
    pool.disks[0]->set_hook([](const device::SimOperation& operation) {
        const bool slot = operation.offset == block_bytes || operation.offset == 2 * block_bytes;
        return slot ? device::SimFault::error : device::SimFault::none;
    });
    {
        Nursery nursery(pool.world.core(), 8);
        for (uint64_t w = 0; w < 8; ++w) {
            co_await nursery.spawn(put_until_refused(pool, w * 10000));
        }
        co_await nursery.join();
    }
    EXPECT_THAT(pool.store->read_only_reason(), testing::HasSubstr("checkpoint"));
    EXPECT_OK(co_await pool.close());
}
TEST(Pool, UpdatesThatWaitForACheckpointThatFailsAreRefused) {
    Pool pool(1);
    pool.options.memory_bytes = 4 << 20;
    pool.world.run(dies_while_updates_wait(pool));
}

// ---- replies (more in replies_test.cc) -------------------------------------------------------

Task<> replies(Pool& pool) {
    co_await pool.start();
    const Uuid client = Uuid::make(pool.world.secrets());
    const auto id = [&](uint32_t slot, uint64_t sequence) {
        return object::OperationId{client, slot, sequence, {}, 77};
    };
    const auto first = *co_await pool.write(0, 1, 1, id(0, 1));
    for (const bool crash : {false, true}) {
        if (crash) {
            EXPECT_OK(co_await pool.crash_and_open());
        } else {
            EXPECT_OK(co_await pool.reopen());
        }
        const auto again = *co_await pool.write(0, 1, 2, id(0, 1));
        EXPECT_TRUE(again.replayed);
        EXPECT_EQ(again.epoch, first.epoch);
        EXPECT_EQ(again.time, first.time);
        EXPECT_OK(co_await pool.expect(0, 1, 1));
    }
    EXPECT_FALSE((co_await pool.write(0, 1, 3, id(0, 2)))->replayed);
    EXPECT_EQ((co_await pool.write(0, 1, 3, id(0, 1))).error().code, Code::stale);
    EXPECT_OK(co_await pool.close());
}
TEST(Pool, RepeatedUpdatesGetTheStoredReplyAlsoAfterRestart) {
    Pool pool(1);
    pool.world.run(replies(pool));
}

// ---- shutdown, groups, traces --------------------------------------------------------------

Task<> clean_shutdown(Pool& pool) {
    co_await pool.start();
    for (uint64_t i = 0; i < 20; ++i) EXPECT_OK(co_await pool.write(i, 1, 1));
    EXPECT_OK(co_await pool.reopen());
    EXPECT_EQ(pool.store->replayed_groups(), 0U);
    EXPECT_OK(co_await pool.write(3, 1, 2));
    EXPECT_OK(co_await pool.crash_and_open());
    EXPECT_GT(pool.store->replayed_groups(), 0U);
    EXPECT_OK(co_await pool.expect(3, 1, 2));
    EXPECT_OK(co_await pool.close());
}
TEST(Pool, ACleanShutdownLeavesNothingToReplay) {
    Pool pool(1);
    pool.world.run(clean_shutdown(pool));
}

Task<> one_write(Pool& pool, uint64_t dkey) { EXPECT_OK(co_await pool.write(dkey, 1, 1)); }
Task<> groups(Pool& pool) {
    co_await pool.start();
    for (uint64_t i = 0; i < 32; ++i) EXPECT_OK(co_await pool.write(i, 1, 1));
    const uint64_t runs = pool.metric("ros2store_engine_runs_total");
    const uint64_t done = pool.metric("ros2store_engine_groups_total");
    const uint64_t flushes = pool.store->devices()[0]->counters().flushes.value();
    Nursery nursery(pool.world.core(), 32);
    for (uint64_t i = 0; i < 32; ++i) co_await nursery.spawn(one_write(pool, i));
    co_await nursery.join();
    // The first goes alone or in small company, the others together: one run and one flush each.
    EXPECT_LE(pool.metric("ros2store_engine_groups_total") - done, 3U);
    EXPECT_LE(pool.metric("ros2store_engine_runs_total") - runs, 3U);
    EXPECT_LE(pool.store->devices()[0]->counters().flushes.value() - flushes, 3U);
    EXPECT_EQ(pool.metric("ros2store_engine_inconsistencies_total"), 0U);
    EXPECT_OK(co_await pool.close());
}
TEST(Pool, RequestsSideBySideShareAGroupARunAndAFlush) {
    Pool pool(1);
    pool.world.run(groups(pool));
}

// A client that sends its next request a moment after the answer to the last, each its own moment.
Task<> closed_loop(Pool& pool, uint64_t client, int rounds) {
    for (int round = 0; round < rounds; ++round) {
        for (uint64_t i = 0; i < client; ++i) co_await yield(pool.world.core());
        EXPECT_OK(co_await pool.write(client, 1, 1));
    }
}
Task<> bursts(Pool& pool) {
    constexpr int rounds = 20;
    co_await pool.start();
    const uint64_t done = pool.metric("ros2store_engine_groups_total");
    Nursery nursery(pool.world.core(), 32);
    for (uint64_t i = 0; i < 32; ++i) co_await nursery.spawn(closed_loop(pool, i, rounds));
    co_await nursery.join();
    EXPECT_LE(pool.metric("ros2store_engine_groups_total") - done,
              rounds * 3 / 2);  // halves would make 40
    EXPECT_OK(co_await pool.close());
}
TEST(Pool, ClientsThatAnswerInABurstShareTheNextGroup) {
    Pool pool(1);
    pool.world.run(bursts(pool));
}

Task<> traced(Pool& pool) {
    co_await pool.start();
    Trace trace;
    pool.call.trace = &trace;
    EXPECT_OK(co_await pool.write(0, 1, 1));
    EXPECT_OK(co_await pool.expect(0, 1, 1));
    pool.call.trace = nullptr;
    std::vector<std::string> names;
    for (const TraceStep& step : trace.steps()) names.emplace_back(step.name);
    EXPECT_THAT(names, testing::ElementsAre("engine.update", "engine.lock", "engine.commit",
                                            "device.write", "journal.write", "device.flush",
                                            "engine.fetch", "device.read"));
    for (const TraceStep& step : trace.steps()) EXPECT_GE(step.end, step.begin) << step.name;
    EXPECT_GE(trace.steps()[5].begin, trace.steps()[3].end) << "the flush comes after the data";
    EXPECT_GE(trace.steps()[5].begin, trace.steps()[4].end) << "and after the record";
    EXPECT_OK(co_await pool.close());
}
TEST(Pool, ATraceNamesTheSteps) {
    Pool pool(1);
    pool.world.run(traced(pool));
}

Task<> destroyed(Pool& pool, uint64_t at) {
    co_await pool.start();
    const auto empty = *co_await pool.store->space(pool.call);
    for (uint64_t i = 0; i < 40; ++i) EXPECT_OK(co_await pool.write(i, 2, 1));
    uint64_t left = at;
    pool.disks[0]->set_hook([&](const device::SimOperation&) {
        if (left-- == 0) {
            pool.disks[0]->power_loss();
            pool.index_medium.crash(pool.world.random());
        }
        return device::SimFault::none;
    });
    const auto gone = co_await pool.store->destroy_container(pool.call, pool.container);
    static_cast<void>(co_await pool.close());
    pool.disks[0]->set_hook(nullptr);
    EXPECT_OK(co_await pool.open());
    EXPECT_OK(co_await pool.reopen());  // waits for what opening has resumed
    const auto containers = *co_await pool.store->list_containers(pool.call);
    const auto space = *co_await pool.store->space(pool.call);
    if (gone) EXPECT_TRUE(containers.empty());
    EXPECT_EQ(containers.empty(), space.free_bytes == empty.free_bytes);
    EXPECT_OK(co_await pool.close());
}
TEST(Pool, ADestroyedContainersSpaceComesBackAlsoAfterACrash) {
    for (uint64_t at = 0; at < 12; ++at) {
        Pool pool(at + 1, 1, 8 << 20);
        pool.world.run(destroyed(pool, at));
    }
}

}  // namespace
}  // namespace ros2s::engine
