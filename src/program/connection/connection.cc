#include "connection.h"

#include <algorithm>

#include "ros2s/fabric/providers/providers.h"
#include "ros2s/runtime/process_limits.h"

namespace ros2s::connection {
namespace {

// The time that opening waits for a server that is stopping: it may be restarting.
constexpr Duration patience = std::chrono::seconds(10);
constexpr Duration pause = std::chrono::milliseconds(50);

// The sockets of the control plane and of the data plane, and segments until they are mapped.
constexpr size_t descriptors_of_connection = 4;

// A server that stops cancels its unfinished calls.
bool may_come_back(const Error& error) {
    return error.code == Code::disconnected || error.code == Code::closed ||
           error.code == Code::cancelled;
}

// The name that the server's certificate must have.
std::string name_of(const ServerAccess& server) {
    if (!server.server_name.empty()) return server.server_name;
    if (server.control.starts_with("unix:")) return "localhost";
    const std::string host = server.control.substr(0, server.control.rfind(':'));
    return host.starts_with('[') && host.ends_with(']') ? host.substr(1, host.size() - 2) : host;
}

}  // namespace

Task<Result<std::unique_ptr<Connection>>> Connection::open(Reactor& reactor, Options options,
                                                           Report& report) {
    bool was_there = false;
    for (const Time until = std::min(reactor.now() + patience, options.opening.deadline);;) {
        std::unique_ptr<Connection> connection(new Connection);
        Report attempt;
        const auto begun = co_await connection->begin(reactor, options, attempt);
        if (begun) co_return std::move(connection);
        const bool has_session = connection->tickets_ && connection->tickets_->session();
        was_there = was_there || has_session || begun.error().code == Code::closed;
        co_await connection->close();
        const bool again = was_there && may_come_back(begun.error()) && reactor.now() < until &&
                           co_await sleep_for(reactor, pause, options.opening.stop);
        if (!again) co_return report.fail(begun.error(), attempt.text());
    }
}

Task<Result<>> Connection::begin(Reactor& reactor, Options options, Report& report) {
    const ServerAccess& server = options.server;
    ROS2S_CO_TRY(check_descriptors(descriptors_of_connection, "a connection to a server", report));
    ROS2S_CO_TRY_ASSIGN(
        control_, stack_.push("ControlClient",
                              control::SessionClient::create(reactor,
                                                             {.address = server.control,
                                                              .identity = server.identity,
                                                              .server_name = server.server_name},
                                                             report)));
    client_ = Uuid::make(reactor.secrets());
    const control::SessionOptions wanted{.client = client_,
                                         .purpose = options.purpose,
                                         .pool = server.pool,
                                         .program = server.program,
                                         .providers = server.providers,
                                         .holder = options.holder};
    tickets_ = stack_.push("SessionTickets",
                           std::make_unique<control::SessionTickets>(reactor, *control_, wanted));
    ROS2S_CO_TRY_ASSIGN(const auto opened, co_await tickets_->open(options.opening, report));
    ROS2S_CO_TRY_ASSIGN(
        auto* const domain,
        stack_.push("Domain",
                    fabric::open_domain(
                        reactor, opened.provider, server.ucx_device, report,
                        {.tls = {.identity = server.identity, .server_name = name_of(server)}})));
    ROS2S_CO_TRY_ASSIGN(channel_,
                        stack_.push("Channel", co_await rpc::Channel::open(
                                                   reactor, *domain, opened.address, *tickets_,
                                                   {.service = options.service,
                                                    .client = client_,
                                                    .requests_max = options.requests_max,
                                                    .call_within = server.call_within,
                                                    .absence_errno = options.absence_errno,
                                                    .accounts = options.accounts},
                                                   report, options.opening)));
    co_return Result<>{};
}

}  // namespace ros2s::connection
