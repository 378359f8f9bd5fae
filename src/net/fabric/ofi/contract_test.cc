// libfabric keeps the fabric's contract: between two connections of one core, two cores, and two
// processes. Over tcp on the loopback interface, or over the provider and device in the
// environment's ROS2STORE_TEST_OFI: "ofi+verbs;ofi_rxm rxe0".
#include <cstdlib>

#include "ofi.h"
#include "ros2s/fabric/contract/os_setup.h"

namespace ros2s::fabric::ofi {
namespace {

Options tested() {
    const char* named = std::getenv("ROS2STORE_TEST_OFI");
    if (named == nullptr) return {.provider = "ofi+tcp;ofi_rxm", .device = "lo"};
    const std::string text = named;
    const size_t space = text.find(' ');
    ROS2S_CHECK(space != std::string::npos);
    return {.provider = text.substr(0, space), .device = text.substr(space + 1)};
}

std::unique_ptr<contract::Setup> set_up(bool two_cores) {
    const auto open = [](Reactor& reactor, Report& report) {
        return open_domain(reactor, tested(), report);
    };
    return std::make_unique<contract::OsSetup>(open, two_cores, "ucx+tcp");
}

ROS2S_FABRIC_CONTRACT(OfiOnOneCore, [] { return set_up(false); });
ROS2S_FABRIC_CONTRACT(OfiOnTwoCores, [] { return set_up(true); });
ROS2S_FABRIC_CONTRACT_TWO_PROCESSES(OfiInTwoProcesses, [] { return set_up(false); });

}  // namespace
}  // namespace ros2s::fabric::ofi
