#include "direct_pool.h"

#include <fmt/format.h>

#include "ros2s/client/client_store.h"
#include "ros2s/control/session_tickets.h"
#include "ros2s/fabric/providers/providers.h"
#include "ros2s/remote/remote_store.h"

namespace ros2s::direct {
struct DirectPool::Parts {
    std::unique_ptr<control::ControlClient> control;
    std::unique_ptr<control::SessionTickets> tickets;
    std::unique_ptr<fabric::Domain> domain;
    std::unique_ptr<rpc::Channel> channel;
    std::unique_ptr<remote::RemoteStore> remote;
    std::unique_ptr<client::ClientStore> client;

    Task<Result<>> open(Reactor& reactor, DirectOptions options, Log log, Report& report);
    Task<> close();
};

Task<Result<>> DirectPool::Parts::open(Reactor& reactor, DirectOptions options, Log log,
                                       Report& report) {
    const Call call;
    ROS2S_CO_TRY_ASSIGN(control,
                        control::ControlClient::create(reactor,
                                                       {.address = options.control,
                                                        .identity = options.identity,
                                                        .server_name = options.server_name},
                                                       report));
    const Uuid instance = Uuid::make(reactor.random());
    tickets = std::make_unique<control::SessionTickets>(
        *control, control::SessionWish{.client = instance,
                                       .purpose = session::Purpose::store,
                                       .pool = options.pool,
                                       .program = options.program,
                                       .providers = options.providers});
    ROS2S_CO_TRY_ASSIGN(const auto opened, co_await tickets->open(report));
    ROS2S_CO_TRY_ASSIGN(domain,
                        fabric::open_domain(reactor, opened.provider, options.ucx_device, report));
    ROS2S_CO_TRY_ASSIGN(channel,
                        co_await rpc::Channel::open(
                            reactor, *domain, opened.address, *tickets,
                            {.service = remote::object_service, .client = instance}, report));
    ROS2S_CO_TRY_ASSIGN(remote, co_await remote::RemoteStore::open(call, *channel, report));
    client = std::make_unique<client::ClientStore>(reactor, *remote, std::move(log));
    co_return Result<>{};
}

Task<> DirectPool::Parts::close() {
    client.reset();
    remote.reset();
    if (channel) co_await channel->close();
    channel.reset();
    if (domain) co_await domain->close();
    domain.reset();
    if (tickets) co_await tickets->close();
    tickets.reset();
    control.reset();
}

DirectPool::DirectPool(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
DirectPool::~DirectPool() { ROS2S_CHECK(parts_->control == nullptr); }

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

void DirectPool::visit_metrics(const MetricVisitor& visit) const {
    parts_->client->metrics().visit(visit);
    parts_->channel->metrics().visit(visit);
    parts_->domain->counters().list(visit);
}

}  // namespace ros2s::direct
