// The simulated disk keeps the contract of a device.
#include "ros2s/device/contract/contract.h"
#include "ros2s/device/sim/sim_device.h"
#include "ros2s/runtime/sim/world.h"

namespace ros2s::device {
namespace {

class SimSetup final : public contract::Setup {
  public:
    explicit SimSetup(bool memory)
        : disk_(world_.random(), {.size = least_size, .memory = memory}) {}
    Reactor& reactor() override { return world_.core(); }
    void run(Task<> task) override { world_.run(std::move(task)); }
    Task<Result<std::unique_ptr<BlockDevice>>> open(Report& report) override {
        return SimDevice::open(world_.core(), disk_, report);
    }

  private:
    sim::World world_{1};
    SimDisk disk_;
};

ROS2S_BLOCK_DEVICE_CONTRACT(SimDevice, [] { return std::make_unique<SimSetup>(false); });
ROS2S_BLOCK_DEVICE_CONTRACT(SimMemory, [] { return std::make_unique<SimSetup>(true); });

}  // namespace
}  // namespace ros2s::device
