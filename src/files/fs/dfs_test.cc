// Dfs over MemoryStore: the contract suite, with and without delays in the store.
#include "dfs.h"

#include <gtest/gtest.h>

#include "ros2s/fs/contract/contract.h"
#include "ros2s/object/test_support/memory_store.h"

namespace ros2s::fs {
namespace {

class DfsSubject final : public contract::Subject {
  public:
    DfsSubject(uint64_t seed, object::MemoryStore::Options options, uint64_t chunk_bytes)
        : world_(seed), store_(world_.core(), options) {
        world_.run(start(chunk_bytes));
    }
    FileSystem& file_system() override { return *dfs_; }
    sim::World& world() override { return world_; }

  private:
    Task<> start(uint64_t chunk_bytes) {
        const Call call;
        Report report;
        const auto container =
            co_await store_.create_container(call, {.label = "c", .chunk_bytes = chunk_bytes});
        EXPECT_TRUE(container.has_value());
        EXPECT_TRUE(co_await Dfs::format(call, store_, container->id, world_.core(), {}, report))
            << report.text();
        auto mounted = co_await Dfs::mount(call, store_, container->id, world_.core(), {}, report);
        EXPECT_TRUE(mounted.has_value()) << report.text();
        dfs_ = std::move(*mounted);
    }
    sim::World world_;
    object::MemoryStore store_;
    std::unique_ptr<Dfs> dfs_;
};

template <uint64_t chunk_bytes, int delay_us>
std::unique_ptr<contract::Subject> make(uint64_t seed) {
    return std::make_unique<DfsSubject>(
        seed, object::MemoryStore::Options{.delay_max = std::chrono::microseconds(delay_us)},
        chunk_bytes);
}

const bool registered = contract::register_contract("Dfs", {}, make<(1 << 20), 0>);
const bool registered_slow =
    contract::register_contract("DfsSlowSmallChunks", {.chunk_bytes = 8192}, make<8192, 100>);

}  // namespace
}  // namespace ros2s::fs
