// The contract suite of file systems: Dfs over CipherStore over MemoryStore.
#include <gtest/gtest.h>

#include "cipher_store.h"
#include "ros2s/fs/contract/contract.h"
#include "ros2s/fs/dfs.h"
#include "ros2s/object/test_support/memory_store.h"
#include "test_support/cipher.h"

namespace ros2s::cipher {
namespace {

class EncryptedSubject final : public fs::contract::Subject {
  public:
    EncryptedSubject(uint64_t seed, object::MemoryStore::Options options, uint64_t chunk_bytes,
                     Layout layout)
        : world_(seed), store_(world_.core(), options) {
        world_.run(start(chunk_bytes, layout));
    }
    fs::FileSystem& file_system() override { return *dfs_; }
    sim::World& world() override { return world_; }

  private:
    Task<> start(uint64_t chunk_bytes, Layout layout) {
        const Call call;
        Report report;
        const auto container =
            co_await store_.create_container(call, {.label = "c", .chunk_bytes = chunk_bytes});
        EXPECT_TRUE(container.has_value());
        cipher_ = std::make_unique<CipherStore>(world_.core(), store_, container->id,
                                                test_keys(1, layout));
        EXPECT_TRUE(
            co_await fs::Dfs::format(call, *cipher_, container->id, world_.core(), {}, report))
            << report.text();
        auto mounted =
            co_await fs::Dfs::mount(call, *cipher_, container->id, world_.core(),
                                    {.operations_max = CipherStore::operations_max,
                                     .transaction_bytes_max = CipherStore::transaction_bytes_max},
                                    report);
        EXPECT_TRUE(mounted.has_value()) << report.text();
        dfs_ = std::move(*mounted);
    }
    sim::World world_;
    object::MemoryStore store_;
    std::unique_ptr<CipherStore> cipher_;
    std::unique_ptr<fs::Dfs> dfs_;
};

template <uint64_t chunk_bytes, int delay_us, Layout layout>
std::unique_ptr<fs::contract::Subject> make(uint64_t seed) {
    return std::make_unique<EncryptedSubject>(
        seed, object::MemoryStore::Options{.delay_max = std::chrono::microseconds(delay_us)},
        chunk_bytes, layout);
}

const bool registered =
    fs::contract::register_contract("Encrypted", {}, make<(1 << 20), 0, Layout::seals>);
const bool registered_slow = fs::contract::register_contract(
    "EncryptedSlowSmallChunks", {.chunk_bytes = 8192}, make<8192, 100, Layout::seals>);
const bool registered_cells =
    fs::contract::register_contract("EncryptedCells", {}, make<(1 << 20), 0, Layout::cells>);
const bool registered_cells_slow = fs::contract::register_contract(
    "EncryptedCellsSlowSmallChunks", {.chunk_bytes = 8192}, make<8192, 100, Layout::cells>);

}  // namespace
}  // namespace ros2s::cipher
