// Capabilities over gRPC.
#pragma once
#include "capabilities.grpc.pb.h"
#include "session_service.h"

namespace ros2s::control {

class CapabilityService final : public OfferedService {
  public:
    explicit CapabilityService(ServerState& state)
        : OfferedService(state.gate, v1::Capabilities::service_full_name()), state_(state) {}

  private:
    ROS2S_SERVE(Describe, DescribeCapabilitiesRequest, DescribeCapabilitiesReply, describe)
    ROS2S_SERVE(Issue, IssueCapabilityRequest, IssueCapabilityReply, issue)
    ROS2S_SERVE(List, ListCapabilitiesRequest, ListCapabilitiesReply, list)
    ROS2S_SERVE(Delegate, DelegateCapabilityRequest, DelegateCapabilityReply, delegate)
    // Checks that the caller may use the pool. Errors: denied, unsupported, not_found.
    Result<Capabilities::Description> find(Served& served, const std::string& pool) const;

    ServerState& state_;
};

}  // namespace ros2s::control
