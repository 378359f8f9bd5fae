#include "ros2s/api/network_container.h"

#include <errno.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>

#include "ros2s/api/server_place.h"
#include "ros2s/connection/direct_pool.h"
#include "ros2s/connection/host_files.h"
#include "ros2s/fs/container.h"
#include "ros2s/pki/certificate.h"

namespace ros2s::api {
namespace {

std::string from_environment(const char* name, std::string otherwise) {
    const char* value = std::getenv(name);
    return value == nullptr || *value == '\0' ? std::move(otherwise) : value;
}

// By which the data travels.
struct Way {
    std::vector<std::string> providers;  // best first
    std::string ucx_device;
};

Result<Way> way_to(const ServerPlace& server, const Uri& uri, Report& report) {
    // The host link is for hosts that nobody trusts: over shm, but for a URI that names ofi+verbs.
    const bool dpu = uri.transport == Uri::Transport::dpu;
    const std::string device =
        from_environment("ROS2STORE_UCX_DEVICE", server.same_machine ? "lo" : "");
    Way way{.ucx_device = device};
    if (!uri.provider.empty()) {
        way.providers = {uri.provider};
    } else if (dpu || server.same_machine) {
        way.providers = {"shm"};
    } else if (device.contains(':')) {
        way.providers = {"ofi+verbs", "ucx+rc"};
    } else {
        way.providers = {"ucx+tcp"};
    }
    if (device.empty() && way.providers.front() != "shm") {
        return report.fail(Code::invalid,
                           fmt::format("name the network device by which {} is reached in the "
                                       "environment: ROS2STORE_UCX_DEVICE=eth0, or mlx5_0:1 for "
                                       "RDMA; `ip -brief address` lists those of this machine",
                                       server.control));
    }
    return way;
}

}  // namespace

struct NetworkContainer::Parts {
    std::unique_ptr<connection::DirectPool> pool;  // direct
    std::unique_ptr<fs::FileSystem> dfs;
    std::unique_ptr<connection::HostFiles> host;  // offload

    Task<Result<>> open(const Call& call, Environment environment, Uri uri, NetworkOptions options,
                        Report& report);
    Task<> close();
};

Task<Result<>> NetworkContainer::Parts::open(const Call& call, Environment environment, Uri uri,
                                             NetworkOptions options, Report& report) {
    ROS2S_CO_TRY_ASSIGN(const ServerPlace server, server_place(uri, report));
    ROS2S_CO_TRY_ASSIGN(const Way way, way_to(server, uri, report));
    const std::string program = fmt::format(
        "{}, process {}",
        options.program.empty() ? ::program_invocation_short_name : options.program, ::getpid());
    if (uri.transport == Uri::Transport::dpu) {
        ROS2S_CO_TRY_ASSIGN(host, co_await connection::HostFiles::open(
                                      environment.reactor,
                                      {.control = server.control,
                                       .server_name = server.name,
                                       .identity = pki::identity_in(server.certificates, "client"),
                                       .pool = uri.pool,
                                       .container = uri.container,
                                       .read_only = options.read_only,
                                       .program = program,
                                       .providers = way.providers,
                                       .ucx_device = way.ucx_device},
                                      report));
        co_return Result<>{};
    }
    ROS2S_CO_TRY_ASSIGN(pool, co_await connection::DirectPool::open(
                                  environment.reactor,
                                  {.control = server.control,
                                   .server_name = server.name,
                                   .identity = pki::identity_in(server.certificates, "client"),
                                   .pool = uri.pool,
                                   .program = program,
                                   .providers = way.providers,
                                   .ucx_device = way.ucx_device},
                                  environment.log, report));
    ROS2S_CO_TRY_ASSIGN(
        dfs, co_await fs::open_container(call, environment.reactor, pool->store(),
                                         fmt::format("the pool '{}'", uri.pool), uri.container,
                                         {.reaps = !options.read_only}, report));
    co_return Result<>{};
}

Task<> NetworkContainer::Parts::close() {
    if (dfs) co_await dfs->close_all();
    dfs.reset();
    if (pool) co_await pool->close();
    pool.reset();
    if (host) co_await host->close();
    host.reset();
}

NetworkContainer::NetworkContainer(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
NetworkContainer::~NetworkContainer() = default;

Task<Result<std::unique_ptr<NetworkContainer>>> NetworkContainer::open(
    const Call& call, Environment environment, Uri uri, NetworkOptions options, Report& report) {
    auto parts = std::make_unique<Parts>();
    const std::string directory = uri.dir;
    const auto opened =
        co_await parts->open(call, environment, std::move(uri), std::move(options), report);
    if (!opened) {
        co_await parts->close();
        if (opened.error().code == Code::not_found &&
            report.text().contains(client_certificates() + "/")) {
            report.say("or name the directory that has them in ROS2STORE_CERTS");
        }
        // A killed daemon leaves its sockets, so that the way to it seemed to be there.
        if (opened.error().code == Code::disconnected && !directory.empty()) {
            report.say(fmt::format("start what does not run: ros2store up {}", directory));
        }
        co_return fail(opened.error());
    }
    co_return std::unique_ptr<NetworkContainer>(new NetworkContainer(std::move(parts)));
}

Task<> NetworkContainer::close() { return parts_->close(); }

fs::FileSystem& NetworkContainer::file_system() {
    return parts_->host ? parts_->host->file_system() : *parts_->dfs;
}

std::string NetworkContainer::path() const {
    return parts_->host ? parts_->host->path() : parts_->pool->path();
}

void NetworkContainer::visit_metrics(const MetricVisitor& visit) const {
    if (parts_->host) parts_->host->visit_metrics(visit);
    if (parts_->pool) parts_->pool->visit_metrics(visit);
}

}  // namespace ros2s::api
