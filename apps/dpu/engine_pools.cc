#include "engine_pools.h"

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

Task<Result<>> EnginePools::open(connection::Options options, const Log& log, Report& report) {
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

Task<Result<>> EnginePools::open_in_cluster(Environment environment, std::string name,
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
    added.store = &added.stack.push("RadosPool", std::move(*pool))->store();
    co_return Result<>{};
}

Task<> EnginePools::close() {
    co_await asking_.join();
    for (auto& [name, pool] : pools_) (void)co_await pool.stack.close();
    pools_.clear();
    layers_.reset();
    keys_.reset();
}

// ---- an engine that is away ------------------------------------------------------------------

void EnginePools::watch(const Log& log, OnChange on_change) {
    ROS2S_CHECK(watching_.try_spawn(keep_watch(*this, log, std::move(on_change))));
    ROS2S_CHECK(asking_.try_spawn(keep_asking(*this)));
}

Task<> EnginePools::stop() {
    stopping_.request_stop();
    co_await watching_.join();
}

// One read by the way that requests of hosts take.
Task<> EnginePools::ask(Reactor& reactor, Pool& cluster) {
    const WallTime asked = reactor.wall_time();
    const auto answer = co_await cluster.store->list_containers({});
    const bool is_away = !answer && (answer.error().code == Code::deadline ||
                                     answer.error().code == Code::disconnected);
    if (!is_away) {
        cluster.cluster_absence.reset();
    } else if (!cluster.cluster_absence) {
        cluster.cluster_absence = {.since = asked, .why = std::string(describe(answer.error()))};
    }
}

Task<> EnginePools::keep_asking(EnginePools& self) {
    while (co_await sleep_for(self.reactor_, ask_interval, self.stopping_.token())) {
        Nursery asking(self.reactor_, asked_at_once);
        for (auto& [name, pool] : self.pools_) {
            if (pool.engine == nullptr) co_await asking.spawn(ask(self.reactor_, pool));
        }
        co_await asking.join();
    }
}

Task<> EnginePools::keep_watch(EnginePools& self, Log log, OnChange on_change) {
    do {
        for (auto& [name, pool] : self.pools_) self.look_at(name, pool, log, on_change);
    } while (co_await sleep_for(self.reactor_, watch_interval, self.stopping_.token()));
}

void EnginePools::look_at(const std::string& name, Pool& pool, const Log& log,
                          const OnChange& on_change) const {
    const auto& absence = pool.absence();
    const bool is_news = absence.has_value() != pool.reported_absent_since.has_value();
    if (absence) pool.reported_absent_since = absence->since;
    if (!is_news) return;
    on_change(name, !absence);
    if (absence) {
        log.warning(pool.engine != nullptr ? engine_is_away(pool.place, name, absence->why)
                                           : cluster_is_away(pool.place, name, absence->why));
        return;
    }
    log.info(is_back(pool.place, name, reactor_.wall_time() - *pool.reported_absent_since));
    pool.reported_absent_since.reset();
}

std::vector<control::AbsentPool> EnginePools::absent() const {
    std::vector<control::AbsentPool> absent;
    for (const auto& [name, pool] : pools_) {
        if (const auto& absence = pool.absence()) absent.push_back({name, absence->since});
    }
    return absent;
}

// ---- pools -----------------------------------------------------------------------------------

std::vector<std::string> EnginePools::names() const {
    std::vector<std::string> names;
    for (const auto& [name, pool] : pools_) names.push_back(name);
    return names;
}

object::ObjectStore* EnginePools::find(std::string_view pool) {
    const auto found = pools_.find(pool);
    return found == pools_.end() ? nullptr : found->second.store;
}

std::string EnginePools::storage(const std::string& pool) const {
    const auto found = pools_.find(pool);
    if (found == pools_.end()) return {};
    const Pool& there = found->second;
    return there.engine != nullptr ? there.engine->path_without_address() : "to a Ceph cluster";
}

Result<std::string> EnginePools::key_for(const Creator& creator, Report& report) const {
    if (!creator.tenant.empty() || !new_container_key_.contains(tenant_word)) {
        return key_of(new_container_key_, creator.pool, creator.tenant);
    }
    return report.fail(Code::denied,
                       "this DPU encrypts a new container with the key of the tenant that creates "
                       "it, and {} is a subject of no tenant of the pool '{}': make it one with "
                       "'ros2store tenant create' or 'ros2store tenant set'",
                       creator.subject, creator.pool);
}

Task<Result<object::ContainerRecord>> EnginePools::create_container(
    const Call& call, object::ObjectStore& store, object::ContainerProperties properties,
    fs::Owner owner, Creator creator, Report& report) {
    if (new_container_key_.empty()) {
        co_return co_await fs::create_container(call, reactor_, store, std::move(properties), owner,
                                                report);
    }
    ROS2S_CO_TRY_ASSIGN(const std::string name, key_for(creator, report));
    Report why;
    const auto keys = co_await cipher::make_keys(call, *keys_, name, store.features(), why);
    if (!keys) {
        report.note(why.notes());
        co_return report.fail(keys.error(), "the key '{}' for a new container cannot be used: {}",
                              name, why.text());
    }
    const std::string bytes = cipher::encode(*keys);
    const object::Operation put = cipher::put_keys(bytes);
    co_return co_await fs::create_container(call, reactor_, store, std::move(properties), owner,
                                            report, &put);
}

Task<Result<>> EnginePools::use_keys(Environment environment, std::string place, Duration keep,
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

Task<Result<std::unique_ptr<fs::FileSystem>>> EnginePools::open(const Call& call,
                                                                const std::string& pool,
                                                                const std::string& container,
                                                                Report& report) {
    object::ObjectStore* store = find(pool);
    if (store == nullptr) {
        co_return report.fail(Code::not_found, "there is no pool '{}' here", pool);
    }
    co_return co_await open_on(call, *store, pool, container, report);
}

Task<Result<std::unique_ptr<fs::FileSystem>>> EnginePools::open_on(const Call& call,
                                                                   object::ObjectStore& store,
                                                                   const std::string& pool,
                                                                   const std::string& container,
                                                                   Report& report) {
    co_return co_await fs::open_container(call, reactor_, store, fmt::format("the pool '{}'", pool),
                                          container,
                                          {.orphan_grace = orphan_grace,
                                           .leaves_orphans = &leaves_orphans_,
                                           .listings = &listings_,
                                           .layers = layers_.get(),
                                           .log = log_},
                                          report);
}

void EnginePools::add_metrics(std::vector<exporter::Source>& sources) const {
    for (const auto& [name, pool] : pools_) {
        const std::string provider = pool.engine == nullptr ? "rados" : pool.engine->provider();
        sources.push_back({.labels = {{"side", "engine"}, {"pool", name}, {"provider", provider}},
                           .list = [&pool](const MetricVisitor& visit) {
                               visit(reachable_metric, reachable_help, pool.absence() ? 0 : 1);
                               pool.stack.visit_metrics(visit);
                           }});
    }
}

}  // namespace ros2s::dpud
