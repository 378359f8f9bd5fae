#include "pools.h"

#include <fmt/format.h>

#include "engine_absence.h"
#include "ros2s/cipher/container_keys.h"
#include "ros2s/fs/container.h"

namespace ros2s::dpud {
namespace {

// As long as a host waits for its DPU: by then it has opened its files again.
constexpr Duration orphan_grace = std::chrono::seconds(30);
// A shorter absence is not logged.
constexpr Duration watch_interval = std::chrono::milliseconds(500);
constexpr Duration ask_interval = std::chrono::seconds(5);  // of clusters
constexpr size_t asked_at_once = 16;
constexpr std::string_view tenant_word = "%tenant", pool_word = "%pool";

// Names of tenants and pools have no '%'.
std::string key_of(std::string name, std::string_view pool, std::string_view tenant) {
    for (const auto& [word, value] : {std::pair(pool_word, pool), std::pair(tenant_word, tenant)}) {
        for (size_t at = 0; (at = name.find(word)) != name.npos;) {
            name.replace(at, word.size(), value);
        }
    }
    return name;
}

}  // namespace

Task<Result<>> Pools::open(connection::Options options, const Log& log, Report& report) {
    const std::string name = options.server.pool;
    // Hosts learn that this process is there and the engine is not.
    options.absence_errno = rpc::absent_behind;
    ROS2S_CO_TRY_ASSIGN(auto pool,
                        co_await connection::DirectPool::open(reactor_, options, log, report));
    log.info("the pool '{}': {}", name, pool->path());
    log_ = log;
    Pool& added = pools_[name];
    added.store = &pool->store();
    added.engine = added.stack.push("DirectPool", std::move(pool));
    added.place = fmt::format("the engine at {}", options.server.control);
    co_return Result<>{};
}

Task<Result<>> Pools::open_in_cluster(Environment environment, std::string name,
                                      connection::RadosOptions options, Report& report) {
    log_ = environment.log;
    Report why;
    auto pool = co_await connection::RadosPool::open(std::move(environment), options, why);
    if (!pool) {
        co_return report.fail(pool.error(), "the pool '{}': {}", name, why.text());
    }
    log_.info("the pool '{}': {}", name, (*pool)->path());
    Pool& added = pools_[name];
    added.place = fmt::format("the Ceph cluster of {}", options.address.conf);
    added.is_in_cluster = true;
    added.store = &added.stack.push("RadosPool", std::move(*pool))->store();
    co_return Result<>{};
}

void Pools::open_delegated(connection::Options engine, const std::vector<std::string>& pools,
                           const session::Mounts& mounts, const Log& log) {
    log_ = log;
    for (const std::string& name : pools) {
        pools_[name].place = fmt::format("the engine at {}", engine.server.control);
    }
    chains.begin(std::move(engine), pools, mounts, log);
}

Task<> Pools::close() {
    co_await asking_.join();
    co_await chains.close();
    for (auto& [name, pool] : pools_) (void)co_await pool.stack.close();
    pools_.clear();
    layers_.reset();
    keys_.reset();
}

// ---- an engine that is away ------------------------------------------------------------------

void Pools::watch(OnChange on_change) {
    ROS2S_CHECK(watching_.try_spawn(keep_watch(*this, std::move(on_change))));
    ROS2S_CHECK(asking_.try_spawn(keep_asking(*this)));
}

Task<> Pools::stop() {
    stopping_.request_stop();
    co_await watching_.join();
}

// One read by the way that requests of hosts take.
Task<> Pools::ask(Reactor& reactor, Pool& cluster) {
    const WallTime asked = reactor.wall_time();
    const auto answer = co_await cluster.store->list_containers({});
    const bool is_away = !answer && (answer.error().code == Code::deadline ||
                                     answer.error().code == Code::disconnected);
    cluster.note(is_away, asked, is_away ? describe(answer.error()) : "");
}

void Pools::Pool::note(bool is_away, WallTime since, std::string_view why) {
    if (!is_away) {
        noted_absence.reset();
    } else if (!noted_absence) {
        noted_absence = {.since = since, .why = std::string(why)};
    }
}

void Pools::know(const std::string& pool, const control::ListedTenants& listed) {
    pools_.at(pool).note(false, {}, {});
    chains.know(pool, listed);
}

void Pools::engine_failed(const std::string& pool, Error error, std::string_view why) {
    const bool is_silent = error.code == Code::disconnected || error.code == Code::deadline ||
                           error.code == Code::closed || error.code == Code::cancelled;
    pools_.at(pool).note(is_silent, reactor_.wall_time(), why);
}

Task<> Pools::keep_asking(Pools& self) {
    while (co_await sleep_for(self.reactor_, ask_interval, self.stopping_.token())) {
        Nursery asking(self.reactor_, asked_at_once);
        for (auto& [name, pool] : self.pools_) {
            if (pool.is_in_cluster) co_await asking.spawn(ask(self.reactor_, pool));
        }
        co_await asking.join();
    }
}

Task<> Pools::keep_watch(Pools& self, OnChange on_change) {
    do {
        for (auto& [name, pool] : self.pools_) self.look_at(name, pool, on_change);
    } while (co_await sleep_for(self.reactor_, watch_interval, self.stopping_.token()));
}

void Pools::look_at(const std::string& name, Pool& pool, const OnChange& on_change) const {
    const auto& absence = pool.engine != nullptr ? pool.engine->absence() : pool.noted_absence;
    const bool is_away = absence && (pool.engine != nullptr ||
                                     reactor_.wall_time() - absence->since >= watch_interval);
    if (is_away == pool.reported_absent_since.has_value()) return;
    on_change(name, !is_away);
    if (is_away) {
        pool.reported_absent_since = absence->since;
        log_.warning(pool.is_in_cluster ? cluster_is_away(pool.place, name, absence->why)
                                        : engine_is_away(pool.place, name, absence->why));
        return;
    }
    log_.info(is_back(pool.place, name, reactor_.wall_time() - *pool.reported_absent_since));
    pool.reported_absent_since.reset();
}

std::vector<control::AbsentPool> Pools::absent() const {
    std::vector<control::AbsentPool> absent;
    for (const auto& [name, pool] : pools_) {
        if (const auto& since = pool.reported_absent_since) absent.push_back({name, *since});
    }
    return absent;
}

// ---- pools -----------------------------------------------------------------------------------

std::vector<std::string> Pools::names() const {
    std::vector<std::string> names;
    for (const auto& [name, pool] : pools_) names.push_back(name);
    return names;
}

object::ObjectStore* Pools::find(std::string_view pool) {
    const auto found = pools_.find(pool);
    return found == pools_.end() ? nullptr : found->second.store;
}

std::string Pools::storage(const std::string& pool) const {
    const auto found = pools_.find(pool);
    if (found == pools_.end()) return {};
    const Pool& there = found->second;
    if (there.is_in_cluster) return "to a Ceph cluster";
    return there.engine != nullptr ? there.engine->path_without_address() : chains.storage(pool);
}

Task<Result<std::shared_ptr<object::ObjectStore>>> Pools::store(const Call& call, std::string pool,
                                                                std::string tenant,
                                                                capability::Use use,
                                                                Report& report) {
    if (chains.has(pool)) {
        co_return co_await chains.store(call, std::move(pool), std::move(tenant), std::move(use),
                                        report);
    }
    object::ObjectStore* const store = find(pool);
    if (store == nullptr) {
        co_return report.fail(Code::not_found, "there is no pool '{}' here", pool);
    }
    co_return std::shared_ptr<object::ObjectStore>(std::shared_ptr<void>(), store);
}

Result<std::string> Pools::key_for(const Creator& creator, Report& report) const {
    if (!creator.tenant.empty() || !new_container_key_.contains(tenant_word)) {
        return key_of(new_container_key_, creator.pool, creator.tenant);
    }
    return report.fail(Code::denied,
                       "this DPU encrypts a new container with the key of the tenant that creates "
                       "it, and {} is a subject of no tenant of the pool '{}': make it one with "
                       "'ros2store tenant create' or 'ros2store tenant set'",
                       creator.subject, creator.pool);
}

Task<Result<object::ContainerRecord>> Pools::create_container(
    const Call& call, Creator creator, object::ContainerProperties properties, fs::Owner owner,
    Report& report) {
    capability::Use use{
        .rights = rights::Right::create, .directories = false, .container = {properties.label}};
    ROS2S_CO_TRY_ASSIGN(const auto store, co_await this->store(call, creator.pool, creator.tenant,
                                                               std::move(use), report));
    if (new_container_key_.empty()) {
        co_return co_await fs::create_container(call, reactor_, *store, std::move(properties),
                                                owner, report);
    }
    ROS2S_CO_TRY_ASSIGN(const std::string name, key_for(creator, report));
    Report why;
    const auto keys = co_await cipher::make_keys(call, *keys_, name, store->features(), why);
    if (!keys) {
        report.note(why.notes());
        co_return report.fail(keys.error(), "the key '{}' for a new container cannot be used: {}",
                              name, why.text());
    }
    const std::string bytes = cipher::encode(*keys);
    const object::Operation put = cipher::put_keys(bytes);
    co_return co_await fs::create_container(call, reactor_, *store, std::move(properties), owner,
                                            report, &put);
}

Task<Result<>> Pools::use_keys(Environment environment, std::string place, Duration keep,
                               std::string new_container_key, Report& report) {
    ROS2S_CO_TRY_ASSIGN(keys_, cipher::KeyCalls::open(environment, place, report));
    layers_ = cipher::decrypt_by(*keys_, keep, environment.log);
    if (new_container_key.contains('%')) {
        // The keys are those of tenants that may come later.
        ROS2S_CO_TRY(cipher::check_key_name(key_of(new_container_key, "a", "a"), report));
    } else if (!new_container_key.empty()) {
        // A key that cannot be used is found at start.
        ROS2S_CO_TRY(co_await cipher::make_keys({}, *keys_, new_container_key, {}, report));
    }
    keys_->hide_place();
    new_container_key_ = std::move(new_container_key);
    co_return Result<>{};
}

Task<Result<std::unique_ptr<fs::FileSystem>>> Pools::open(const Call& call,
                                                          object::ObjectStore& store,
                                                          const session::MountedContainer& which,
                                                          Report& report) {
    std::erase_if(unsynced_, [](const auto& each) { return each.second.expired(); });
    const auto unsynced = std::make_shared<fs::Unsynced>();
    if (which.defers) unsynced_[which.own] = unsynced;
    co_return co_await fs::open_container(
        call, reactor_, store, fmt::format("the pool '{}'", which.pool), which.container,
        {.orphan_grace = orphan_grace,
         .leaves_orphans = &leaves_orphans_,
         .takes_leases = which.own != session::MountId{} && which.exclusive_as.empty(),
         .defers = which.defers,
         .exclusive_as = which.exclusive_as,
         .change_logs = &change_logs_,
         .tenant = call.tenant,
         .unsynced = unsynced,
         .listings = &listings_,
         .unfinished = &unfinished_,
         .layers = layers_.get(),
         .log = log_,
         .mounted_as = which.own == session::MountId{}
                           ? ""
                           : fmt::format("mount {} of a host", which.own.value)},
        report);
}

daemon::NotDurable Pools::not_durable(std::span<const session::MountId> mounts) const {
    daemon::NotDurable all;
    for (const session::MountId each : mounts) {
        const auto found = unsynced_.find(each);
        const auto unsynced = found == unsynced_.end() ? nullptr : found->second.lock();
        if (unsynced == nullptr) continue;
        all.changes += unsynced->amount().changes;
        all.bytes += unsynced->amount().bytes;
        all.age = std::max(all.age, unsynced->age(reactor_.now()));
    }
    return all;
}

void Pools::add_metrics(std::vector<exporter::Source>& sources) const {
    for (const auto& [name, pool] : pools_) {
        exporter::Source source{.labels = {{"side", "engine"}, {"pool", name}},
                                .list = [&pool](const MetricVisitor& visit) {
                                    visit(reachable_metric, reachable_help,
                                          pool.reported_absent_since ? 0 : 1);
                                    pool.stack.visit_metrics(visit);
                                }};
        if (pool.store != nullptr) {
            source.labels.emplace_back("provider",
                                       pool.is_in_cluster ? "rados" : pool.engine->provider());
        }
        sources.push_back(std::move(source));
    }
    sources.push_back({.list = [this](const MetricVisitor& visit) {
        visit("ros2store_dpu_unsynced_bytes", "Changes that mounts keep until they are durable.",
              change_logs_.used());
        visit("ros2store_dpu_unfinished_bytes",
              "Written to files of caches that are not closed yet.", unfinished_.used());
    }});
    sources.push_back({.list = {}, .others = [this] { return chains.counters(); }});
}

}  // namespace ros2s::dpud
