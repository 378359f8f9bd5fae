// tls keeps the fabric's contract: between two connections of one core, two cores, and two
// processes.
#include "ros2s/fabric/contract/os_setup.h"
#include "test_support/test_authority.h"

namespace ros2s::fabric::tls {
namespace {

class TlsSetup final : public contract::OsSetup {
  public:
    explicit TlsSetup(bool two_cores) : OsSetup({}, two_cores, "shm") {}
    Result<std::unique_ptr<Domain>> open_domain(contract::Side side, Report& report) override {
        const bool server = side == contract::Side::server;
        return tls::open_domain(core(side), server ? authority().server() : authority().client(),
                                report);
    }
};

// Before the contract forks: both processes need the same certificates.
[[maybe_unused]] const TestAuthority& made_before_forks = authority();

ROS2S_FABRIC_CONTRACT(TlsOnOneCore, [] { return std::make_unique<TlsSetup>(false); });
ROS2S_FABRIC_CONTRACT(TlsOnTwoCores, [] { return std::make_unique<TlsSetup>(true); });
ROS2S_FABRIC_CONTRACT_TWO_PROCESSES(TlsInTwoProcesses,
                                    [] { return std::make_unique<TlsSetup>(false); });

}  // namespace
}  // namespace ros2s::fabric::tls
