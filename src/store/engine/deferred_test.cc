// Deferred transactions: acknowledged before their flush. What a loss of power takes back is judged
// by the crash suite.
#include "ros2s/engine/served_store.h"
#include "ros2s/runtime/sim/co_test.h"
#include "test_support/pool.h"

namespace ros2s::engine {
namespace {

struct Deferring : PoolBench {
    Deferring() : PoolBench(1, 1, 64 << 20) {}
    Task<Result<object::Commit>> write_deferred(uint64_t dkey, uint64_t blocks) {
        const AlignedBuffer buffer(blocks * block_bytes);
        std::memset(buffer.data(), 7, buffer.size());
        object::Transaction transaction{.deferred = true};
        transaction.operations.push_back(writing(dkey, buffer.bytes()));
        co_return co_await store->update(call, container, transaction);
    }
    uint64_t volatile_groups() { return metric("ros2store_engine_volatile_groups"); }
    uint64_t flushes = 0;
    void count_flushes() {
        disks[0]->set_hook([this](const device::SimOperation& operation) {
            if (operation.kind == device::SimKind::flush) ++flushes;
            return device::SimFault::none;
        });
    }
};

CO_TEST(Deferred, UpdateWaitsForNoFlushAndSyncForOne, Deferring, pool) {
    co_await pool.start();
    pool.count_flushes();
    for (uint64_t dkey = 1; dkey <= 3; ++dkey) EXPECT_OK(co_await pool.write_deferred(dkey, 1));
    EXPECT_EQ(pool.flushes, 0);
    EXPECT_EQ(pool.volatile_groups(), 3);
    EXPECT_OK(co_await pool.expect(3, 1, 7));
    EXPECT_OK(co_await pool.store->sync(pool.call));
    EXPECT_EQ(pool.flushes, 1);
    EXPECT_EQ(pool.volatile_groups(), 0);
    EXPECT_OK(co_await pool.store->sync(pool.call));
    EXPECT_EQ(pool.flushes, 1) << "there was nothing to flush";
    EXPECT_OK(co_await pool.close());
}

CO_TEST(Deferred, FlushComesWithinASecond, Deferring, pool) {
    co_await pool.start();
    EXPECT_OK(co_await pool.write_deferred(1, 1));
    co_await sleep_for(pool.env.reactor, std::chrono::milliseconds(500));
    EXPECT_OK(co_await pool.write_deferred(2, 1));
    EXPECT_EQ(pool.volatile_groups(), 2);
    co_await sleep_for(pool.env.reactor, std::chrono::milliseconds(510));
    EXPECT_EQ(pool.volatile_groups(), 0);
    EXPECT_OK(co_await pool.close());
}

CO_TEST(Deferred, MuchIsFlushedEarlier, Deferring, pool) {
    co_await pool.start();
    for (uint64_t i = 0; i < 24; ++i) EXPECT_OK(co_await pool.write_deferred(i % 3, 256));
    EXPECT_GE(pool.metric("ros2store_engine_deferred_flushes_total"), 1);
    EXPECT_LT(pool.volatile_groups(), 16);
    EXPECT_OK(co_await pool.close());
}

CO_TEST(Deferred, FlushOfLaterUpdateCoversEarlierOnes, Deferring, pool) {
    co_await pool.start();
    pool.count_flushes();
    EXPECT_OK(co_await pool.write_deferred(1, 1));
    EXPECT_OK(co_await pool.write(2, 1, 7));
    EXPECT_EQ(pool.volatile_groups(), 0);
    EXPECT_EQ(pool.flushes, 1);
    EXPECT_OK(co_await pool.close());
}

CO_TEST(Deferred, OrderlyEndMakesAllDurable, Deferring, pool) {
    co_await pool.start();
    EXPECT_OK(co_await pool.write_deferred(1, 1));
    EXPECT_OK(co_await pool.close());
    for (auto& disk : pool.disks) disk->power_loss();
    pool.index_medium.crash(pool.world.random());
    EXPECT_OK(co_await pool.open());
    EXPECT_OK(co_await pool.expect(1, 1, 7));
    EXPECT_OK(co_await pool.close());
}

CO_TEST(Deferred, OtherProcessLearnsOnlyWhatIsDurable, Deferring, pool) {
    co_await pool.start();
    ServedStore served(*pool.store);
    EXPECT_FALSE(served.features().deferred);
    EXPECT_OK(co_await pool.write_deferred(1, 1));
    EXPECT_OK(co_await served.query(pool.call, pool.container, {1, 1}, {"a"}));
    EXPECT_EQ(pool.volatile_groups(), 0);
    EXPECT_OK(co_await pool.close());
}

CO_TEST(Deferred, FailedFlushFailsSyncAndEndsUpdates, Deferring, pool) {
    co_await pool.start();
    ServedStore served(*pool.store);
    EXPECT_OK(co_await pool.write_deferred(1, 1));
    pool.disks[0]->set_hook([](const device::SimOperation& operation) {
        return operation.kind == device::SimKind::flush ? device::SimFault::error
                                                        : device::SimFault::none;
    });
    EXPECT_EQ((co_await pool.store->sync(pool.call)).error().code, Code::io);
    EXPECT_NE(pool.store->read_only_reason(), "");
    EXPECT_EQ((co_await pool.write_deferred(2, 1)).error().code, Code::read_only);
    // What was acknowledged can be read, by this process only.
    EXPECT_OK(co_await pool.expect(1, 1, 7));
    EXPECT_EQ((co_await served.query(pool.call, pool.container, {1, 1}, {"a"})).error().code,
              Code::io);
    EXPECT_EQ((co_await pool.store->sync(pool.call)).error().code, Code::io);
    pool.disks[0]->set_hook({});
    // It may be lost, and nobody has to sync before the end.
    EXPECT_EQ((co_await pool.close()).error().code, Code::io);
}

}  // namespace
}  // namespace ros2s::engine
