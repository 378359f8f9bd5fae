// Pools and Containers: object stores over gRPC.
#pragma once
#include "session_service.h"
#include "store.grpc.pb.h"

namespace ros2s::control {

class PoolService final : public OfferedService {
  public:
    explicit PoolService(ServerState& state)
        : OfferedService(state.gate, v1::Pools::service_full_name()), state_(state) {}

  private:
    ROS2S_SERVE(List, ListPoolsRequest, ListPoolsReply, list)
    ROS2S_SERVE(Query, QueryPoolRequest, QueryPoolReply, query)

    ServerState& state_;
};

class ContainerService final : public OfferedService {
  public:
    explicit ContainerService(ServerState& state)
        : OfferedService(state.gate, v1::Containers::service_full_name()), state_(state) {}

  private:
    ROS2S_SERVE(Create, CreateContainerRequest, CreateContainerReply, create)
    ROS2S_SERVE(List, ListContainersRequest, ListContainersReply, list)
    ROS2S_SERVE(Query, QueryContainerRequest, QueryContainerReply, query)
    ROS2S_SERVE(Set, SetContainerRequest, SetContainerReply, set)
    ROS2S_SERVE(Destroy, DestroyContainerRequest, DestroyContainerReply, destroy)

    ServerState& state_;
};

}  // namespace ros2s::control
