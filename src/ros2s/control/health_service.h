// grpc.health.v1: whether the server serves, and each of its pools. Our own, because gRPC's reads
// requests before anybody looks at who sends them. Pools that a subject has no right in do not
// exist for it.
#pragma once
#include <map>

#include "health.grpc.pb.h"
#include "ros2s/session/access_table.h"
#include "served_call.h"

namespace ros2s::control {

// Used on the core.
class HealthService final : public OfferedService {
  public:
    HealthService(CallGate& gate, const session::AccessTable& access);

    // The service "pool/NAME". Nothing changes once nothing serves.
    void set_pool(const std::string& pool, bool serving);
    // Nothing serves any more; who watches is told, and his call ends.
    void set_all_ended();

  private:
    using Request = grpc::health::v1::HealthCheckRequest;
    using Reply = grpc::health::v1::HealthCheckResponse;
    class Watch;
    // Also of what there is not.
    [[nodiscard]] Reply::ServingStatus status_of(const Served& served,
                                                 const std::string& service) const;
    Task<Result<>> check(Served& served, const Request& request, Reply& reply);

    const session::AccessTable& access_;
    std::map<std::string, bool> serving_{{"", true}};
    bool ended_ = false;
    const bool offered_;
};

}  // namespace ros2s::control
