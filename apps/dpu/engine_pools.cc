#include "engine_pools.h"

#include <fmt/format.h>

#include "ros2s/api/container.h"

namespace ros2s::dpud {
namespace {

// As long as a host waits for its DPU: by then it has opened again what it had open.
constexpr Duration orphan_grace = std::chrono::seconds(30);

}  // namespace

Task<Result<>> EnginePools::open(direct::DirectOptions options, const Log& log, Report& report) {
    const std::string name = options.pool;
    ROS2S_CO_TRY_ASSIGN(auto pool,
                        co_await direct::DirectPool::open(reactor_, options, log, report));
    log.info(fmt::format("the pool '{}': {}", name, pool->path()));
    pools_.emplace(name, std::move(pool));
    co_return Result<>{};
}

Task<> EnginePools::close() {
    for (auto& [name, pool] : pools_) co_await pool->close();
    pools_.clear();
}

std::vector<std::string> EnginePools::names() const {
    std::vector<std::string> names;
    for (const auto& [name, pool] : pools_) names.push_back(name);
    return names;
}

object::ObjectStore* EnginePools::find(std::string_view pool) {
    const auto found = pools_.find(pool);
    return found == pools_.end() ? nullptr : &found->second->store();
}

std::string EnginePools::keeper(const std::string& pool) const {
    const auto found = pools_.find(pool);
    return found == pools_.end() ? std::string() : found->second->path_without_address();
}

Task<Result<object::ContainerRecord>> EnginePools::create_container(
    const Call& call, std::string pool, object::ContainerProperties properties, fs::Owner owner,
    Report& report) {
    co_return co_await api::create_container(call, reactor_, *find(pool), std::move(properties),
                                             owner, report);
}

Task<Result<std::unique_ptr<fs::FileSystem>>> EnginePools::open(const Call& call,
                                                                const std::string& pool,
                                                                const std::string& container,
                                                                Report& report) {
    object::ObjectStore* store = find(pool);
    if (store == nullptr) {
        co_return report.fail(Code::not_found, fmt::format("there is no pool '{}' here", pool));
    }
    co_return co_await api::open_container(
        call, reactor_, *store, fmt::format("the pool '{}'", pool), container,
        {.orphan_grace = orphan_grace, .leaves_orphans = &leaves_orphans_}, report);
}

void EnginePools::add_metrics(std::vector<exporter::Source>& sources) const {
    for (const auto& [name, pool] : pools_) {
        sources.push_back(
            {.labels = {{"side", "engine"}, {"pool", name}, {"provider", pool->provider()}},
             .list = [&pool = *pool](const MetricVisitor& visit) { pool.visit_metrics(visit); }});
    }
}

}  // namespace ros2s::dpud
