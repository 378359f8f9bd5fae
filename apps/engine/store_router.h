// StoreRouter: the data plane's service: each request goes to the pool for which its session was
// opened, if the policy gives the session the right. Refusals, and containers that clients create
// and destroy, leave audit lines.
//
// Owned by the engine; sessions, which have the policy, and pools outlive it. Used on their core.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "pools.h"
#include "ros2s/control/control_server.h"
#include "ros2s/exporter/metrics_server.h"
#include "ros2s/remote/store_server.h"
#include "ros2s/rights/decide.h"
#include "ros2s/rpc/rpc_metrics.h"
#include "ros2s/session/sessions.h"

namespace ros2s::engined {

class StoreRouter final : public rpc::Service,
                          public remote::ContainerPolicy,
                          public session::SessionWatcher {
  public:
    // Makes one server for each existing pool.
    StoreRouter(session::SessionTable& sessions, Pools& pools);
    ~StoreRouter() override;
    StoreRouter& operator=(StoreRouter&&) = delete;

    [[nodiscard]] uint32_t number() const override { return remote::object_service; }
    Task<> serve(rpc::Request& request) override;
    void refused(const rpc::Request& request, const Error& why) override;
    [[nodiscard]] admission::Work work(const rpc::Request& request) const override {
        return remote::work_of(request);
    }
    [[nodiscard]] bool is_awaited(const rpc::Request& request) const override {
        return remote::is_awaited(request);
    }
    [[nodiscard]] uint64_t reply_memory_bytes(const rpc::Request& request) const override {
        return remote::reply_memory_bytes_of(request);
    }
    [[nodiscard]] std::string_view name() const override { return "engine.serve"; }
    [[nodiscard]] std::string_view method_name(uint16_t method) const override {
        return times_.name(method);
    }
    // The counters of each pool's server, with its label `pool`. They live as long as this.
    void add_metrics(std::vector<exporter::Source>& sources) const;
    void visit_times(const HistogramVisitor& visit) const { times_.visit(visit); }
    // The labels of the containers that the session has used.
    [[nodiscard]] std::vector<std::string> containers_of(session::SessionId session) const;

    Task<> session_ending(session::Session& session) override;

    bool permits(const rpc::Request& request, object::ContainerId container,
                 Use use) const override;
    Task<Result<>> decide(rpc::Request& request, object::ContainerId container, Use use) override;
    Result<> permit_creation(const rpc::Request& request, const std::string& label) override;
    Result<> own(const rpc::Request& request, object::ContainerProperties& properties) override;
    bool shows(const rpc::Request& request,
               const object::ContainerRecord& container) const override;
    void made(const rpc::Request& request, const object::ContainerRecord& container) override;
    void destroyed(const rpc::Request& request, object::ContainerId container) override;

  private:
    // What a session may do with a container, by the policy of that epoch.
    struct CachedDecision {
        uint64_t epoch;
        rights::Rights allowed;
        std::string label;
    };
    using DecisionKey = std::pair<uint64_t, Uuid>;  // session, container

    // The session of a request exists until the request is answered.
    [[nodiscard]] const session::Session& session_of(const rpc::Request& request) const;
    [[nodiscard]] rights::Principal principal_of(const session::Session& session) const;
    // Whether the session may do that. A DPU that shows a capability for directories checks them.
    [[nodiscard]] bool allows(const session::Session& session, rights::Wanted what,
                              const object::ContainerProperties& container) const;
    [[nodiscard]] Result<> refuse(const rpc::Request& request, rights::Right right,
                                  const std::string& label);
    void audit(const rpc::Request& request, AuditAction action, std::string_view container,
               std::string_view what);

    session::SessionTable& sessions_;
    Pools& pools_;
    const rights::Policy& policy_;
    // Of live sessions; a container's label does not change. Bounded: emptied when it is full.
    std::map<DecisionKey, CachedDecision> decisions_;
    std::map<std::string, std::unique_ptr<remote::StoreServer>, std::less<>> servers_;
    rpc::MethodTimes times_{remote::method_names};
};

}  // namespace ros2s::engined
