// UCX keeps the fabric's contract: between two connections of one core, two cores, and two
// processes. Over tcp on the loopback interface, or over the provider and device in the
// environment's ROS2STORE_TEST_UCX: "ucx+rc rxe0:1".
#include <cstdlib>

#include "ros2s/fabric/contract/os_setup.h"
#include "ucx.h"

namespace ros2s::fabric::ucx {
namespace {

Options tested() {
    const char* named = std::getenv("ROS2STORE_TEST_UCX");
    if (named == nullptr) return {.provider = "ucx+tcp", .device = "lo"};
    const std::string text = named;
    const size_t space = text.find(' ');
    ROS2S_CHECK(space != std::string::npos);
    return {.provider = text.substr(0, space), .device = text.substr(space + 1)};
}

std::unique_ptr<contract::Setup> set_up(bool two_cores) {
    const auto open = [](Reactor& reactor, Report& report) {
        return open_domain(reactor, tested(), report);
    };
    return std::make_unique<contract::OsSetup>(open, two_cores, "ofi+tcp;ofi_rxm");
}

ROS2S_FABRIC_CONTRACT(UcxOnOneCore, [] { return set_up(false); });
ROS2S_FABRIC_CONTRACT(UcxOnTwoCores, [] { return set_up(true); });
ROS2S_FABRIC_CONTRACT_TWO_PROCESSES(UcxInTwoProcesses, [] { return set_up(false); });

}  // namespace
}  // namespace ros2s::fabric::ucx
