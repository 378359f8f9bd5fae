// Pools and Containers: object stores by gRPC.
#pragma once
#include "session_service.h"
#include "store.grpc.pb.h"

namespace ros2s::control {

class PoolService final : public v1::Pools::CallbackService {
  public:
    explicit PoolService(Ground& ground) : ground_(ground) {}

  private:
    ROS2S_SERVE(List, ListPoolsRequest, ListPoolsReply, list)
    ROS2S_SERVE(Query, QueryPoolRequest, QueryPoolReply, query)

    Ground& ground_;
};

class ContainerService final : public v1::Containers::CallbackService {
  public:
    explicit ContainerService(Ground& ground) : ground_(ground) {}

  private:
    ROS2S_SERVE(Create, CreateContainerRequest, CreateContainerReply, create)
    ROS2S_SERVE(List, ListContainersRequest, ListContainersReply, list)
    ROS2S_SERVE(Query, QueryContainerRequest, QueryContainerReply, query)
    ROS2S_SERVE(Destroy, DestroyContainerRequest, DestroyContainerReply, destroy)

    Ground& ground_;
};

}  // namespace ros2s::control
