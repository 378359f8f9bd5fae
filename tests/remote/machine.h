// Machine: a storage server in a simulation: the engine on simulated disks, behind a server that
// takes tickets. It can be struck right after an update was committed, before anybody is told, and
// starts again by itself. Host: a client of it.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "ros2s/device/sim/sim_disk.h"
#include "ros2s/engine/engine_store.h"
#include "ros2s/engine/index/sim/ordered_map_index.h"
#include "ros2s/fabric/sim/network.h"
#include "ros2s/remote/remote_store.h"
#include "ros2s/remote/store_server.h"
#include "ros2s/rpc/server.h"
#include "ros2s/runtime/sim/world.h"
#include "ros2s/session/gate.h"

namespace ros2s {

struct MachineOptions {
    uint64_t strikes = 20;      // after so many it is left alone
    bool keeps_replies = true;  // false: the store forgets operation ids, which must be seen
};

class Machine {
  public:
    Machine(sim::World& world, fabric::sim::Network& network, uint64_t seed,
            MachineOptions options);
    ~Machine();

    // A pool with one container, "c", that holds an empty file system.
    Task<> make();
    Task<> start();
    // Closes everything, which after a strike is no clean end.
    Task<> halt();
    // Begins to strike at random moments.
    void arm();
    // Starts again after each strike; halts at stop().
    static Task<> keep_running(Machine& self);
    void stop();

    [[nodiscard]] object::ContainerId container() const { return container_; }
    [[nodiscard]] engine::EngineStore& engine() { return *engine_; }
    [[nodiscard]] uint64_t strikes() const { return strikes_; }
    // Stored replies that were returned instead of doing something twice.
    [[nodiscard]] uint64_t replayed() const {
        return replayed_ + (service_ ? service_->metrics().replayed.value() : 0);
    }
    // What the control plane would do. Errors: disconnected while it is down.
    Task<Result<std::string>> issue_ticket(Uuid client);

  private:
    class Struck;
    friend class Struck;
    Task<Result<>> open_engine();
    Task<engine::EngineStore::Devices> devices();
    engine::IndexFactory index();
    void committed();
    void strike();

    sim::World& world_;
    fabric::sim::Network& network_;
    Random random_;
    const MachineOptions options_;
    engine::Env env_;
    Report report_;
    std::vector<std::unique_ptr<device::SimDisk>> disks_;
    engine::OrderedMapMedium medium_;
    object::ContainerId container_{};
    std::unique_ptr<fabric::Domain> domain_;
    std::unique_ptr<engine::EngineStore> engine_;
    std::unique_ptr<Struck> store_;
    std::unique_ptr<session::TicketTable> tickets_;
    std::unique_ptr<session::SessionTable> sessions_;
    std::unique_ptr<session::SessionGate> gate_;
    std::unique_ptr<remote::StoreServer> service_;
    std::unique_ptr<rpc::Server> server_;
    bool up_ = false;
    bool over_ = false;
    uint64_t strikes_ = 0;
    uint64_t replayed_ = 0;
    uint64_t until_strike_ = 0;  // updates; 0: none is to come
    Event struck_;
};

class Host final : private rpc::TicketSource {
  public:
    Host(sim::World& world, fabric::sim::Network& network, Machine& machine, uint8_t number);
    Task<> connect();
    Task<> disconnect();
    // From here on there are no tickets: what is lost does not come back.
    void refuse() { refused_ = true; }
    [[nodiscard]] remote::RemoteStore& store() { return *store_; }
    [[nodiscard]] const Uuid& client() const { return client_; }
    [[nodiscard]] rpc::Channel& channel() { return *channel_; }

  private:
    Task<Result<std::string>> take(Report& report) override;
    sim::World& world_;
    fabric::sim::Network& network_;
    Machine& machine_;
    bool refused_ = false;
    Uuid client_;
    std::unique_ptr<fabric::Domain> domain_;
    std::unique_ptr<rpc::Channel> channel_;
    std::unique_ptr<remote::RemoteStore> store_;
};

}  // namespace ros2s
