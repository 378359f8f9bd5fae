// The services beside sessions (session_service.h): requests are checked, the object is found, and
// the call is passed to it.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "ros2s/control/capabilities.pb.h"
#include "ros2s/control/files.pb.h"
#include "ros2s/control/health.pb.h"
#include "ros2s/control/reflection.pb.h"
#include "ros2s/control/server.pb.h"
#include "ros2s/control/store.pb.h"
#include "ros2s/control/tenants.pb.h"
#include "session_service.h"

namespace ros2s::control {

// Facts about this server.
class ServerService final : public OfferedService {
  public:
    explicit ServerService(ServerState& state) : OfferedService(state.gate), state_(state) {}

  private:
    ROS2S_SERVE(QueryServerRequest, QueryServerReply, query)

    ServerState& state_;
};

class PoolService final : public OfferedService {
  public:
    explicit PoolService(ServerState& state) : OfferedService(state.gate), state_(state) {}

  private:
    ROS2S_SERVE(ListPoolsRequest, ListPoolsReply, list)
    ROS2S_SERVE(QueryPoolRequest, QueryPoolReply, query)

    ServerState& state_;
};

class ContainerService final : public OfferedService {
  public:
    explicit ContainerService(ServerState& state) : OfferedService(state.gate), state_(state) {}

  private:
    ROS2S_SERVE(CreateContainerRequest, CreateContainerReply, create)
    ROS2S_SERVE(ListContainersRequest, ListContainersReply, list)
    ROS2S_SERVE(QueryContainerRequest, QueryContainerReply, query)
    ROS2S_SERVE(SetContainerRequest, SetContainerReply, set)
    ROS2S_SERVE(DestroyContainerRequest, DestroyContainerReply, destroy)

    ServerState& state_;
};

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

// File systems, without the bytes of files.
class MountService final : public OfferedService {
  public:
    explicit MountService(ServerState& state) : OfferedService(state.gate), state_(state) {}

  private:
    ROS2S_SERVE(MountRequest, MountReply, mount)
    ROS2S_SERVE(UnmountRequest, UnmountReply, unmount)

    ServerState& state_;
};

// Why a request uses its mount. One that gives back what is open or was looked up, or shows space,
// is done for whichever user.
enum class For : uint8_t { looking, changing, releasing };

class FileService final : public OfferedService {
  public:
    explicit FileService(ServerState& state);

  private:
    // Offers a method that is one call of session::MountNames: act(names, call, request).
    template <class Request, class Reply, class Act>
    void offer_for(For what, Act act);
    template <class Request, class Reply>
    void look(auto act) {
        offer_for<Request, Reply>(For::looking, act);
    }
    template <class Request, class Reply>
    void change(auto act) {
        offer_for<Request, Reply>(For::changing, act);
    }
    template <class Request, class Reply>
    void release(auto act) {
        offer_for<Request, Reply>(For::releasing, act);
    }
    template <class Act, class Request, class Reply>
    Task<Result<>> serve(For what, Act act, Served& served, const Request& request, Reply& reply);
    ROS2S_SERVE(SetXattrRequest, EmptyReply, set_xattr)
    ROS2S_SERVE(OpenFileRequest, OpenFileReply, open)
    ROS2S_SERVE(ReadDirectoryRequest, ReadDirectoryReply, read_directory)
    ROS2S_SERVE(ForgetRequest, EmptyReply, forget)

    ServerState& state_;
};

// grpc.health.v1: whether the server serves, and each of its pools. It is our own, because gRPC's
// reads requests before the sender is checked. A pool in which a subject has no right does not
// exist for it.
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

// grpc.reflection.v1alpha: lists the services, for generic clients. It is our own, because gRPC's
// occupies a thread for each client for as long as the client likes. Works on gRPC's threads only:
// descriptors do not change.
class ReflectionService final : public OfferedService {
  public:
    ReflectionService(ServerCalls& gate, std::vector<std::string> services);

  private:
    using Request = grpc::reflection::v1alpha::ServerReflectionRequest;
    using Reply = grpc::reflection::v1alpha::ServerReflectionResponse;
    class Talk;
    [[nodiscard]] Reply answer(const Request& request) const;

    std::vector<std::string> services_;
};

}  // namespace ros2s::control
