// AppHost: a host of a Dpu. Its file system is the host link's and follows the DPU over restarts.
// If the DPU lends leases, there is a cache over it. It cannot reach the storage server.
#pragma once
#include <memory>
#include <string>

#include "dpu.h"
#include "own_clock.h"
#include "ros2s/cache/cached_file_system.h"
#include "ros2s/hostlink/link_client.h"
#include "ros2s/session/mount_location.h"

namespace ros2s::sim {

class AppHost final : public rpc::TicketSource, public session::MountLocator {
  public:
    // `number` is unique among all hosts.
    AppHost(World& world, fabric::sim::Network& network, Dpu& dpu, uint8_t number,
            int64_t clock_percent = 100);
    ~AppHost() override;
    // Each time as another process. Returns when the DPU has mounted the container.
    Task<> connect();
    Task<> disconnect();
    // Its process ends: nothing of it reaches the DPU any more. Its calls fail. disconnect()
    // follows.
    void kill();
    [[nodiscard]] bool is_killed() const { return is_killed_; }
    [[nodiscard]] Reactor& core() { return core_; }
    [[nodiscard]] fs::FileSystem& files() {
        return cached_ ? *cached_ : static_cast<fs::FileSystem&>(*link_);
    }
    // Look-ups and attributes that needed no request.
    [[nodiscard]] uint64_t hits() const { return cached_ ? cached_->metrics().hits.value() : 0; }
    [[nodiscard]] const Uuid& client() const { return client_; }
    void set_clock(Duration offset) { core_.set(offset); }
    // Its name for the network's faults.
    [[nodiscard]] const std::string& process() const { return process_; }
    [[nodiscard]] const rpc::ChannelMetrics& metrics() const { return channel_->metrics(); }

  private:
    Task<Result<std::string>> take(Report& report) override;
    [[nodiscard]] session::MountLocation location() const override { return place_; }
    Task<Result<>> moved(const Call& call, session::MountLocation from) override;
    static Task<> follow(AppHost& self);
    Task<> reach_dpu();

    World& world_;
    OwnClock core_;
    fabric::sim::Network& network_;
    Dpu& dpu_;
    const std::string process_;
    Uuid client_;
    session::SessionId session_{};
    session::MountLocation place_;
    bool leaving_ = false;
    bool is_killed_ = false;
    std::unique_ptr<fabric::Domain> domain_;
    std::unique_ptr<rpc::Channel> channel_;
    std::unique_ptr<hostlink::LinkClient> link_;
    std::unique_ptr<cache::CachedFileSystem> cached_;
    Nursery following_;
    const Call call_{};  // of what `reopening_` runs
    Nursery reopening_;
};

}  // namespace ros2s::sim
