// Tenants: the tenants of pools over gRPC.
#pragma once
#include "ros2s/control/tenants.pb.h"
#include "session_service.h"

namespace ros2s::control {

class TenantService final : public OfferedService {
  public:
    explicit TenantService(ServerState& state) : OfferedService(state.gate), state_(state) {}

  private:
    ROS2S_SERVE(ChangeTenantRequest, ChangeTenantReply, change)
    ROS2S_SERVE(ListTenantsRequest, ListTenantsReply, list)
    Task<Result<>> revoke_capability(Served& served, const v1::ChangeTenantRequest& request,
                                     v1::ChangeTenantReply& reply);
    // Returns true if the caller may list all tenants of each pool, without a right in it.
    [[nodiscard]] bool sees_all(const Served& served) const;
    Result<tenancy::TenantRegistry*> registry(Served& served, const std::string& pool) const;

    ServerState& state_;
};

}  // namespace ros2s::control
