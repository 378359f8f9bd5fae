// grpc.health.v1: whether the server serves, and each of its pools. Our own, because gRPC's reads
// requests before anybody looks at who sends them.
#pragma once
#include <map>

#include "health.grpc.pb.h"
#include "served_call.h"

namespace ros2s::control {

// Used on the core.
class HealthService final : public OfferedService {
  public:
    explicit HealthService(CallGate& gate);

    // `service`: "pool/NAME". Nothing changes once nothing serves.
    void set(const std::string& service, bool serving);
    // Nothing serves any more; who watches is told, and his call ends.
    void set_all_ended();

  private:
    using Request = grpc::health::v1::HealthCheckRequest;
    using Reply = grpc::health::v1::HealthCheckResponse;
    class Watch;
    // Also of what there is not.
    [[nodiscard]] Reply::ServingStatus status_of(const std::string& service) const;
    Task<Result<>> check(Served& served, const Request& request, Reply& reply);

    std::map<std::string, bool> serving_{{"", true}};
    bool ended_ = false;
    const bool offered_;
};

}  // namespace ros2s::control
