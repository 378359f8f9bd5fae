// grpc.reflection.v1alpha: what is offered, for generic clients. Our own, because gRPC's takes a
// thread for each client that asks, as long as it likes to.
#pragma once
#include <string>
#include <vector>

#include "reflection.grpc.pb.h"
#include "served_call.h"

namespace ros2s::control {

// Works on gRPC's threads alone: descriptors do not change.
class ReflectionService final : public OfferedService {
  public:
    ReflectionService(CallGate& gate, std::vector<std::string> services);

  private:
    using Request = grpc::reflection::v1alpha::ServerReflectionRequest;
    using Reply = grpc::reflection::v1alpha::ServerReflectionResponse;
    class Talk;
    [[nodiscard]] Reply answer(const Request& request) const;

    std::vector<std::string> services_;
    const bool offered_;
};

}  // namespace ros2s::control
