// Server: facts about this server, over gRPC.
#pragma once
#include "ros2s/control/server.pb.h"
#include "session_service.h"

namespace ros2s::control {

class ServerService final : public OfferedService {
  public:
    explicit ServerService(ServerState& state) : OfferedService(state.gate), state_(state) {}

  private:
    ROS2S_SERVE(QueryServerRequest, QueryServerReply, query)

    ServerState& state_;
};

}  // namespace ros2s::control
