#include "direct_pool.h"

#include <fmt/format.h>

#include "ros2s/client/client_store.h"
#include "ros2s/connection/connection.h"
#include "ros2s/remote/remote_store.h"

namespace ros2s::direct {

struct DirectPool::Parts {
    std::unique_ptr<connection::Connection> connection;
    std::unique_ptr<remote::RemoteStore> remote;
    std::unique_ptr<client::ClientStore> client;

    Task<Result<>> open(Reactor& reactor, DirectOptions options, Log log, Report& report);
    Task<> close();
};

Task<Result<>> DirectPool::Parts::open(Reactor& reactor, DirectOptions options, Log log,
                                       Report& report) {
    const Call call;
    ROS2S_CO_TRY_ASSIGN(connection, co_await connection::Connection::open(
                                        reactor,
                                        {.control = {.address = options.control,
                                                     .identity = options.identity,
                                                     .server_name = options.server_name},
                                         .wish = {.purpose = session::Purpose::store,
                                                  .pool = options.pool,
                                                  .program = options.program,
                                                  .providers = options.providers},
                                         .service = remote::object_service,
                                         .ucx_device = options.ucx_device,
                                         .absence_errno = options.absence_errno},
                                        report));
    ROS2S_CO_TRY_ASSIGN(remote,
                        co_await remote::RemoteStore::open(call, connection->channel(), report));
    client = std::make_unique<client::ClientStore>(reactor, *remote, std::move(log));
    co_return Result<>{};
}

Task<> DirectPool::Parts::close() {
    client.reset();
    remote.reset();
    if (connection) co_await connection->close();
    connection.reset();
}

DirectPool::DirectPool(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
DirectPool::~DirectPool() { ROS2S_CHECK(parts_->connection == nullptr); }

Task<Result<std::unique_ptr<DirectPool>>> DirectPool::open(Reactor& reactor, DirectOptions options,
                                                           Log log, Report& report) {
    auto parts = std::make_unique<Parts>();
    const auto opened = co_await parts->open(reactor, std::move(options), std::move(log), report);
    if (!opened) {
        co_await parts->close();
        co_return fail(opened.error());
    }
    co_return std::unique_ptr<DirectPool>(new DirectPool(std::move(parts)));
}

Task<> DirectPool::close() { return parts_->close(); }

object::ObjectStore& DirectPool::store() { return *parts_->client; }

std::string DirectPool::path() const { return parts_->client->path(); }

std::string DirectPool::path_without_address() const {
    return fmt::format("{} to its {}", provider(), parts_->remote->path_there());
}

std::string DirectPool::provider() const { return parts_->connection->channel().provider(); }

const std::optional<rpc::Absence>& DirectPool::absence() const {
    return parts_->connection->channel().absence();
}

void DirectPool::visit_metrics(const MetricVisitor& visit) const {
    parts_->client->metrics().visit(visit);
    parts_->connection->visit_metrics(visit);
}

}  // namespace ros2s::direct
