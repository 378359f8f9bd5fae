// ros2store-engine: serves pools to clients of the network.
#include "engine.h"

namespace {

constexpr const char* description = R"(Serves ros2store pools to clients of the network.

The control plane (gRPC over mutual TLS) lets clients in; the data plane carries their bytes over
each provider that the settings list. SIGTERM and SIGINT drain: what was begun is answered, and the
pools are closed.)";

constexpr const char* more = R"(
EXAMPLES
  ros2store pool create /srv/pool
  ros2store certs init AUTHORITY --name engine-1    # then copy ca.crt, server.crt, server.key
                                                    # to /etc/ros2store/engine; ca.key stays
  ros2store-engine --print-config > /etc/ros2store/engine.yaml   # then set `pools`
  ros2store-engine --config /etc/ros2store/engine.yaml

EXIT STATUS
  0 it was stopped, and everything is closed; 1 it could not start; 2 the command line is wrong.
)";

}  // namespace

int main(int count, char** arguments) {
    using namespace ros2s;
    return daemon::run_daemon<engined::Settings, engined::Engine>(count, arguments,
                                                                  {.name = "ros2store-engine",
                                                                   .version = ROS2STORE_VERSION,
                                                                   .description = description,
                                                                   .more = more});
}
