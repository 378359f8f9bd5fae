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
    AppHost(World& world, fabric::sim::Network& network, Dpu& dpu, uint8_t number);
    ~AppHost() override;
    // The DPU must be up, and the network must lose nothing meanwhile.
    Task<> connect();
    Task<> disconnect();
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

    OwnClock core_;
    fabric::sim::Network& network_;
    Dpu& dpu_;
    const std::string process_;
    Uuid client_;
    session::SessionId session_{};
    session::MountLocation place_;
    bool leaving_ = false;
    std::unique_ptr<fabric::Domain> domain_;
    std::unique_ptr<rpc::Channel> channel_;
    std::unique_ptr<hostlink::LinkClient> link_;
    std::unique_ptr<cache::CachedFileSystem> cached_;
    Nursery following_;
    const Call call_{};  // of what `reopening_` runs
    Nursery reopening_;
};

}  // namespace ros2s::sim
