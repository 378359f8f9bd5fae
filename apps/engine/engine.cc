#include "engine.h"

#include "ros2s/daemon/session_sources.h"
#include "ros2s/daemon/trusted_network.h"
#include "ros2s/rights/sources/tenants.h"

namespace ros2s::engined {
namespace {

// A client may be a DPU with many hosts. Beside a client with one request at a time, its queue
// stays long enough for good commit groups.
constexpr admission::Amount least_of_client{.requests = 32, .bytes = uint64_t{8} << 20};
// Less than at a DPU: what a DPU's tenants do wrong may be noticed only here, and for a DPU with
// rights of its own all of them have one account.
constexpr uint32_t refusal_factor = 2;
// A machine may have many processes with one certificate, and a DPU has a session, with a
// connection, for each container that a tenant uses there.
constexpr uint32_t sessions_of_client_max = 2048;

}  // namespace

Engine::Engine(Environment environment, Settings settings)
    : environment_(std::move(environment)),
      settings_(std::move(settings)),
      accounts_(environment_.reactor, settings_.allowances),
      group_(environment_.reactor, {.least = least_of_client, .refusal_factor = refusal_factor},
             &accounts_, settings_.common.connection_bounds()),
      tickets_(environment_.reactor, {}),
      sessions_(environment_.reactor, tickets_,
                {.per_subject_max = sessions_of_client_max, .accounts = &accounts_},
                environment_.log),
      capabilities_(environment_, pools_, sessions_, group_.admission,
                    {.authority_file = settings_.capability_authority.empty()
                                           ? settings_.certificates + "/ca.crt"
                                           : settings_.capability_authority,
                     .life = settings_.capability_life}),
      gate_(sessions_, session::Purpose::store) {}

Engine::~Engine() { ROS2S_CHECK(control_ == nullptr); }

Result<> Engine::start_reactors(Report& report) {
    const uint32_t cpus = usable_cpus();
    const uint32_t count = settings_.reactors;
    if (count > cpus) {
        environment_.log.warning(
            "{} reactors share {} CPUs, which is slower than fewer reactors: see 'reactors' in the "
            "settings",
            count, cpus);
    }
    ROS2S_TRY(reactors_.start(count - 1, settings_.common.poll, report));
    environment_.more_reactors = reactors_.list();
    return {};
}

// Opening pools may take minutes, so it comes after all other checks. But a pool's owner may also
// have our addresses: it may be an engine with the same settings that runs or was just killed.
Task<Result<>> Engine::begin(Report& report) {
    group_.traces.set_every(settings_.common.trace_every);
    group_.payload_ring = environment_.reactor.ring();
    ROS2S_CO_TRY(start_reactors(report));
    ROS2S_CO_TRY_ASSIGN(const auto places, settings_.data_addresses("the settings", report));
    for (const std::string& directory : settings_.pool_directories()) {
        ROS2S_CO_TRY(co_await Pools::await_owner(environment_.reactor, directory, report));
    }
    ROS2S_CO_TRY(co_await control::ControlServer::check(environment_.reactor, environment_.blocking,
                                                        control_options(), report));
    ROS2S_CO_TRY(co_await capabilities_.check_authority(report));
    const daemon::ProviderNeeds needs{
        .device = settings_.ucx_device,
        .identity = pki::identity_in(settings_.certificates, "server")};
    for (const daemon::Listen& place : places) {
        ROS2S_CO_TRY(co_await daemon::DataPlane::check(environment_.reactor, place, needs, report));
    }
    for (const std::string& directory : settings_.pool_directories()) {
        ROS2S_CO_TRY(co_await pools_.open(environment_, directory, report));
    }
    pools_.set_administrators(settings_.administrators);
    ROS2S_CO_TRY(co_await capabilities_.begin(report));
    follow_tenants();
    router_ = std::make_unique<StoreRouter>(sessions_, pools_);
    data_ = std::make_unique<daemon::DataPlane>(environment_.reactor, group_, *router_, gate_);
    for (const std::string& line : daemon::trust_warnings(places)) environment_.log.warning(line);
    for (const daemon::Listen& place : places) {
        ROS2S_CO_TRY(co_await data_->listen(place, needs, environment_.log, report));
    }
    co_return co_await open_control(report);
}

void Engine::follow_tenants() {
    for (const std::string& name : pools_.names()) {
        pools_.tenants(name)->on_change([this] { apply_policy(); });
        pools_.leases(name)->on_slow_answer(
            [this, name](const object::SlowLease& slow) { report(name, slow); });
    }
    // What a container's owner may do is part of every decision.
    pools_.on_owner_change = [this] { apply_policy(); };
    apply_policy();
}

void Engine::report(const std::string& pool, const object::SlowLease& slow) {
    const auto shown = [this](uint64_t number) {
        const session::Session* const found = sessions_.look({number});
        if (found == nullptr) return fmt::format("session {}, which has ended", number);
        return fmt::format("session {} of {} ({}, {})", number, found->tenant_name(),
                           found->request.program, found->request.from);
    };
    environment_.log.warning(
        "pool {}: a change by {} waited {:.1f} s for the leases of {}, holder {}, which {}. "
        "`ros2store leases` shows holders, `ros2store evict` ends their leases",
        pool, shown(slow.waiter.session), std::chrono::duration<double>(slow.waited).count(),
        shown(slow.session), slow.holder.client.to_string(),
        slow.is_answered ? "answered late" : "did not answer");
}

void Engine::apply_policy() {
    rights::Parties parties{
        .subjects = settings_.access,
        .delegates = {settings_.delegates.begin(), settings_.delegates.end()},
        .subjects_own = true,
        .administrators = {settings_.administrators.begin(), settings_.administrators.end()}};
    admission::Allowances allowances = settings_.allowances;
    const WallTime now = environment_.reactor.wall_time();
    for (const std::string& name : pools_.names()) {
        const tenancy::TenantsByName& tenants = pools_.tenants(name)->tenants();
        rights::add_file(parties, name, tenants, now);
        for (const auto& [tenant, record] : tenants) {
            tenancy::add_account(allowances, name, record);
            if (!record.allowance) continue;
            for (const std::string& subject : record.subjects) {
                // Sessions that were opened before the tenant was have the account of the subject.
                allowances.by_account.insert_or_assign(subject, *record.allowance);
            }
        }
    }
    const rights::Policy before = sessions_.rights().replace(std::move(parties));
    accounts_.set(std::move(allowances));
    pools_.apply_caps();
    sessions_.end_sessions(before, session::SessionTable::EndsWith::rights);
}

control::ControlOptions Engine::control_options() const {
    return {.listen = settings_.control_addresses(),
            .identity = pki::identity_in(settings_.certificates, "server"),
            .purpose = session::Purpose::store,
            .data = data_ ? data_->addresses() : std::vector<control::DataAddress>{},
            .program = "ros2store-engine " ROS2STORE_VERSION,
            .administrators = settings_.administrators,
            .connections_per_subject_max = sessions_of_client_max,
            // All sessions of a DPU may reconnect at once, and its other calls go on.
            .calls_per_subject_max = 2 * sessions_of_client_max};
}

Task<Result<>> Engine::open_control(Report& report) {
    ROS2S_CO_TRY_ASSIGN(control_,
                        co_await control::ControlServer::start({.reactor = environment_.reactor,
                                                                .blocking = environment_.blocking,
                                                                .sessions = sessions_,
                                                                .tickets = tickets_,
                                                                .pools = pools_,
                                                                .admission = &group_.admission,
                                                                .capabilities = &capabilities_,
                                                                .log = environment_.log},
                                                               control_options(), report));
    co_return Result<>{};
}

Task<> Engine::stop() {
    if (control_) co_await control_->stop(settings_.common.drain);
    if (data_) co_await data_->drain();
    co_await sessions_.close_all();
    control_.reset();
    if (data_) co_await data_->close();
    data_.reset();
    co_await pools_.close();
}

std::vector<exporter::Source> Engine::metrics() const {
    std::vector<exporter::Source> sources;
    sources.push_back({.list =
                           [this](const MetricVisitor& visit) {
                               sessions_.metrics().visit(visit);
                               sessions_.audit().metrics().visit(visit);
                               tickets_.metrics().visit(visit);
                               control_->visit_metrics(visit);
                               group_.admission.visit_metrics(visit);
                           },
                       .times =
                           [this](const HistogramVisitor& visit) {
                               router_->visit_times(visit);
                               control_->visit_times(visit);
                           }});
    router_->add_metrics(sources);
    pools_.add_metrics(sources);
    data_->add_metrics(sources);
    sources.push_back({.list = {}, .others = [this] { return daemon::sources_of(accounts_); }});
    sources.push_back(
        {.list = {}, .others = [this] {
             return daemon::sources_of(
                 sessions_,
                 [this](const auto& session) { return router_->containers_of(session.id); },
                 [this](const auto& session) { return pools_.not_durable(session); });
         }});
    return sources;
}

std::vector<std::string> Engine::addresses() const {
    return daemon::spoken_addresses(control_->addresses(), data_->addresses());
}

}  // namespace ros2s::engined
