// Shared memory keeps the fabric's contract: between two connections of one core, between two
// cores, and between two processes.
#include <stdlib.h>
#include <unistd.h>

#include "ros2s/fabric/contract/os_setup.h"
#include "ros2s/fabric/shm/shm.h"

namespace ros2s::fabric {
namespace {

class ShmSetup final : public contract::OsSetup {
  public:
    explicit ShmSetup(bool two_cores)
        : OsSetup([](Reactor& reactor, Report&) { return shm::open_domain(reactor); }, two_cores,
                  "ucx+tcp") {
        char name[] = "/tmp/ros2store-test-XXXXXX";
        directory_ = mkdtemp(name);
    }
    ~ShmSetup() override { rmdir(directory_.c_str()); }
    std::string address() override { return directory_ + "/fabric"; }
    std::string unused_address(const std::string& address) override { return address + "1"; }

  private:
    std::string directory_;
};

ROS2S_FABRIC_CONTRACT(ShmOnOneCore, [] { return std::make_unique<ShmSetup>(false); });
ROS2S_FABRIC_CONTRACT(ShmOnTwoCores, [] { return std::make_unique<ShmSetup>(true); });
ROS2S_FABRIC_CONTRACT_TWO_PROCESSES(ShmInTwoProcesses,
                                    [] { return std::make_unique<ShmSetup>(false); });

}  // namespace
}  // namespace ros2s::fabric
