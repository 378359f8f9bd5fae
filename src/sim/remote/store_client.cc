#include "store_client.h"

namespace ros2s::sim {

StoreClient::StoreClient(World& world, Reactor& core, fabric::sim::Network& network,
                         StorageServer& server, std::string process, Uuid client)
    : world_(world),
      core_(core),
      network_(network),
      server_(server),
      process_(std::move(process)),
      client_(client) {}
StoreClient::~StoreClient() = default;

Task<Result<std::string>> StoreClient::take(Report& /*report*/) {
    if (refused_) co_return fail(Code::denied);
    if (network_.is_stalled(process_)) co_return fail(Code::disconnected);
    co_return server_.issue_ticket(client_, session_);
}

Task<Result<>> StoreClient::connect() {
    domain_ = network_.open_domain(world_.core(), process_);
    const Result<> opened = co_await open_store();
    if (!opened) co_await disconnect();
    co_return opened;
}

Task<Result<>> StoreClient::open_store() {
    // Faults may follow each other.
    constexpr Duration patience = std::chrono::minutes(5);
    Report report;
    ROS2S_CO_TRY_ASSIGN(
        channel_,
        co_await rpc::Channel::open(
            core_, *domain_, StorageServer::process, *this,
            {.service = remote::object_service, .client = client_, .patience = patience}, report));
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
