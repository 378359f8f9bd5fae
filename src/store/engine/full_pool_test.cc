// Full pools: what is refused, what still works, and what makes room.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/sim/co_test.h"
#include "test_support/pool.h"

namespace ros2s::engine {
namespace {

using Pool = PoolBench;

CO_TEST(FullPool, GrowthAllowsWritesAgain, Pool, pool, 1, 1, 4 << 20) {
    co_await pool.start();
    uint64_t written = 0;
    Result<object::Commit> last;
    while ((last = co_await pool.write(written, 16, static_cast<uint8_t>(written)))) ++written;
    EXPECT_EQ(last.error().code, Code::no_space);
    EXPECT_EQ(pool.store->read_only_reason(), "");
    const auto before = *co_await pool.store->space(pool.call, {});
    pool.add_disk(8 << 20);
    auto device = co_await pool.device(1);
    EXPECT_OK(co_await pool.store->grow(std::move(*device), pool.report));
    const auto after = *co_await pool.store->space(pool.call, {});
    // Some blocks are kept back.
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

Task<Result<object::Commit>> change_array(Pool& pool, object::Operation operation) {
    operation.object = {1, 1};
    operation.akey = {"a"};
    object::Transaction transaction;
    transaction.operations.push_back(std::move(operation));
    co_return co_await pool.store->update(pool.call, pool.container, transaction);
}
CO_TEST(FullPool, TruncationAndHolesFreeSpace, Pool, pool, 1, 1, 4 << 20) {
    using Kind = object::Operation::Kind;
    co_await pool.start();
    uint64_t written = 0;
    for (const uint64_t blocks : {16, 1}) {
        Result<object::Commit> last;
        while ((last = co_await pool.write(written, blocks, 1))) ++written;
        EXPECT_EQ(last.error().code, Code::no_space);
    }
    const auto space = [&pool] { return pool.store->space(pool.call, {}); };
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

// Truncation within a block, and overwrites, of a part and of the whole.
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
    // An update that needs more space is refused, and leaves nothing.
    const auto more =
        co_await change_array(pool, {.kind = Kind::write,
                                     .dkey = object::Dkey::integer(2),
                                     .extent = {16 * block_bytes - 10, some.size()},
                                     .window = object::Window::local(as_bytes(some))});
    EXPECT_FALSE(more);
    if (!more) EXPECT_EQ(more.error().code, Code::no_space);
    EXPECT_EQ((*co_await pool.store->space(pool.call, {})).free_bytes, 0U);
    EXPECT_OK(co_await pool.reopen());
    EXPECT_EQ((*co_await pool.store->space(pool.call, {})).free_bytes, 0U);
    EXPECT_OK(co_await pool.expect(10, 8, 7));
    EXPECT_OK(co_await pool.close());
}
TEST(FullPool, OverwritesInPlaceSucceed) {
    for (const size_t devices : {1, 2}) {
        Pool pool(1, devices, 4 << 20);
        pool.world.run(change_a_full_pool(pool));
    }
}

// Overwrites `dkeys` in place in one request, while eight writers do the same in a full pool.
// Returns the result and the number of updates of the others.
struct Beside {
    std::optional<Code> error;
    uint64_t others = 0;
};
Task<> write_until(Pool& pool, uint64_t dkey, const bool& done, uint64_t& count) {
    while (!done && count < 20'000) {
        EXPECT_OK(co_await pool.write(dkey, 4, 7));
        ++count;
    }
}
Task<Beside> write_beside_others(Pool& pool, uint64_t dkeys) {
    co_await pool.start();
    uint64_t written = 0;
    for (const uint64_t blocks : {4, 1}) {
        while (co_await pool.write(written, blocks, 1)) ++written;
    }
    const AlignedBuffer buffer(4 * block_bytes);
    object::Transaction transaction;
    for (uint64_t dkey = 0; dkey < dkeys; ++dkey) {
        transaction.operations.push_back(Pool::writing(dkey, buffer.bytes()));
    }
    Beside came;
    bool done = false;
    {
        Nursery nursery(pool.env.reactor, 8);
        for (uint64_t dkey = 100; dkey < 108; ++dkey) {
            co_await nursery.spawn(write_until(pool, dkey, done, came.others));
        }
        while (came.others < 100)
            co_await sleep_for(pool.env.reactor, std::chrono::microseconds(1));
        const auto wrote = co_await pool.store->update(pool.call, pool.container, transaction);
        if (!wrote) came.error = wrote.error().code;
        done = true;
        co_await nursery.join();
    }
    EXPECT_OK(co_await pool.close());
    co_return came;
}
// A sixty-fourth of 16 MiB, without the journal, is kept back.
TEST(FullPool, OversizedOverwriteIsRefusedAtOnce) {
    Pool pool(1, 1, 16 << 20);
    const Beside came = pool.world.run(write_beside_others(pool, 32));
    EXPECT_EQ(came.error, Code::no_space);
    EXPECT_LT(came.others, 1000U);
}
TEST(FullPool, LargeOverwriteSucceedsBesideSmallOnes) {
    Pool pool(1, 1, 16 << 20);
    const Beside came = pool.world.run(write_beside_others(pool, 8));
    EXPECT_EQ(came.error, std::nullopt);
    EXPECT_LT(came.others, 1000U);
}

}  // namespace
}  // namespace ros2s::engine
