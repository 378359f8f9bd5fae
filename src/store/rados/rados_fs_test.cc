// Dfs over RadosStore on a simulated cluster keeps the contract of file systems.
#include <gtest/gtest.h>

#include "ros2s/fs/contract/contract.h"
#include "ros2s/fs/dfs.h"
#include "ros2s/rados/rados_store.h"
#include "ros2s/rados/sim/sim_rados.h"

namespace ros2s::rados {
namespace {

class RadosSubject final : public fs::contract::Subject {
  public:
    RadosSubject(uint64_t seed, Duration delay_max, uint64_t chunk_bytes)
        : world_(seed),
          cluster_(world_.core()),
          pool_(cluster_, {.delay_max = delay_max, .dies_at = {}}) {
        world_.run(start(chunk_bytes));
    }
    ~RadosSubject() override {
        dfs_.reset();
        world_.run(store_->close());
    }
    fs::FileSystem& file_system() override { return *dfs_; }
    sim::World& world() override { return world_; }

  private:
    Task<> start(uint64_t chunk_bytes) {
        const Call call;
        Report report;
        auto opened = co_await RadosStore::open(call, world_.core(), pool_, pool_, {}, report);
        EXPECT_TRUE(opened) << report.text();
        store_ = std::move(*opened);
        const auto container =
            co_await store_->create_container(call, {.label = "c", .chunk_bytes = chunk_bytes});
        EXPECT_TRUE(container.has_value());
        EXPECT_TRUE(
            co_await fs::Dfs::format(call, *store_, container->id, world_.core(), {}, report))
            << report.text();
        auto mounted =
            co_await fs::Dfs::mount(call, *store_, container->id, world_.core(), {}, report);
        EXPECT_TRUE(mounted.has_value()) << report.text();
        dfs_ = std::move(*mounted);
    }
    sim::World world_;
    SimRados cluster_;
    SimPool pool_;
    std::unique_ptr<RadosStore> store_;
    std::unique_ptr<fs::Dfs> dfs_;
};

template <uint64_t chunk_bytes, int delay_us>
std::unique_ptr<fs::contract::Subject> make(uint64_t seed) {
    return std::make_unique<RadosSubject>(seed, std::chrono::microseconds(delay_us), chunk_bytes);
}

const bool registered = fs::contract::register_contract(
    "DfsOnRados", {.exact_space = false, .locks = false}, make<(1 << 20), 0>);
const bool registered_slow = fs::contract::register_contract(
    "DfsOnSlowRadosSmallChunks",
    {.exact_space = false, .chunk_bytes = 8192, .locks = false, .property_runs = 5},
    make<8192, 100>);

}  // namespace
}  // namespace ros2s::rados
