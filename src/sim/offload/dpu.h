// Dpu: a DPU in a simulation, between hosts and a StorageServer. It has a file system over the
// network to the store, and offers it over the host link. It can be killed right before or right
// after one of its updates is committed, when no host has the result, or at any moment. It restarts
// by itself, without anything that it had in memory.
//
// Plain calls replace the control plane; a killed DPU does not answer them.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "own_clock.h"
#include "ros2s/client/verifying_store.h"
#include "ros2s/hostlink/link_server.h"
#include "ros2s/session/mount_location.h"
#include "ros2s/sim/remote/store_client.h"

namespace ros2s::sim {

struct DpuOptions {
    uint64_t number = 0;                               // its index among several DPUs
    uint64_t strikes = 15;                             // after this many it is left alone
    uint64_t strike_within = 8;                        // within this many updates
    Duration orphan_grace = std::chrono::seconds(60);  // fs::DfsOptions
    bool passes_names = true;    // false: the store does not get the hosts' names of updates
    bool lends = false;          // leases to its hosts
    bool ends_sessions = false;  // of hosts that have been away for long
    int64_t clock_percent = 100;
    // Some answers of the store come later by up to this, after others that were sent later.
    Duration late_most{};
};

class Dpu final : public session::FileSystemSource, private session::SessionWatcher {
  public:
    Dpu(World& world, fabric::sim::Network& network, StorageServer& server, uint64_t seed,
        DpuOptions options);
    ~Dpu() override;
    // Waits until the storage server is there. False if stop() comes first.
    Task<bool> start();
    // Begins to kill itself at random moments.
    void arm();
    // Kills it now, unless it is down.
    void kill();
    // Restarts after each kill, until stop().
    static Task<> keep_running(Dpu& self);
    void calm() { until_strike_ = 0; }
    void set_clock(Duration offset) { core_.set(offset); }
    void stop();

    // Replace the control plane. Errors: disconnected while it is down; stale.
    Result<session::SessionId> open_session(Uuid client);
    Result<std::string> issue_ticket(session::SessionId session);
    Task<Result<session::MountId>> mount(session::SessionId session);
    [[nodiscard]] bool has(session::SessionId session) {
        return up_ && sessions_->use(session).has_value();
    }

    // Names for the network's faults: its side towards hosts, which is also its address, and its
    // side towards the storage server.
    [[nodiscard]] const std::string& process() const { return process_; }
    [[nodiscard]] const std::string& client_process() const { return client_process_; }
    [[nodiscard]] uint64_t strikes() const { return strikes_; }
    // Includes strikes.
    [[nodiscard]] uint64_t kills() const { return kills_; }
    [[nodiscard]] uint64_t straight_reads() const { return straight_reads_; }
    [[nodiscard]] bool is_up() const { return up_; }
    [[nodiscard]] bool lends() const { return options_.lends; }
    // Changes when what a host had here ends without it: with the DPU, with the host's session, or
    // with the DPU's session at the storage server.
    [[nodiscard]] uint64_t ends_of(const Uuid& host) const;

  private:
    class Struck;
    friend class Struck;
    Task<bool> reach_store();
    Task<> serve();
    Task<> halt();
    enum class Moment : uint8_t { none, before, after };
    Moment next_moment();
    void strike();
    Task<> session_ending(session::Session& session) override;
    Task<> be_late();
    Task<Result<std::unique_ptr<fs::FileSystem>>> open(const Call& call,
                                                       const session::MountedContainer& which,
                                                       Report& report) override;
    [[nodiscard]] bool lends(const std::string&, const std::string&) const override {
        return options_.lends;
    }

    World& world_;
    OwnClock core_;
    fabric::sim::Network& network_;
    StorageServer& storage_;
    Random random_;
    const DpuOptions options_;
    const std::string process_, client_process_;
    std::unique_ptr<StoreClient> engine_;  // the path to the storage server
    std::unique_ptr<client::VerifyingStore> verified_;
    std::unique_ptr<Struck> store_;
    std::unique_ptr<session::TicketTable> tickets_;
    std::unique_ptr<session::SessionTable> sessions_;
    std::unique_ptr<session::Mounts> mounts_;
    std::unique_ptr<session::SessionGate> gate_;
    std::unique_ptr<hostlink::LinkServer> link_;
    std::unique_ptr<fabric::Domain> domain_;
    std::unique_ptr<rpc::Server> server_;
    std::optional<StopSource> reaping_stop_;
    Nursery reaping_;
    std::map<Uuid, uint64_t> ends_;  // of sessions, by host
    bool up_ = false;
    bool is_straight_;  // small reads go straight: in every second life
    bool over_ = false;
    uint64_t strikes_ = 0;
    uint64_t kills_ = 0;
    uint64_t straight_reads_ = 0;  // that were begun
    uint64_t until_strike_ = 0;    // updates until the next kill; 0: none is planned
    Event struck_;
};

}  // namespace ros2s::sim
