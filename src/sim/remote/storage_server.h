// StorageServer: a storage server in a simulation: the store of a Rig, behind a server that takes
// tickets. It ends when its rig crashes, and when a
// request fails because of a device. It can also be killed ("struck") right after an update was
// committed, before the client gets the reply. It restarts by itself.
//
// Plain calls replace the control plane; a server that is down does not answer them. World, network
// and rig outlive it.
#pragma once
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ros2s/fabric/sim/network.h"
#include "ros2s/remote/store_server.h"
#include "ros2s/rpc/server.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/sim/world.h"
#include "ros2s/runtime/stop.h"
#include "ros2s/session/gate.h"
#include "ros2s/sim/rig.h"

namespace ros2s::sim {

struct StorageServerOptions {
    // Kills between commit and reply. After this many it is left alone. Each comes within this many
    // updates of the previous one.
    uint64_t strikes = 20;
    uint64_t strike_within = 8;
    bool ends_sessions = false;  // of clients that have been away for long
    bool keeps_replies = true;   // false: the store forgets update names; the test must detect that
    // Called at each opening, with true for the opening itself and false for the work that follows:
    // returns where the rig is to crash.
    std::function<std::optional<CrashPlan>(bool in_recovery)> next_crash;
};

class StorageServer final : private session::SessionWatcher {
  public:
    // Its name for the network's faults, and its address.
    static constexpr const char* process = "storage";

    StorageServer(World& world, fabric::sim::Network& network, Rig& rig, uint64_t seed,
                  StorageServerOptions options);
    ~StorageServer() override;

    // Creates a pool with one container, "c", that has an empty file system.
    Task<> make();
    // Opens the rig, again after each crash during recovery, and serves. False: it cannot be
    // opened; problems() has the reason.
    Task<bool> start();
    // Closes everything. After a crash this is not a clean end.
    Task<> halt();
    // Begins to kill the server at random moments.
    void arm();
    // Kills it now, unless it is down.
    void kill();
    // Restarts after each end, until stop().
    static Task<> keep_running(StorageServer& self);
    // From now on there are no crashes.
    void calm();
    void stop();

    [[nodiscard]] bool is_up() const { return up_; }
    [[nodiscard]] object::ContainerId container() const { return container_; }
    // The store itself, without the network. Only while the server runs.
    [[nodiscard]] object::ObjectStore& store() { return *opened_; }
    [[nodiscard]] uint64_t strikes() const { return strikes_; }
    // Ends because a request failed after a device had reported an error.
    [[nodiscard]] uint64_t device_errors() const { return device_errors_; }
    // Crashes of the rig, without kills between commit and reply.
    [[nodiscard]] const std::vector<CrashPoint>& points() const { return points_; }
    [[nodiscard]] const std::vector<std::string>& problems() const { return problems_; }
    // Stored replies that were returned so that nothing was done twice.
    [[nodiscard]] uint64_t replayed() const {
        return replayed_ + (service_ ? service_->metrics().replayed.value() : 0);
    }
    // How often a session of the client has ended here.
    [[nodiscard]] uint64_t ends_of(const Uuid& client) const {
        const auto found = ends_.find(client);
        return found == ends_.end() ? 0 : found->second;
    }
    // How often it was started, this time ago or before: holders are awaited from the opening on.
    [[nodiscard]] uint64_t starts_before(Duration ago) const {
        return static_cast<uint64_t>(
            std::ranges::count_if(starts_, [&](Time each) { return each + ago <= world_.now(); }));
    }
    // Replaces the control plane. Opens the client's session if it has none, or it has ended.
    // Errors: disconnected while it is down.
    Result<std::string> issue_ticket(Uuid client, session::SessionId& session);

  private:
    class Struck;
    friend class Struck;
    Task<bool> open_rig();
    Task<> serve();
    void arm_rig(bool in_recovery);
    void note_point(bool in_recovery);
    void committed();
    void failed();
    void strike();
    void fall();
    Task<> session_ending(session::Session& session) override;

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
    std::optional<StopSource> reaping_stop_;
    Nursery reaping_;
    std::unique_ptr<remote::StoreServer> service_;
    std::unique_ptr<rpc::Server> server_;
    bool up_ = false;
    bool calm_ = false;
    bool over_ = false;
    uint64_t strikes_ = 0;
    uint64_t device_errors_ = 0;
    uint64_t replayed_ = 0;
    uint64_t until_strike_ = 0;  // updates until the next kill; 0: none is planned
    bool striking_ = false;      // the rig crashes now because of a kill
    std::vector<CrashPoint> points_;
    std::vector<std::string> problems_;
    std::map<Uuid, uint64_t> ends_;
    std::vector<Time> starts_;
    Time opening_{};  // when the last opening of the rig began
    Event struck_;
};

}  // namespace ros2s::sim
