// grpc.reflection.v1alpha: lists the services, for generic clients. It is our own, because gRPC's
// occupies a thread for each client for as long as the client likes.
#pragma once
#include <string>
#include <vector>

#include "ros2s/control/reflection.pb.h"
#include "served_call.h"

namespace ros2s::control {

// Works on gRPC's threads only: descriptors do not change.
class ReflectionService final : public OfferedService {
  public:
    ReflectionService(ServerCalls& gate, std::vector<std::string> services);

  private:
    using Request = grpc::reflection::v1alpha::ServerReflectionRequest;
    using Reply = grpc::reflection::v1alpha::ServerReflectionResponse;
    class Stream;
    [[nodiscard]] Reply answer(const Request& request) const;

    std::vector<std::string> services_;
};

}  // namespace ros2s::control
