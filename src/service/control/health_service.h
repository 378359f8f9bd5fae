// grpc.health.v1: whether the server serves, and each of its pools. It is our own, because gRPC's
// reads requests before the sender is checked. A pool in which a subject has no right does not
// exist for it.
#pragma once
#include <map>

#include "ros2s/control/health.pb.h"
#include "ros2s/rights/policy.h"
#include "served_call.h"

namespace ros2s::control {

// Used on the core.
class HealthService final : public OfferedService {
  public:
    HealthService(ServerCalls& gate, const rights::Policy& rights);

    // The service "pool/NAME". Has no effect after set_all_ended().
    void set_pool(const std::string& pool, bool serving);
    // Nothing serves any more. Watching clients are notified, and their calls end.
    void set_all_ended();

  private:
    using Request = grpc::health::v1::HealthCheckRequest;
    using Reply = grpc::health::v1::HealthCheckResponse;
    class Watch;
    // Also for services that do not exist.
    [[nodiscard]] Reply::ServingStatus status_of(const Served& served,
                                                 const std::string& service) const;
    Task<Result<>> check(Served& served, const Request& request, Reply& reply);

    const rights::Policy& rights_;
    std::map<std::string, bool> serving_{{"", true}};
    bool ended_ = false;
};

}  // namespace ros2s::control
