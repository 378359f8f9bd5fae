#include "daos_pools.h"

#include <fmt/format.h>

#include <algorithm>

#include "ros2s/base/uuid.h"
#include "ros2s/object/object_store.h"

namespace ros2s::dpud {
Result<> check(const DaosSettings& daos, const std::vector<std::string>& pools,
               const DirectorySettings& directories, std::string_view where, Report& report) {
    for (const auto& [name, settings] : daos) {
        const auto no = [&](std::string_view why) {
            return report.fail(Code::invalid, "{}: pools: '{}' {}", where, name, why);
        };
        if (!object::is_valid_label(name)) return no("is not a valid name: use A-Z a-z 0-9 . _ -");
        const bool is_engines = std::ranges::find(pools, name) != pools.end();
        const bool is_directory = std::ranges::any_of(
            directories, [&](const auto& each) { return each.first.starts_with(name + "/"); });
        if (is_engines || is_directory) {
            return no(fmt::format("is the name of a pool of '{}' too; choose another one",
                                  is_engines ? "pools" : "directories"));
        }
        if (config::text_in(settings, "pool", "").empty()) {
            return no("has no 'pool': give the label of the pool in DAOS (dmg pool list)");
        }
    }
    return {};
}

Task<Result<>> DaosPools::add(std::string name, config::Entries settings, const Log& log,
                              Report& report) {
    const daos::PoolOptions options{.pool = config::text_in(settings, "pool", ""),
                                    .system = config::text_in(settings, "system", "daos_server"),
                                    .turns = &threads_.turns};
    Report why;
    auto connected = co_await daos::DaosPool::connect(reactor_, threads_.pool, options, why);
    if (!connected) {
        co_return report.fail(connected.error(), "pools: '{}': {}", name, why.text());
    }
    Pool& pool = pools_[name];
    pool.connection = std::move(*connected);
    if (const auto learned = co_await learn({}, pool); !learned) {
        co_return report.fail(learned.error(),
                              "pools: '{}': the containers of '{}' cannot be listed: {}", name,
                              options.pool, describe(learned.error()));
    }
    if (pool.containers.empty()) {
        co_return report.fail(Code::not_found,
                              "pools: '{}': the pool '{}' has no container with a label. Make one: "
                              "daos container create --type POSIX {} LABEL",
                              name, options.pool, options.pool);
    }
    log.info("the pool '{}' is '{}' of the DAOS system '{}': {} containers", name, options.pool,
             options.system, pool.containers.size());
    co_return Result<>{};
}

Task<Result<>> DaosPools::learn(Call call, Pool& pool) {
    ROS2S_CO_TRY_ASSIGN(const auto labels, co_await pool.connection->containers(std::move(call)));
    for (const std::string& label : labels) {
        if (object::is_valid_label(label)) pool.containers.insert(label);
    }
    co_return Result<>{};
}

Task<> DaosPools::close() {
    for (auto& [name, pool] : pools_) co_await pool.connection->close();
    pools_.clear();
}

std::vector<std::string> DaosPools::pools() const {
    std::vector<std::string> names;
    for (const auto& [name, pool] : pools_) names.push_back(name);
    return names;
}

std::vector<std::string> DaosPools::containers(std::string_view pool) const {
    const auto found = pools_.find(pool);
    if (found == pools_.end()) return {};
    return {found->second.containers.begin(), found->second.containers.end()};
}

Task<Result<std::unique_ptr<fs::FileSystem>>> DaosPools::open(Call call, std::string pool,
                                                              std::string container,
                                                              Report& report) {
    const auto found = pools_.find(pool);
    if (found == pools_.end()) {
        co_return report.fail(Code::not_found, "there is no pool '{}'", pool);
    }
    // DAOS opens a container by its UUID, too, but rights are given for labels.
    std::set<std::string>& containers = found->second.containers;
    const bool is_uuid = Uuid::parse(container).has_value();
    if (!is_uuid && !containers.contains(container)) {
        ROS2S_CO_TRY(co_await learn(call, found->second));
    }
    if (is_uuid || !containers.contains(container)) {
        co_return report.fail(Code::not_found, "the pool '{}' has no container with the label '{}'",
                              pool, container);
    }
    co_return co_await found->second.connection->open(call, container, report);
}

std::string DaosPools::storage(const std::string& pool, const std::string& container) const {
    if (!pools_.contains(pool)) return {};
    return fmt::format("which keeps {}/{} in DAOS: as durable as its pool is", pool, container);
}

}  // namespace ros2s::dpud
