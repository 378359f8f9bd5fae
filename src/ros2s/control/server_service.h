// Server: what this server is, by gRPC.
#pragma once
#include "server.grpc.pb.h"
#include "session_service.h"

namespace ros2s::control {

class ServerService final : public OfferedService {
  public:
    explicit ServerService(Ground& ground)
        : OfferedService(ground.gate, v1::Server::service_full_name()), ground_(ground) {}

  private:
    ROS2S_SERVE(Query, QueryServerRequest, QueryServerReply, query)

    Ground& ground_;
};

}  // namespace ros2s::control
