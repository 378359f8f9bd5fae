#include "pools.h"

#include <unistd.h>

#include <algorithm>

#include "ros2s/pool/owner.h"

namespace ros2s::engined {

Task<Result<>> Pools::await_owner(Reactor& reactor, std::string directory, Report& report) {
    Report ignored;  // opening the pool reports it
    auto owner = pool::find_owner(directory, ignored);
    if (!owner || owner->pid == 0) co_return Result<>{};
    const pool::OwnerRecord self{.pid = ::getpid(), .program = std::string(pool::engine_program)};
    ROS2S_CO_TRY(
        co_await pool::Ownership::take_patiently(reactor, directory, self, *owner, report));
    co_return Result<>{};
}

Task<Result<>> Pools::open(Environment environment, std::string directory, Report& report) {
    pool::OwnerRecord owner;
    ROS2S_CO_TRY_ASSIGN(
        auto pool,
        co_await pool::EmbeddedPool::open(
            environment, directory, {.program = std::string(pool::engine_program)}, owner, report));
    if (const auto same = pools_.find(pool->name()); same != pools_.end()) {
        report.say(
            "the pools in {} and {} are both named '{}'. Clients use pools by name: change 'pool' "
            "in one config.yaml",
            same->second->directory(), directory, pool->name());
        co_await pool->close();
        co_return fail(Code::exists);
    }
    auto tenants =
        co_await tenancy::TenantRegistry::open(environment, pool->tenants_file(), report);
    if (!tenants) {
        co_await pool->close();
        co_return fail(tenants.error());
    }
    tenants_.emplace(pool->name(), std::move(*tenants));
    environment.log.info("serving the pool '{}' in {}: {}", pool->name(), directory, pool->path());
    const std::string name = pool->name();
    pools_.emplace(name, std::move(pool));
    co_return Result<>{};
}

Task<> Pools::close() {
    for (auto& [name, tenants] : tenants_) co_await tenants->stop();
    tenants_.clear();
    for (auto& [name, pool] : pools_) co_await pool->close();
    pools_.clear();
}

std::vector<std::string> Pools::names() const {
    std::vector<std::string> names;
    for (const auto& [name, pool] : pools_) names.push_back(name);
    return names;
}

object::ObjectStore* Pools::find(std::string_view pool) {
    const auto found = pools_.find(pool);
    return found == pools_.end() ? nullptr : &found->second->store();
}

Task<Result<object::ContainerRecord>> Pools::create_container(
    const Call& call, std::string /*subject*/, std::string pool,
    object::ContainerProperties properties, fs::Owner owner, Report& report) {
    co_return co_await pools_.find(pool)->second->create_container(call, std::move(properties),
                                                                   owner, report);
}

const tenancy::TenantRegistry* Pools::tenants(std::string_view pool) const {
    const auto found = tenants_.find(pool);
    return found == tenants_.end() ? nullptr : found->second.get();
}

std::optional<std::string> Pools::owner_named(std::string_view pool,
                                              std::string_view tenant) const {
    const tenancy::TenantRegistry* const registry = tenants(pool);
    if (registry == nullptr) return std::nullopt;
    const auto found = registry->tenants().find(tenant);
    if (found == registry->tenants().end()) return std::nullopt;
    return found->second.owner();
}

bool Pools::is_administrator(std::string_view subject) const {
    return std::ranges::find(administrators_, subject) != administrators_.end();
}

Task<Result<object::ContainerRecord>> Pools::set_container(const Call& call, std::string pool,
                                                           object::ContainerId container,
                                                           object::ContainerChange change,
                                                           Report& report) {
    if (change.owner) {
        if (auto owner = owner_named(pool, *change.owner)) change.owner = std::move(owner);
    }
    const auto done =
        co_await pools_.find(pool)->second->set_container(call, container, change, report);
    if (done && on_owner_change) on_owner_change();
    co_return done;
}

void Pools::apply_caps() {
    for (const auto& [name, pool] : pools_) {
        std::map<std::string, object::Amount> caps;
        for (const auto& [tenant, record] : tenants_.at(name)->tenants()) {
            if (record.caps != object::Amount{}) caps.emplace(record.owner(), record.caps);
        }
        pool->set_owner_caps(caps);
    }
}

tenancy::TenantRegistry* Pools::tenants(std::string_view pool) {
    const auto found = tenants_.find(pool);
    return found == tenants_.end() ? nullptr : found->second.get();
}

daemon::NotDurable Pools::not_durable(const session::Session& session) const {
    const auto found = pools_.find(session.request.pool);
    if (found == pools_.end()) return {};
    const auto deferred = found->second->deferred_of(session.id.value);
    return {deferred.changes, deferred.bytes, deferred.age};
}

object::LeaseTable* Pools::leases(std::string_view pool) {
    const auto found = pools_.find(pool);
    return found == pools_.end() ? nullptr : &found->second->leases();
}

namespace {

// Containers without a cap have no metrics. So a pool with many containers has few.
std::vector<exporter::Source> sources_of(const std::string& pool,
                                         std::vector<pool::CappedUse> uses) {
    std::vector<exporter::Source> sources;
    for (pool::CappedUse& use : uses) {
        const std::string kind = use.is_tenant ? "tenant" : "container";
        // Of those that had the same name, only the present tenant has a cap.
        if (use.is_tenant) use.name.resize(std::min(use.name.find('#'), use.name.size()));
        sources.push_back(
            {.labels = {{"pool", pool}, {kind, use.name}},
             .list = [use](const MetricVisitor& visit) {
                 visit("ros2store_cap_used_bytes", "Space in use that a cap limits.",
                       use.used.bytes);
                 visit("ros2store_cap_bytes", "The cap of space; 0: none.", use.caps.bytes);
                 visit("ros2store_cap_used_values",
                       "Single values (a file has two) that a cap limits.", use.used.values);
                 visit("ros2store_cap_values", "The cap of single values; 0: none.",
                       use.caps.values);
                 visit("ros2store_cap_refusals_total",
                       "Updates that were refused because of the cap.", use.refusals);
             }});
    }
    return sources;
}

}  // namespace

void Pools::add_metrics(std::vector<exporter::Source>& sources) const {
    for (const auto& [name, pool] : pools_) {
        sources.push_back(
            {.labels = {{"pool", name}},
             .list = [&pool = *pool](const MetricVisitor& visit) { pool.visit_metrics(visit); },
             .times = [&pool = *pool](const HistogramVisitor& visit) { pool.visit_times(visit); }});
        sources.push_back({.list = {}, .others = [name, &pool = *pool] {
                               return sources_of(name, pool.capped());
                           }});
    }
}

}  // namespace ros2s::engined
