// ros2store-dpu: the storage client of hosts.
#include "dpu.h"

namespace {

constexpr const char* description =
    R"(Runs the storage client for hosts that are not trusted: file systems of containers of an
engine, of a Ceph cluster and of DAOS, and directories of this machine.

Hosts come in by the control plane (gRPC over mutual TLS) and move bytes over shared memory, RDMA or TLS. The
engine's address, certificates and keys stay here. SIGTERM and SIGINT drain.)";

constexpr const char* more = R"(
EXAMPLES
  ros2store-dpu --print-config > /etc/ros2store/dpu.yaml   # then set `pools` or `directories`, `engine` and `access`
  ros2store-dpu --config /etc/ros2store/dpu.yaml

EXIT STATUS
  0 it was stopped, and everything is closed; 1 it could not start; 2 the command line is wrong.
)";

}  // namespace

int main(int count, char** arguments) {
    using namespace ros2s;
    return daemon::run_daemon<dpud::Settings, dpud::Dpu>(count, arguments,
                                                         {.name = "ros2store-dpu",
                                                          .version = ROS2STORE_VERSION,
                                                          .description = description,
                                                          .more = more});
}
