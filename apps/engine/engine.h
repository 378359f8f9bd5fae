// Engine: pools served to clients: a control plane that lets them in, and a data plane on each
// provider.
//
//     ControlServer ─ sessions, tickets ─┐
//     fabric domain ─ rpc::Server ─ gate ┴─ StoreRouter ─ pool's ObjectStore
//
// Owned by main(). Used on the reactor's core; stop() before destruction.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "pools.h"
#include "ros2s/api/environment.h"
#include "ros2s/exporter/metrics_server.h"
#include "ros2s/fabric/domain.h"
#include "ros2s/session/gate.h"
#include "settings.h"
#include "store_router.h"

namespace ros2s::engined {

class Engine {
  public:
    // Errors, each with a sentence: those of opening pools, providers and certificates, and of
    // listening.
    [[nodiscard]] static Task<Result<std::unique_ptr<Engine>>> start(api::Environment environment,
                                                                     Settings settings,
                                                                     Report& report);
    ~Engine();
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;

    // No new sessions; what was begun is answered; then everything is closed. The pools need no
    // recovery afterwards.
    Task<> stop();

    [[nodiscard]] std::vector<exporter::Source> metrics() const;

  private:
    struct Port {
        std::unique_ptr<fabric::Domain> domain;
        std::unique_ptr<rpc::Server> server;
    };
    Engine(api::Environment environment, Settings settings);
    Task<Result<>> begin(Report& report);
    Task<Result<>> listen(Listen where, Report& report);
    Task<Result<>> open_control(Report& report);

    api::Environment environment_;
    Settings settings_;
    Pools pools_;
    session::TicketTable tickets_;
    session::SessionTable sessions_;
    session::SessionGate gate_;
    std::unique_ptr<StoreRouter> router_;
    std::vector<Port> ports_;
    std::unique_ptr<control::ControlServer> control_;
};

}  // namespace ros2s::engined
