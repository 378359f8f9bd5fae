#include "dpu.h"

#include <sys/resource.h>

#include "ros2s/base/text_parts.h"
#include "ros2s/daemon/session_sources.h"
#include "ros2s/daemon/trusted_network.h"

namespace ros2s::dpud {
namespace {

// Open files in directories have a quarter of the process's descriptors, and those of one tenant
// half of that.
session::Mounts::Options mount_bounds() {
    session::Mounts::Options bounds;
    rlimit descriptors{};
    if (::getrlimit(RLIMIT_NOFILE, &descriptors) != 0) return bounds;
    bounds.all.descriptors_max = descriptors.rlim_cur / 4;
    bounds.tenant.descriptors_max = bounds.all.descriptors_max / 2;
    return bounds;
}

// Beside a tenant with one small request at a time, one write of 1 MiB is inside, not two.
constexpr admission::Amount least_of_tenant{.requests = 2, .bytes = uint64_t{1} << 20};
// For calls that block: of DAOS, and of directories. Those of the daemon's own work, as signatures,
// have other threads.
constexpr size_t file_threads_max = 8;
// A host may have many processes with one certificate.
constexpr uint32_t sessions_of_client_max = 2048;
// At once over a pool's connection. Further ones wait here, where the weights of tenants are known.
constexpr uint16_t requests_to_engine_max = 64;

}  // namespace

Dpu::Dpu(Environment environment, Settings settings)
    : environment_(std::move(environment)),
      settings_(std::move(settings)),
      accounts_(environment_.reactor, settings_.allowances),
      tickets_(environment_.reactor, {}),
      sessions_(environment_.reactor, tickets_,
                {.per_subject_max = sessions_of_client_max, .accounts = &accounts_},
                environment_.log),
      file_threads_(file_threads_max, "ros2store-files"),
      turns_(environment_.reactor, file_threads_max),
      catalog_(environment_.reactor, environment_.blocking, {file_threads_, turns_}, sessions_),
      followed_(environment_.reactor, settings_.access, settings_.is_delegated(),
                settings_.allowances, accounts_, sessions_, catalog_.pools),
      mounts_(environment_.reactor, sessions_, catalog_, mount_bounds()),
      group_(environment_.reactor, {.least = least_of_tenant}, &accounts_,
             settings_.common.connection_bounds()),
      tenants_(environment_.reactor, group_, sessions_, environment_.log),
      link_(environment_.reactor, sessions_, mounts_,
            settings_.placement == "host" ? hostlink::Placement::host : hostlink::Placement::dpu),
      closed_(sessions_),
      advertised_(environment_.reactor, group_, link_, closed_) {}

Dpu::~Dpu() { ROS2S_CHECK(control_ == nullptr); }

// Errors that an absent engine would hide are checked first.
Task<Result<>> Dpu::begin(Report& report) {
    group_.traces.set_every(settings_.common.trace_every);
    ROS2S_CO_TRY(file_threads_.start(report));
    ROS2S_CO_TRY(co_await open_directories(report));
    ROS2S_CO_TRY(co_await control::ControlServer::check(environment_.reactor, environment_.blocking,
                                                        control_options(), report));
    ROS2S_CO_TRY(co_await open_pools(report));
    ROS2S_CO_TRY(co_await follow_tenants(report));
    ROS2S_CO_TRY_ASSIGN(const auto places,
                        daemon::parse_listen(settings_.data, "'data: listen'", report));
    const daemon::ProviderNeeds needs{
        .device = settings_.data_device,
        .identity = pki::identity_in(settings_.certificates, "server")};
    for (const daemon::Listen& place : places) {
        ROS2S_CO_TRY(co_await advertised_.listen(place, needs, environment_.log, report));
    }
    tenants_.begin(places, needs, link_);
    mounts_.on_silence([this](const session::Mounts::Lender& host, Duration waited) {
        environment_.log.warning(
            "a host did not answer: others waited {:.1f} s for the leases of session {} of {} ({}, "
            "{}) in {}/{}, holder {}, which has none now",
            std::chrono::duration<double>(waited).count(), host.session.id.value,
            host.session.tenant_name(), host.session.request.program, host.session.request.from,
            host.pool, host.container, host.id.value);
    });
    ROS2S_CO_TRY(co_await open_control(report));
    catalog_.pools.watch([this](const std::string& pool, bool reachable) {
        control_->set_pool_serving(pool, reachable);
    });
    co_return Result<>{};
}

connection::Options Dpu::connection_to(const std::string& pool) const {
    return {.server = {.control = settings_.engine,
                       .server_name = settings_.engine_name,
                       .identity = pki::identity_in(settings_.engine_certificates, "client"),
                       .pool = pool,
                       .program = "ros2store-dpu",
                       .providers = parts_of(settings_.engine_providers),
                       .ucx_device = settings_.ucx_device},
            .requests_max = requests_to_engine_max,
            .absence_errno = rpc::absent_behind,
            .accounts = &accounts_};
}

Task<Result<>> Dpu::open_pools(Report& report) {
    if (!settings_.engine_pools.empty()) {
        for (const std::string& line : daemon::trust_warnings(settings_.ways_to_engine())) {
            environment_.log.warning("the connection to the engine: " + line);
        }
    }
    if (!settings_.keys.empty()) {
        ROS2S_CO_TRY(co_await catalog_.pools.use_keys(environment_, settings_.keys,
                                                      settings_.keep_keys,
                                                      settings_.new_container_key, report));
    }
    for (const auto& [name, pool] : settings_.rados_pools) {
        ROS2S_CO_TRY(co_await catalog_.pools.open_in_cluster(environment_, name, pool, report));
    }
    if (settings_.is_delegated()) {
        catalog_.pools.open_delegated(connection_to({}), settings_.engine_pools, mounts_,
                                      environment_.log);
        co_return Result<>{};
    }
    for (const std::string& pool : settings_.engine_pools) {
        ROS2S_CO_TRY(co_await catalog_.pools.open(connection_to(pool), environment_.log, report));
    }
    co_return Result<>{};
}

Task<Result<>> Dpu::follow_tenants(Report& report) {
    if (settings_.engine_pools.empty()) co_return Result<>{};
    ROS2S_CO_TRY(co_await followed_.begin(
        {.address = settings_.engine,
         .identity = pki::identity_in(settings_.engine_certificates, "client"),
         .server_name = settings_.engine_name},
        settings_.engine_pools, environment_.log, report));
    catalog_.pools.chains.ask(followed_.engine());
    co_return Result<>{};
}

Task<Result<>> Dpu::open_directories(Report& report) {
    for (const auto& [name, path] : settings_.directories) {
        ROS2S_CO_TRY(co_await catalog_.served.add(name, path, environment_.log, report));
    }
    for (const auto& [name, pool] : settings_.daos) {
        ROS2S_CO_TRY(co_await catalog_.daos.add(name, pool, environment_.log, report));
    }
    co_return Result<>{};
}

control::ControlOptions Dpu::control_options() const {
    return {.listen = parts_of(settings_.control),
            .identity = pki::identity_in(settings_.certificates, "server"),
            .purpose = session::Purpose::link,
            .data = advertised_.addresses(),
            .program = "ros2store-dpu " ROS2STORE_VERSION,
            .administrators = settings_.administrators,
            .connections_per_subject_max = sessions_of_client_max};
}

Task<Result<>> Dpu::open_control(Report& report) {
    ROS2S_CO_TRY_ASSIGN(
        control_, co_await control::ControlServer::start({.reactor = environment_.reactor,
                                                          .blocking = environment_.blocking,
                                                          .sessions = sessions_,
                                                          .tickets = tickets_,
                                                          .pools = catalog_,
                                                          .mounts = &mounts_,
                                                          .admission = &group_.admission,
                                                          .tenant_listeners = &tenants_,
                                                          .capabilities = &catalog_.pools.chains,
                                                          .log = environment_.log},
                                                         control_options(), report));
    co_return Result<>{};
}

Task<> Dpu::stop() {
    co_await catalog_.pools.stop();
    if (control_) co_await control_->stop(settings_.common.drain);
    co_await advertised_.drain();
    co_await tenants_.drain();
    // Requests that are drained need rights.
    co_await followed_.stop();
    catalog_.pools.leave_orphans();
    co_await sessions_.close_all();
    control_.reset();
    co_await advertised_.close();
    co_await catalog_.pools.close();
    co_await catalog_.daos.close();
}

std::vector<exporter::Source> Dpu::metrics() const {
    std::vector<exporter::Source> sources;
    sources.push_back({.list =
                           [this](const MetricVisitor& visit) {
                               sessions_.metrics().visit(visit);
                               sessions_.audit().metrics().visit(visit);
                               tickets_.metrics().visit(visit);
                               control_->visit_metrics(visit);
                               link_.metrics().visit(visit);
                               mounts_.visit_metrics(visit);
                               group_.admission.visit_metrics(visit);
                               visit("ros2store_shm_segments_bytes",
                                     "Shared memory mapped for the hosts of all tenants",
                                     tenants_.segments_bytes());
                               visit("ros2store_dpu_listing_bytes",
                                     "Memory for names that open directories keep for seeks",
                                     catalog_.pools.listing_bytes());
                           },
                       .times =
                           [this](const HistogramVisitor& visit) {
                               link_.visit_times(visit);
                               mounts_.visit_times(visit);
                               control_->visit_times(visit);
                           }});
    catalog_.pools.add_metrics(sources);
    followed_.add_metrics(sources);
    advertised_.add_metrics(sources);
    sources.push_back({.list = {}, .others = [this] { return tenants_.metrics(); }});
    sources.push_back({.list = {}, .others = [this] { return daemon::sources_of(accounts_); }});
    sources.push_back(
        {.list = {}, .others = [this] {
             return daemon::sources_of(
                 sessions_,
                 [this](const auto& session) { return mounts_.containers_of(session.id); },
                 [this](const auto& session) {
                     return catalog_.pools.not_durable(mounts_.all_of(session.id));
                 });
         }});
    return sources;
}

std::vector<std::string> Dpu::addresses() const {
    return daemon::spoken_addresses(control_->addresses(), advertised_.addresses());
}

}  // namespace ros2s::dpud
