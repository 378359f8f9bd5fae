// A 4 KiB fetch that hits the cache allocates nothing in the steady state.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "engine_test_support.h"
#include "null_device.h"

// Sanitizers bring their own allocator, and take frames from it.
#ifndef ROS2S_SANITIZED

namespace {
// Operators new are the process's: RocksDB's threads may be about.
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

Task<Result<uint64_t>> fetch_many(Bench& bench) {
    auto device = std::make_unique<NullDevice>(4 << 20);
    device::BlockDevice* const pointer = device.get();
    ROS2S_CO_TRY(co_await EngineStore::create(bench.env, {&pointer, 1}, bench.factory(),
                                              bench.create_options, bench.report));
    EngineStore::Devices devices;
    devices.push_back(std::move(device));
    ROS2S_CO_TRY_ASSIGN(bench.store, co_await EngineStore::open(bench.env, std::move(devices),
                                                                bench.factory(), {}, bench.report));
    ROS2S_CO_TRY_ASSIGN(const auto made,
                        co_await bench.store->create_container(bench.call, {.label = "c"}));
    const AlignedBuffer buffer(16 * block_bytes);
    std::memset(buffer.data(), 1, buffer.size());
    object::Transaction transaction;
    transaction.operations.push_back({.kind = object::Operation::Kind::write,
                                      .object = {1, 1},
                                      .dkey = object::Dkey::integer(0),
                                      .akey = {"a"},
                                      .extent = {0, buffer.size()},
                                      .window = object::Window::local(buffer.bytes())});
    ROS2S_CO_TRY(co_await bench.store->update(bench.call, made.id, transaction));
    object::FetchItem item{.object = {1, 1},
                           .dkey = object::Dkey::integer(0),
                           .akey = {"a"},
                           .window = object::Window::local(buffer.bytes().first(block_bytes))};
    uint64_t before = 0;
    for (uint64_t i = 0; i < 1100; ++i) {
        if (i == 100) before = allocations.load();
        item.extent = {i % 16 * block_bytes, block_bytes};
        ROS2S_CO_TRY(co_await bench.store->fetch(bench.call, made.id, {&item, 1}));
        ROS2S_CO_TRY(item.status);
    }
    const uint64_t made_meanwhile = allocations.load() - before;
    ROS2S_CO_TRY(co_await bench.close());
    co_return made_meanwhile;
}
TEST(Fetch, ACachedBlockCostsNoAllocation) {
    Bench bench(1);
    const auto made = bench.world.run(fetch_many(bench));
    ASSERT_TRUE(made.has_value()) << describe(made.error());
    EXPECT_EQ(*made, 0U);
}

}  // namespace
}  // namespace ros2s::engine

#endif
