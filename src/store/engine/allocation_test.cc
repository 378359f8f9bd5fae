// In the steady state a 4 KiB fetch that hits the cache allocates nothing, nor does an update of a
// block: only the list of displaced blocks grows now and then.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "test_support/null_device.h"
#include "test_support/pool.h"

// Sanitizers have their own allocator, and frames come from it.
#ifndef ROS2S_SANITIZED

namespace {
// Operators new are the process's: RocksDB's threads may use them, too.
std::atomic<uint64_t> allocations = 0;
}  // namespace

void* operator new(size_t size) {
    allocations.fetch_add(1, std::memory_order_relaxed);
    void* const memory = std::malloc(size);
    if (memory == nullptr) std::abort();
    return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace ros2s::engine {
namespace {

struct NullPool : PoolBench {
    NullPool() : PoolBench(1) {}
    // Its device costs nothing.
    Task<Result<>> start() {
        auto device = std::make_unique<NullDevice>(64 << 20);
        device::BlockDevice* const pointer = device.get();
        create_options.journal_bytes = 16 << 20;  // so that no checkpoint is due
        ROS2S_CO_TRY(
            co_await EngineStore::create(env, {&pointer, 1}, factory(), create_options, report));
        EngineStore::Devices devices;
        devices.push_back(std::move(device));
        ROS2S_CO_TRY_ASSIGN(
            store, co_await EngineStore::open(env, std::move(devices), factory(), {}, report));
        ROS2S_CO_TRY_ASSIGN(const auto made,
                            co_await store->create_container(call, {.label = "c"}));
        container = made.id;
        std::memset(buffer.data(), 1, buffer.size());
        co_return co_await update(0, 16);
    }
    Task<Result<>> update(uint64_t block, uint64_t blocks = 1) {
        object::Operation& write = transaction.operations[0];
        write.extent = {block * block_bytes, blocks * block_bytes};
        write.window = object::Window::local(buffer.bytes().first(write.extent.length));
        ++transaction.id.sequence;
        const auto done = co_await store->update(call, container, transaction);
        co_return done ? Result<>() : fail(done.error());
    }
    Task<Result<>> fetch(uint64_t block) {
        item.extent = {block * block_bytes, block_bytes};
        ROS2S_CO_TRY(co_await store->fetch(call, container, {&item, 1}));
        co_return item.status;
    }
    AlignedBuffer buffer{16 * block_bytes};
    // Named, as those of a file system are: its reply is stored.
    object::Transaction transaction{
        .id = {.client = Uuid{{1}}}, .is_new = true, .operations = {writing(0, buffer.bytes())}};
    object::FetchItem item{.object = {1, 1},
                           .dkey = object::Dkey::integer(0),
                           .akey = {"a"},
                           .window = object::Window::local(buffer.bytes())};
};

// Allocations of a thousand requests in the steady state.
template <class Request>
Task<Result<uint64_t>> count(NullPool& pool, Request request) {
    ROS2S_CO_TRY(co_await pool.start());
    uint64_t before = 0;
    for (uint64_t i = 0; i < 1100; ++i) {
        if (i == 100) before = allocations.load();
        ROS2S_CO_TRY(co_await request(pool, i % 16));
    }
    const uint64_t made = allocations.load() - before;
    ROS2S_CO_TRY(co_await pool.close());
    co_return made;
}
TEST(EngineAllocations, CachedBlockFetchAllocatesNothing) {
    NullPool pool;
    const auto made =
        pool.world.run(count(pool, [](NullPool& of, uint64_t block) { return of.fetch(block); }));
    ASSERT_TRUE(made.has_value()) << describe(made.error());
    EXPECT_EQ(*made, 0U);
}
TEST(EngineAllocations, UpdatesDoNotAllocatePerBlock) {
    NullPool pool;
    const auto made =
        pool.world.run(count(pool, [](NullPool& of, uint64_t block) { return of.update(block); }));
    ASSERT_TRUE(made.has_value()) << describe(made.error());
    EXPECT_LE(*made, 100U);
}

}  // namespace
}  // namespace ros2s::engine

#endif
