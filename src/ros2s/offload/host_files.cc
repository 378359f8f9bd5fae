#include "host_files.h"

#include <fmt/format.h>

#include "host_mooring.h"
#include "ros2s/connection/connection.h"
#include "ros2s/control/remote_namespace.h"
#include "ros2s/hostlink/link_client.h"

namespace ros2s::offload {

struct HostFiles::Parts {
    std::unique_ptr<connection::Connection> connection;
    std::unique_ptr<HostMooring> mooring;
    std::unique_ptr<control::RemoteNamespace> names;
    std::unique_ptr<hostlink::LinkClient> link;

    Task<Result<>> open(Reactor& reactor, HostOptions options, Report& report);
    Task<> close();
};

Task<Result<>> HostFiles::Parts::open(Reactor& reactor, HostOptions options, Report& report) {
    ROS2S_CO_TRY_ASSIGN(connection, co_await connection::Connection::open(
                                        reactor,
                                        {.control = {.address = options.control,
                                                     .identity = options.identity,
                                                     .server_name = options.server_name},
                                         .wish = {.purpose = session::Purpose::link,
                                                  .pool = options.pool,
                                                  .program = options.program,
                                                  .providers = options.providers},
                                         .service = hostlink::file_service,
                                         .ucx_device = options.ucx_device},
                                        report));
    mooring = std::make_unique<HostMooring>(reactor, connection->control(), connection->tickets(),
                                            options.container, options.read_only);
    ROS2S_CO_TRY(co_await mooring->mount(report));
    names = std::make_unique<control::RemoteNamespace>(connection->control(), *mooring,
                                                       connection->client());
    link = std::make_unique<hostlink::LinkClient>(
        reactor, connection->channel(), *names, *mooring,
        hostlink::LinkClient::Options{.client = connection->client(),
                                      .behind = "the DPU at " + connection->channel().address()});
    co_await mooring->follow(*link);
    co_return Result<>{};
}

Task<> HostFiles::Parts::close() {
    const Call call;
    if (mooring) co_await mooring->close();
    if (link) co_await link->close_all();
    link.reset();
    names.reset();
    if (mooring) {
        Report ignored;  // the session's end unmounts, too
        const session::Place place = mooring->place();
        (void)co_await connection->control().unmount(call, place.session, place.mount, ignored);
    }
    mooring.reset();
    if (connection) co_await connection->close();
    connection.reset();
}

HostFiles::HostFiles(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
HostFiles::~HostFiles() { ROS2S_CHECK(parts_->connection == nullptr); }

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

std::string HostFiles::path() const {
    const rpc::Channel& channel = parts_->connection->channel();
    const std::string keeper = parts_->mooring->keeper();
    return fmt::format("offload over {} to the DPU at {}{}{}", channel.provider(),
                       channel.address(), keeper.empty() ? "" : ", ", keeper);
}

void HostFiles::visit_metrics(const MetricVisitor& visit) const {
    parts_->connection->visit_metrics(visit);
}

}  // namespace ros2s::offload
