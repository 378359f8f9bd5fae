// StoreClient: a client process of a StorageServer: a channel to it and a RemoteStore over the
// channel.
#pragma once
#include <memory>
#include <string>

#include "ros2s/remote/remote_store.h"
#include "storage_server.h"

namespace ros2s::sim {

class StoreClient final : private rpc::TicketSource {
  public:
    // `process` is its name for the network's faults; `client` is its client instance.
    // `core`: with the clock of its machine.
    StoreClient(World& world, Reactor& core, fabric::sim::Network& network, StorageServer& server,
                std::string process, Uuid client);
    ~StoreClient() override;
    // Errors: those of rpc::Channel::open() and RemoteStore::open(). After an error nothing remains
    // of it.
    Task<Result<>> connect();
    Task<> disconnect();
    // From here on there are no tickets: a lost connection does not come back.
    void refuse() { refused_ = true; }
    [[nodiscard]] remote::RemoteStore& store() { return *store_; }
    [[nodiscard]] const Uuid& client() const { return client_; }
    [[nodiscard]] rpc::Channel& channel() { return *channel_; }

  private:
    Task<Result<std::string>> take(Report& report) override;
    Task<Result<>> open_store();
    World& world_;
    Reactor& core_;
    fabric::sim::Network& network_;
    StorageServer& server_;
    const std::string process_;
    const Uuid client_;
    session::SessionId session_{};
    bool refused_ = false;
    std::unique_ptr<fabric::Domain> domain_;
    std::unique_ptr<rpc::Channel> channel_;
    std::unique_ptr<remote::RemoteStore> store_;
};

}  // namespace ros2s::sim
