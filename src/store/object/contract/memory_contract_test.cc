// The oracle keeps the contract, with and without delays.
#include "ros2s/object/contract/contract.h"
#include "ros2s/object/test_support/memory_store.h"
#include "ros2s/runtime/sim/world.h"

namespace ros2s::object::contract {
namespace {

class MemorySetup final : public Setup {
  public:
    MemorySetup(const Needs& needs, Duration delay_max)
        : world_(needs.seed),
          store_(world_.core(), {.capacity_bytes = needs.capacity_bytes, .delay_max = delay_max}) {}
    ObjectStore& store() override { return store_; }
    Reactor& reactor() override { return world_.core(); }
    void run(Task<> task) override { world_.run(std::move(task)); }
    bool make_read_only() override {
        store_.set_read_only(true);
        return true;
    }

  private:
    sim::World world_;
    MemoryStore store_;
};

ROS2S_OBJECT_STORE_CONTRACT(MemoryStore, [](const Needs& needs) {
    return std::make_unique<MemorySetup>(needs, Duration{});
});
ROS2S_OBJECT_STORE_CONTRACT(SlowMemoryStore, [](const Needs& needs) {
    return std::make_unique<MemorySetup>(needs, std::chrono::milliseconds(2));
});

}  // namespace
}  // namespace ros2s::object::contract
