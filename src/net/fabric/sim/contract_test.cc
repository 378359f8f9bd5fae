// The simulated network keeps the fabric's contract, with any seed.
#include "ros2s/fabric/contract/contract.h"
#include "ros2s/fabric/sim/network.h"
#include "ros2s/runtime/sim/world.h"

namespace ros2s::fabric {
namespace {

class SimSetup final : public contract::Setup {
  public:
    SimSetup(uint64_t seed, size_t cores, sim::LinkModel model = {})
        : world_(seed, cores), cores_(cores), network_(world_.random(), model) {}
    Reactor& core(contract::Side side) override {
        return world_.core(side == contract::Side::server ? cores_ - 1 : 0);
    }
    void run(Task<> task) override { world_.run(std::move(task)); }
    Result<std::unique_ptr<Domain>> open_domain(contract::Side side, Report&) override {
        const bool server = side == contract::Side::server;
        return network_.open_domain(core(side), server ? "server" : "client");
    }
    std::string address() override { return "engine-0"; }
    Task<Result<>> connect_as_another(Domain&, std::string address, Report& report) override {
        const auto other =
            network_.open_domain(core(contract::Side::client), "stranger", "sim+other");
        const auto connected = co_await other->connect(address, {}, report);
        co_await other->close();
        if (!connected) co_return fail(connected.error());
        co_return Result<>{};
    }

  private:
    ros2s::sim::World world_;
    size_t cores_;
    sim::Network network_;
};

ROS2S_FABRIC_CONTRACT(SimFabric, [] { return std::make_unique<SimSetup>(1, 1); });
ROS2S_FABRIC_CONTRACT(SimFabricOnTwoCores, [] { return std::make_unique<SimSetup>(2, 2); });
ROS2S_FABRIC_CONTRACT(SimFabricOfSmallFrames, [] {
    return std::make_unique<SimSetup>(3, 1, sim::LinkModel{.frame_bytes_max = 12 << 10});
});

}  // namespace
}  // namespace ros2s::fabric
