#include "control_client.h"

namespace ros2s::control {

Result<std::unique_ptr<SessionClient>> SessionClient::create(Reactor& reactor,
                                                             ClientOptions options,
                                                             Report& report) {
    ROS2S_TRY_ASSIGN(auto client, ControlClient::create(reactor, std::move(options), report));
    return client;
}

}  // namespace ros2s::control
