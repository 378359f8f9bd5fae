// A store behind the simulated network keeps the object contract: with short payload inline, with
// everything in windows, and with a slow store.
#include "ros2s/object/contract/contract.h"
#include "ros2s/object/test_support/memory_store.h"
#include "test_support/remote.h"

namespace ros2s::remote {
namespace {

using object::contract::Needs;

class RemoteSetup final : public object::contract::Setup {
  public:
    RemoteSetup(const Needs& needs, const WireOptions& options, Duration delay_max = {})
        : world_(needs.seed),
          behind_(world_.core(), {.capacity_bytes = needs.capacity_bytes, .delay_max = delay_max}),
          wired_(world_, options) {
        world_.run(set_up());
    }
    ~RemoteSetup() override { world_.run(tear_down()); }
    object::ObjectStore& store() override { return wired_.store(); }
    Reactor& reactor() override { return world_.core(); }
    void run(Task<> task) override { world_.run(std::move(task)); }
    bool make_read_only() override {
        behind_.set_read_only(true);
        return true;
    }

  private:
    Task<> set_up() {
        co_await wired_.serve(behind_);
        co_await wired_.connect();
    }
    Task<> tear_down() {
        EXPECT_EQ(wired_.server().metrics().malformed.value(), 0U);
        EXPECT_EQ(wired_.server().metrics().memory_bytes.value(), 0U);
        EXPECT_EQ(wired_.channel().metrics().connections.value(), 1U);
        co_await wired_.disconnect();
        co_await wired_.stop_serving();
    }
    sim::World world_;
    object::MemoryStore behind_;
    Wired wired_;
};

ROS2S_OBJECT_STORE_CONTRACT(RemoteOverSim, [](const Needs& needs) {
    return std::make_unique<RemoteSetup>(needs, WireOptions{});
});
ROS2S_OBJECT_STORE_CONTRACT(RemoteInBulkOverSim, [](const Needs& needs) {
    // Without a delay, requests of one connection are executed in order.
    return std::make_unique<RemoteSetup>(needs, bulk_options(), std::chrono::microseconds(100));
});
ROS2S_OBJECT_STORE_CONTRACT(SlowRemoteOverSim, [](const Needs& needs) {
    return std::make_unique<RemoteSetup>(needs, WireOptions{}, std::chrono::milliseconds(2));
});

}  // namespace
}  // namespace ros2s::remote
