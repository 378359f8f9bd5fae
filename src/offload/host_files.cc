#include "host_files.h"

#include <fmt/format.h>

#include "ros2s/control/remote_namespace.h"
#include "ros2s/control/session_tickets.h"
#include "ros2s/fabric/providers/providers.h"
#include "ros2s/hostlink/link_client.h"

namespace ros2s::offload {

struct HostFiles::Parts {
    std::unique_ptr<control::ControlClient> control;
    std::unique_ptr<control::SessionTickets> tickets;
    std::unique_ptr<fabric::Domain> domain;
    std::unique_ptr<rpc::Channel> channel;
    std::unique_ptr<control::RemoteNamespace> names;
    std::unique_ptr<hostlink::LinkClient> link;

    Task<Result<>> open(Reactor& reactor, HostOptions options, Report& report);
    Task<> close();
};

Task<Result<>> HostFiles::Parts::open(Reactor& reactor, HostOptions options, Report& report) {
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
                                       .purpose = session::Purpose::link,
                                       .pool = options.pool,
                                       .program = options.program,
                                       .providers = options.providers});
    ROS2S_CO_TRY_ASSIGN(const auto opened, co_await tickets->open(report));
    ROS2S_CO_TRY_ASSIGN(domain,
                        fabric::open_domain(reactor, opened.provider, options.ucx_device, report));
    ROS2S_CO_TRY_ASSIGN(channel,
                        co_await rpc::Channel::open(
                            reactor, *domain, opened.address, *tickets,
                            {.service = hostlink::file_service, .client = instance}, report));
    ROS2S_CO_TRY_ASSIGN(
        const auto mount,
        co_await control->mount(call, opened.id, options.container, options.read_only, report));
    names = std::make_unique<control::RemoteNamespace>(*control, opened.id, mount);
    link = std::make_unique<hostlink::LinkClient>(
        reactor, *channel, *names,
        hostlink::LinkClient::Options{
            .mount = mount, .client = instance, .behind = "the DPU at " + opened.address});
    co_return Result<>{};
}

Task<> HostFiles::Parts::close() {
    const Call call;
    if (link) co_await link->close_all();
    link.reset();
    if (names) {
        Report ignored;  // the session's end unmounts, too
        (void)co_await control->unmount(call, names->session(), names->mount(), ignored);
    }
    names.reset();
    if (channel) co_await channel->close();
    channel.reset();
    if (domain) co_await domain->close();
    domain.reset();
    if (tickets) co_await tickets->close();
    tickets.reset();
    control.reset();
}

HostFiles::HostFiles(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
HostFiles::~HostFiles() { ROS2S_CHECK(parts_->control == nullptr); }

Task<Result<std::unique_ptr<HostFiles>>> HostFiles::open(Reactor& reactor, HostOptions options,
                                                         Report& report) {
    auto parts = std::make_unique<Parts>();
    const auto opened = co_await parts->open(reactor, std::move(options), report);
    if (!opened) {
        co_await parts->close();
        co_return fail(opened.error());
    }
    co_return std::unique_ptr<HostFiles>(new HostFiles(std::move(parts)));
}

Task<> HostFiles::close() { return parts_->close(); }

fs::FileSystem& HostFiles::file_system() { return *parts_->link; }

void HostFiles::visit_metrics(const MetricVisitor& visit) const {
    parts_->channel->metrics().visit(visit);
    parts_->domain->counters().list(visit);
}

}  // namespace ros2s::offload
