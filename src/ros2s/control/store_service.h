// Pools and Containers: object stores by gRPC.
#pragma once
#include "session_service.h"
#include "store.grpc.pb.h"

namespace ros2s::control {

class PoolService final : public OfferedService {
  public:
    explicit PoolService(Ground& ground)
        : OfferedService(ground.gate, v1::Pools::service_full_name()), ground_(ground) {}

  private:
    ROS2S_SERVE(List, ListPoolsRequest, ListPoolsReply, list)
    ROS2S_SERVE(Query, QueryPoolRequest, QueryPoolReply, query)

    Ground& ground_;
};

class ContainerService final : public OfferedService {
  public:
    explicit ContainerService(Ground& ground)
        : OfferedService(ground.gate, v1::Containers::service_full_name()), ground_(ground) {}

  private:
    ROS2S_SERVE(Create, CreateContainerRequest, CreateContainerReply, create)
    ROS2S_SERVE(List, ListContainersRequest, ListContainersReply, list)
    ROS2S_SERVE(Query, QueryContainerRequest, QueryContainerReply, query)
    ROS2S_SERVE(Destroy, DestroyContainerRequest, DestroyContainerReply, destroy)

    Ground& ground_;
};

}  // namespace ros2s::control
