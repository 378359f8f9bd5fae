// Pools and Containers: object stores over gRPC.
#pragma once
#include "ros2s/control/store.pb.h"
#include "session_service.h"

namespace ros2s::control {

class PoolService final : public OfferedService {
  public:
    explicit PoolService(ServerState& state) : OfferedService(state.gate), state_(state) {}

  private:
    ROS2S_SERVE(ListPoolsRequest, ListPoolsReply, list)
    ROS2S_SERVE(QueryPoolRequest, QueryPoolReply, query)

    ServerState& state_;
};

class ContainerService final : public OfferedService {
  public:
    explicit ContainerService(ServerState& state) : OfferedService(state.gate), state_(state) {}

  private:
    ROS2S_SERVE(CreateContainerRequest, CreateContainerReply, create)
    ROS2S_SERVE(ListContainersRequest, ListContainersReply, list)
    ROS2S_SERVE(QueryContainerRequest, QueryContainerReply, query)
    ROS2S_SERVE(SetContainerRequest, SetContainerReply, set)
    ROS2S_SERVE(DestroyContainerRequest, DestroyContainerReply, destroy)

    ServerState& state_;
};

}  // namespace ros2s::control
