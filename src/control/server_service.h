// Server: what this server is, by gRPC.
#pragma once
#include "server.grpc.pb.h"
#include "session_service.h"

namespace ros2s::control {

class ServerService final : public v1::Server::CallbackService {
  public:
    explicit ServerService(Ground& ground) : ground_(ground) {}

  private:
    ROS2S_SERVE(Query, QueryServerRequest, QueryServerReply, query)

    Ground& ground_;
};

}  // namespace ros2s::control
