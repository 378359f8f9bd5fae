// StoreRouter: the data plane's service: each request goes to the pool for which its session was
// opened. Containers that clients create and destroy through it leave audit lines.
//
// Owned by the engine; sessions and pools outlive it. Used on their core.
#pragma once
#include <map>
#include <memory>
#include <string>

#include "ros2s/control/control_server.h"
#include "ros2s/exporter/metrics_server.h"
#include "ros2s/remote/store_server.h"
#include "ros2s/rpc/method_times.h"
#include "ros2s/session/sessions.h"

namespace ros2s::engined {

class StoreRouter final : public rpc::Service,
                          public remote::ContainerWatcher,
                          public session::SessionWatcher {
  public:
    // Makes one server for each existing pool.
    StoreRouter(Reactor& reactor, session::SessionTable& sessions, control::PoolCatalog& pools);

    ~StoreRouter() override;
    StoreRouter(const StoreRouter&) = delete;
    StoreRouter& operator=(const StoreRouter&) = delete;

    [[nodiscard]] uint32_t number() const override { return remote::object_service; }
    Task<> serve(rpc::Request& request) override;
    [[nodiscard]] std::string_view name() const override { return "engine.serve"; }
    // The counters of each pool's server, with its label `pool`. They live as long as this.
    void add_metrics(std::vector<exporter::Source>& sources) const;
    void visit_times(const HistogramVisitor& visit) const { times_.visit(visit); }

    Task<> session_ending(session::Session& session) override;
    void made(const rpc::Request& request, const object::ContainerRecord& container) override;
    void destroyed(const rpc::Request& request, object::ContainerId container) override;

  private:
    void audit(const rpc::Request& request, std::string_view what);

    Reactor& reactor_;
    session::SessionTable& sessions_;
    std::map<std::string, std::unique_ptr<remote::StoreServer>, std::less<>> servers_;
    rpc::MethodTimes times_{remote::method_names};
};

}  // namespace ros2s::engined
