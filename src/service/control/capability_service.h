// Capabilities over gRPC.
#pragma once
#include "ros2s/control/capabilities.pb.h"
#include "session_service.h"

namespace ros2s::control {

class CapabilityService final : public OfferedService {
  public:
    explicit CapabilityService(ServerState& state) : OfferedService(state.gate), state_(state) {}

  private:
    ROS2S_SERVE(DescribeCapabilitiesRequest, DescribeCapabilitiesReply, describe)
    ROS2S_SERVE(IssueCapabilityRequest, IssueCapabilityReply, issue)
    ROS2S_SERVE(ListCapabilitiesRequest, ListCapabilitiesReply, list)
    ROS2S_SERVE(DelegateCapabilityRequest, DelegateCapabilityReply, delegate)
    // Checks that the caller may use the pool. Errors: denied, unsupported, not_found.
    Result<Capabilities::Description> find(Served& served, const std::string& pool) const;

    ServerState& state_;
};

}  // namespace ros2s::control
