#include "store_client.h"

namespace ros2s::sim {

StoreClient::StoreClient(World& world, fabric::sim::Network& network, StorageServer& server,
                         std::string process, Uuid client)
    : world_(world),
      network_(network),
      server_(server),
      process_(std::move(process)),
      client_(client) {}
StoreClient::~StoreClient() = default;

Task<Result<std::string>> StoreClient::take(Report& /*report*/) {
    if (refused_) co_return fail(Code::denied);
    co_return co_await server_.issue_ticket(client_);
}

Task<Result<>> StoreClient::connect() {
    domain_ = network_.open_domain(world_.core(), process_);
    const Result<> opened = co_await open_store();
    if (!opened) co_await disconnect();
    co_return opened;
}

Task<Result<>> StoreClient::open_store() {
    Report report;
    ROS2S_CO_TRY_ASSIGN(channel_,
                        co_await rpc::Channel::open(
                            world_.core(), *domain_, StorageServer::process, *this,
                            {.service = remote::object_service, .client = client_}, report));
    ROS2S_CO_TRY_ASSIGN(store_, co_await remote::RemoteStore::open({}, *channel_, report));
    co_return Result<>{};
}

Task<> StoreClient::disconnect() {
    store_.reset();
    if (channel_) co_await channel_->close();
    channel_.reset();
    co_await domain_->close();
    domain_.reset();
}

}  // namespace ros2s::sim
