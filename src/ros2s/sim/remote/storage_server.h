// StorageServer: a storage server in a simulation: the store of a Rig, behind a server that takes
// tickets. It falls when its rig crashes, and can be struck right after an update was committed,
// before anybody is told; it starts again by itself.
//
// The control plane's part is done by plain calls, whose answers a server that is down does not
// give. World, network and rig outlive it.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ros2s/fabric/sim/network.h"
#include "ros2s/remote/store_server.h"
#include "ros2s/rpc/server.h"
#include "ros2s/runtime/sim/world.h"
#include "ros2s/session/gate.h"
#include "ros2s/sim/rig.h"

namespace ros2s::sim {

struct StorageServerOptions {
    // Strikes between commit and answer, after which it is left alone; each comes within so many
    // updates after the one before.
    uint64_t strikes = 20;
    uint64_t strike_within = 8;
    bool keeps_replies = true;  // false: the store forgets operation ids, which must be seen
    // Asked for at each opening, with true for the opening itself and false for the work that
    // follows: where the rig is to crash.
    std::function<std::optional<CrashPlan>(bool in_recovery)> next_crash;
};

class StorageServer {
  public:
    // Its name for the network's faults, and its address.
    static constexpr const char* process = "storage";

    StorageServer(World& world, fabric::sim::Network& network, Rig& rig, uint64_t seed,
                  StorageServerOptions options);
    ~StorageServer();

    // A pool with one container, "c", that holds an empty file system.
    Task<> make();
    // Opens the rig, again after each crash in its recovery, and serves. False: it does not open,
    // and problems() says so.
    Task<bool> start();
    // Closes everything, which after a crash is no clean end.
    Task<> halt();
    // Begins to strike at random moments.
    void arm();
    // Starts again after each fall; halts at stop().
    static Task<> keep_running(StorageServer& self);
    // No crash comes any more.
    void calm();
    void stop();

    [[nodiscard]] object::ContainerId container() const { return container_; }
    // The store itself, past the network. While it is up.
    [[nodiscard]] object::ObjectStore& store() { return *opened_; }
    [[nodiscard]] uint64_t strikes() const { return strikes_; }
    // Crashes of the rig, strikes not among them.
    [[nodiscard]] const std::vector<CrashPoint>& points() const { return points_; }
    [[nodiscard]] const std::vector<std::string>& problems() const { return problems_; }
    // Stored replies that were returned instead of doing something twice.
    [[nodiscard]] uint64_t replayed() const {
        return replayed_ + (service_ ? service_->metrics().replayed.value() : 0);
    }
    // What the control plane would do. Errors: disconnected while it is down.
    Task<Result<std::string>> issue_ticket(Uuid client);

  private:
    class Struck;
    friend class Struck;
    Task<bool> open_rig();
    Task<> serve();
    void arm_rig(bool in_recovery);
    void note_point(bool in_recovery);
    void committed();
    void strike();
    void fall();

    World& world_;
    fabric::sim::Network& network_;
    Rig& rig_;
    Random random_;
    const StorageServerOptions options_;
    object::ObjectStore* opened_ = nullptr;
    object::ContainerId container_{};
    std::unique_ptr<fabric::Domain> domain_;
    std::unique_ptr<Struck> store_;
    std::unique_ptr<session::TicketTable> tickets_;
    std::unique_ptr<session::SessionTable> sessions_;
    std::unique_ptr<session::SessionGate> gate_;
    std::unique_ptr<remote::StoreServer> service_;
    std::unique_ptr<rpc::Server> server_;
    bool up_ = false;
    bool calm_ = false;
    bool over_ = false;
    uint64_t strikes_ = 0;
    uint64_t replayed_ = 0;
    uint64_t until_strike_ = 0;  // updates; 0: none is to come
    bool striking_ = false;      // it is a strike that crashes the rig now
    std::vector<CrashPoint> points_;
    std::vector<std::string> problems_;
    Event struck_;
};

}  // namespace ros2s::sim
