// RadosStore on a cluster keeps the contract of object stores, and Dfs on it that of file systems.
#include <gtest/gtest.h>

#include "real_cluster.h"
#include "ros2s/fs/contract/contract.h"
#include "ros2s/fs/dfs.h"
#include "ros2s/object/contract/contract.h"
#include "ros2s/runtime/sim/world.h"

namespace ros2s::rados {
namespace {

class ClusterSetup final : public object::contract::Setup {
  public:
    ClusterSetup() { run(open()); }
    ~ClusterSetup() override { run(close()); }
    object::ObjectStore& store() override { return *store_; }
    Reactor& reactor() override { return cluster_.reactor(); }
    void run(Task<> task) override {
        run_blocking(cluster_.reactor(), [&] { return std::move(task); });
    }
    Task<bool> reopen() override {
        co_await store_->close();
        co_await open();
        co_return true;
    }

  private:
    Task<> open() {
        Report report;
        auto opened = co_await RadosStore::open({}, cluster_.reactor(), cluster_.metadata(),
                                                cluster_.data(), {}, report);
        EXPECT_TRUE(opened.has_value()) << report.text();
        store_ = std::move(opened.value());
    }
    Task<> close() {
        co_await cluster_.empty(*store_);
        co_await store_->close();
        store_.reset();
    }
    RealCluster& cluster_ = RealCluster::instance();
    std::unique_ptr<RadosStore> store_;
};

ROS2S_OBJECT_STORE_CONTRACT(RadosOnCluster, [](const object::contract::Needs&) {
    return std::make_unique<ClusterSetup>();
});

// The cases for file systems run in virtual time. Each request to the cluster happens at one
// instant of it.
class InstantPool final : public Pool {
  public:
    InstantPool(OsReactor& reactor, Pool& pool) : reactor_(reactor), pool_(pool) {}
    [[nodiscard]] std::string name() const override { return pool_.name(); }
    [[nodiscard]] std::string description() const override { return pool_.description(); }
    Task<Result<>> apply(const Change& change) override {
        co_return run_blocking(reactor_, [&] { return pool_.apply(change); });
    }
    Task<Result<ReadReply>> read(const Read& read) override {
        co_return run_blocking(reactor_, [&] { return pool_.read(read); });
    }
    Task<Result<uint64_t>> read_data(const ObjectName& object, uint64_t offset,
                                     Bytes into) override {
        co_return run_blocking(reactor_, [&] { return pool_.read_data(object, offset, into); });
    }
    [[nodiscard]] std::unique_ptr<Listing> list(std::string space) override {
        return std::make_unique<InstantListing>(reactor_, pool_.list(std::move(space)));
    }
    Task<Result<object::PoolSpace>> space() override {
        co_return run_blocking(reactor_, [&] { return pool_.space(); });
    }

  private:
    class InstantListing final : public Listing {
      public:
        InstantListing(OsReactor& reactor, std::unique_ptr<Listing> listing)
            : reactor_(reactor), listing_(std::move(listing)) {}
        Task<Result<std::vector<std::string>>> next() override {
            co_return run_blocking(reactor_, [&] { return listing_->next(); });
        }

      private:
        OsReactor& reactor_;
        std::unique_ptr<Listing> listing_;
    };
    OsReactor& reactor_;
    Pool& pool_;
};

class ClusterSubject final : public fs::contract::Subject {
  public:
    explicit ClusterSubject(uint64_t seed)
        : world_(seed),
          metadata_(cluster_.reactor(), cluster_.metadata()),
          data_(cluster_.reactor(), cluster_.data()) {
        world_.run(start());
    }
    ~ClusterSubject() override {
        dfs_.reset();
        world_.run(close());
    }
    fs::FileSystem& file_system() override { return *dfs_; }
    sim::World& world() override { return world_; }

  private:
    Task<> start() {
        const Call call;
        Report report;
        auto opened = co_await RadosStore::open(call, world_.core(), metadata_, data_, {}, report);
        EXPECT_TRUE(opened.has_value()) << report.text();
        store_ = std::move(opened.value());
        const auto container = co_await store_->create_container(call, {.label = "c"});
        EXPECT_TRUE(container.has_value());
        EXPECT_TRUE(
            co_await fs::Dfs::format(call, *store_, container->id, world_.core(), {}, report))
            << report.text();
        auto mounted =
            co_await fs::Dfs::mount(call, *store_, container->id, world_.core(), {}, report);
        EXPECT_TRUE(mounted.has_value()) << report.text();
        dfs_ = std::move(mounted.value());
    }
    Task<> close() {
        co_await cluster_.empty(*store_);
        co_await store_->close();
    }
    RealCluster& cluster_ = RealCluster::instance();
    sim::World world_;
    InstantPool metadata_, data_;
    std::unique_ptr<RadosStore> store_;
    std::unique_ptr<fs::Dfs> dfs_;
};

const bool registered = fs::contract::register_contract(
    "DfsOnCluster",
    {.exact_space = false, .locks = false, .property_runs = 3, .property_steps = 100},
    [](uint64_t seed) { return std::make_unique<ClusterSubject>(seed); });

}  // namespace
}  // namespace ros2s::rados
