// SimDpu: a DPU in a simulation, between hosts and a Machine: a file system over the network to the
// engine, offered over the host link. It can be killed right before or right after one of its
// updates is committed, when no host knows, and comes up again by itself, with nothing of what it
// had in memory. AppHost: a host of it, which follows it over its restarts.
//
// The control plane's part is done by plain calls, whose answers a killed DPU does not give.
#pragma once
#include <memory>
#include <string>

#include "machine.h"
#include "ros2s/client/client_store.h"
#include "ros2s/hostlink/link_client.h"
#include "ros2s/hostlink/link_server.h"
#include "ros2s/rpc/update_slots.h"
#include "ros2s/session/mooring.h"

namespace ros2s {

struct SimDpuOptions {
    uint64_t strikes = 15;     // after so many it is left alone
    bool passes_names = true;  // false: the store does not get the hosts' names of updates
};

class SimDpu final : public session::FileSystemSource {
  public:
    SimDpu(sim::World& world, fabric::sim::Network& network, Machine& machine, uint64_t seed,
           SimDpuOptions options);
    ~SimDpu() override;
    Task<> start();
    // Begins to kill itself at random moments.
    void arm();
    // Starts again after each strike; halts at stop().
    static Task<> keep_running(SimDpu& self);
    void stop();

    // What the control plane would do. Errors: disconnected while it is down; stale.
    Result<session::SessionId> open_session(Uuid client);
    Result<std::string> issue_ticket(session::SessionId session);
    Task<Result<session::MountId>> mount(session::SessionId session);
    struct Using {
        session::SessionUse session;
        session::MountUse mount;
        [[nodiscard]] fs::FileSystem& fs() const { return mount->file_system(); }
    };
    Result<Using> enter(session::Place place);
    [[nodiscard]] bool has(session::SessionId session) {
        return up_ && sessions_->use(session).has_value();
    }

    [[nodiscard]] uint64_t strikes() const { return strikes_; }
    [[nodiscard]] bool is_up() const { return up_; }

  private:
    class Struck;
    friend class Struck;
    Task<> halt();
    enum class Moment : uint8_t { none, before, after };
    Moment next_moment();
    void strike();
    Task<Result<std::unique_ptr<fs::FileSystem>>> open(const Call& call, const std::string& pool,
                                                       const std::string& container,
                                                       Report& report) override;

    sim::World& world_;
    fabric::sim::Network& network_;
    Machine& machine_;
    Random random_;
    const SimDpuOptions options_;
    Report report_;
    std::unique_ptr<Host> engine_;  // the way to it
    std::unique_ptr<client::ClientStore> verified_;
    std::unique_ptr<Struck> store_;
    std::unique_ptr<session::TicketTable> tickets_;
    std::unique_ptr<session::SessionTable> sessions_;
    std::unique_ptr<session::Mounts> mounts_;
    std::unique_ptr<session::SessionGate> gate_;
    std::unique_ptr<hostlink::LinkServer> link_;
    std::unique_ptr<fabric::Domain> domain_;
    std::unique_ptr<rpc::Server> server_;
    bool up_ = false;
    bool over_ = false;
    uint64_t strikes_ = 0;
    uint64_t until_strike_ = 0;  // updates; 0: none is to come
    Event struck_;
};

class AppHost final : public rpc::TicketSource, public session::Mooring {
  public:
    AppHost(sim::World& world, fabric::sim::Network& network, SimDpu& dpu, uint8_t number);
    ~AppHost() override;
    Task<> connect();
    Task<> disconnect();
    [[nodiscard]] fs::FileSystem& files() { return *link_; }
    [[nodiscard]] const Uuid& client() const { return client_; }

  private:
    class Names;
    friend class Names;
    Task<Result<std::string>> take(Report& report) override;
    [[nodiscard]] session::Place place() const override { return place_; }
    Task<bool> moved(const Call& call, session::Place from) override;
    static Task<> follow(AppHost& self);

    sim::World& world_;
    fabric::sim::Network& network_;
    SimDpu& dpu_;
    Uuid client_;
    session::SessionId session_{};
    session::Place place_;
    bool leaving_ = false;
    std::unique_ptr<fabric::Domain> domain_;
    std::unique_ptr<rpc::Channel> channel_;
    std::unique_ptr<Names> names_;
    std::unique_ptr<hostlink::LinkClient> link_;
    Nursery following_;
    Nursery reopening_;
};

}  // namespace ros2s
