// Discards (TRIM): which blocks are discarded, when they are reused, and the effects of an error.
#include <gtest/gtest.h>

#include "ros2s/object/test_support/batch.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/sim/co_test.h"
#include "test_support/pool.h"

namespace ros2s::engine {
namespace {

using device::SimFault;
using device::SimKind;

// A pool on a disk for which four blocks are worth a discard.
struct Discards : PoolBench {
    explicit Discards(uint64_t seed) : PoolBench(seed, 0) {
        const device::SimDiskOptions of_disk{.size = 4 << 20,
                                             .flush_latency = std::chrono::microseconds(100),
                                             .discard_bytes_least = 4 * block_bytes};
        disks.push_back(std::make_unique<device::SimDisk>(world.random(), of_disk, "device-0"));
        disks[0]->set_hook([this](const device::SimOperation& operation) {
            if (operation.kind != SimKind::discard) return SimFault::none;
            ++discards;
            discarded_blocks += operation.length / block_bytes;
            return fault;
        });
    }
    Task<Result<>> change(object::Operation operation, uint64_t dkey) {
        operation.object = {1, 1};
        operation.dkey = object::Dkey::integer(dkey);
        operation.akey = {"a"};
        object::Transaction transaction;
        transaction.operations.push_back(std::move(operation));
        const auto done = co_await store->update(call, container, transaction);
        co_return done ? Result<>() : fail(done.error());
    }
    Task<Result<>> write(uint64_t dkey, uint64_t blocks) {
        const AlignedBuffer buffer(blocks * block_bytes);
        std::memset(buffer.data(), static_cast<int>(dkey), buffer.size());
        co_return co_await change({.kind = object::Operation::Kind::write,
                                   .extent = {0, buffer.size()},
                                   .window = object::Window::local(buffer.bytes())},
                                  dkey);
    }
    Task<Result<>> remove(uint64_t dkey) {
        co_return co_await change({.kind = object::Operation::Kind::set_size, .size = 0}, dkey);
    }
    Task<> expect(uint64_t dkey, uint64_t blocks) {
        const AlignedBuffer buffer(blocks * block_bytes);
        auto item =
            object::fetch_item({1, 1}, object::Dkey::integer(dkey), {"a"}, 0, buffer.bytes());
        EXPECT_OK(co_await store->fetch(call, container, {&item, 1}));
        EXPECT_OK(item.status);
        for (const std::byte b : buffer.bytes()) {
            if (b == static_cast<std::byte>(dkey)) continue;
            ADD_FAILURE() << "dkey " << dkey << " does not hold what was written";
            break;
        }
    }
    // Until the removed blocks have left quarantine: two more groups prove it.
    Task<> prove() {
        for (int i = 0; i < 2; ++i) EXPECT_OK(co_await write(next_dkey++, 1));
        co_await sleep_for(env.reactor, std::chrono::milliseconds(100));
    }

    uint64_t discards = 0, discarded_blocks = 0;
    uint64_t next_dkey = 100;
    SimFault fault = SimFault::none;
};

// Under ten seeds.
void run_ten(Task<> (*body)(Discards&)) {
    for (uint64_t seed = 1; seed <= 10; ++seed) {
        SCOPED_TRACE(seed);
        Discards pool(seed);
        pool.world.run(body(pool));
    }
}

CO_TEST(Discard, RemovedBlocksAreDiscarded, Discards, pool, 1) {
    co_await pool.start();
    for (const uint64_t dkey : {1, 2, 3}) EXPECT_OK(co_await pool.write(dkey, dkey == 3 ? 2 : 16));
    EXPECT_OK(co_await pool.remove(1));
    EXPECT_EQ(pool.discards, 0U);        // not proven
    EXPECT_OK(co_await pool.remove(3));  // too few to be worth one
    co_await pool.prove();
    EXPECT_EQ(pool.discards, 1U);
    EXPECT_EQ(pool.discarded_blocks, 16U);
    EXPECT_EQ(pool.metric("ros2store_engine_discards_total"), 1U);
    EXPECT_EQ(pool.metric("ros2store_engine_discarded_bytes_total"), 16 * block_bytes);
    EXPECT_EQ(pool.metric("ros2store_engine_quarantined_bytes"), 0U);
    co_await pool.expect(2, 16);
    EXPECT_OK(co_await pool.close());
}

CO_TEST(Discard, DisabledSettingDiscardsNothing, Discards, pool, 1) {
    pool.options.discard = false;
    co_await pool.start();
    EXPECT_OK(co_await pool.write(1, 16));
    EXPECT_OK(co_await pool.remove(1));
    co_await pool.prove();
    EXPECT_EQ(pool.discards, 0U);
    EXPECT_OK(co_await pool.close());
}

// The disk discards slowly; meanwhile writes need every block of it.
Task<> write_into_a_full_pool(Discards& pool) {
    co_await pool.start();
    uint64_t written = 0;
    while (co_await pool.write(written, 16)) ++written;
    pool.fault = SimFault::slow;
    const uint64_t removed = written / 2;
    for (uint64_t dkey = 0; dkey < removed; ++dkey) EXPECT_OK(co_await pool.remove(dkey));
    for (uint64_t dkey = 0; dkey < removed; ++dkey) EXPECT_OK(co_await pool.write(dkey, 16));
    EXPECT_GT(pool.discards, 0U);
    EXPECT_GT(pool.metric("ros2store_engine_discards_left_out_bytes_total"), 0U);
    for (uint64_t dkey = 0; dkey < written; ++dkey) co_await pool.expect(dkey, 16);
    EXPECT_OK(co_await pool.reopen());
    for (uint64_t dkey = 0; dkey < written; ++dkey) co_await pool.expect(dkey, 16);
    EXPECT_OK(co_await pool.close());
}
TEST(Discard, AllocationWaitsForRunningDiscardsOnly) { run_ten(write_into_a_full_pool); }

CO_TEST(Discard, RefusalDisablesDiscardsOnly, Discards, pool, 1) {
    co_await pool.start();
    for (const uint64_t dkey : {1, 2}) EXPECT_OK(co_await pool.write(dkey, 16));
    pool.fault = SimFault::declined;
    EXPECT_OK(co_await pool.remove(1));
    co_await pool.prove();
    EXPECT_EQ(pool.discards, 1U);
    EXPECT_OK(co_await pool.remove(2));
    co_await pool.prove();
    EXPECT_EQ(pool.discards, 1U);
    EXPECT_EQ(pool.store->read_only_reason(), "");
    EXPECT_EQ(pool.metric("ros2store_engine_quarantined_bytes"), 0U);
    EXPECT_EQ(pool.metric("ros2store_engine_discarded_bytes_total"), 0U);
    EXPECT_OK(co_await pool.close());
}

// The failed discard is executed late, while the pool is written full.
Task<> write_after_an_error(Discards& pool) {
    co_await pool.start();
    uint64_t written = 0;
    while (written < 16) EXPECT_OK(co_await pool.write(written++, 16));
    pool.fault = SimFault::error;
    for (const uint64_t dkey : {3, 7, 11}) EXPECT_OK(co_await pool.remove(dkey));
    co_await pool.prove();
    EXPECT_GE(pool.discards, 1U);
    EXPECT_LE(pool.discards, 2U);  // the rest waited
    EXPECT_EQ(pool.metric("ros2store_engine_quarantined_bytes"),
              pool.discarded_blocks * block_bytes);
    pool.next_dkey = 1000;
    while (co_await pool.write(pool.next_dkey, 16)) ++pool.next_dkey;
    for (uint64_t dkey = 1000; dkey < pool.next_dkey; ++dkey) co_await pool.expect(dkey, 16);
    EXPECT_OK(co_await pool.reopen());
    EXPECT_EQ(pool.metric("ros2store_engine_quarantined_bytes"), 0U);
    EXPECT_OK(co_await pool.write(pool.next_dkey, 16));
    for (uint64_t dkey = 1000; dkey <= pool.next_dkey; ++dkey) co_await pool.expect(dkey, 16);
    EXPECT_OK(co_await pool.close());
}
TEST(Discard, BlocksOfFailedDiscardWaitForReopening) { run_ten(write_after_an_error); }

}  // namespace
}  // namespace ros2s::engine
