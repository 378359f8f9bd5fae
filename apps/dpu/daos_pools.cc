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
    log.info("the pool '{}' is '{}' of the DAOS system '{}'", name, options.pool, options.system);
    pools_.emplace(std::move(name), std::move(*connected));
    co_return Result<>{};
}

Task<> DaosPools::close() {
    for (auto& [name, pool] : pools_) co_await pool->close();
    pools_.clear();
}

std::vector<std::string> DaosPools::pools() const {
    std::vector<std::string> names;
    for (const auto& [name, pool] : pools_) names.push_back(name);
    return names;
}

Task<Result<std::vector<std::string>>> DaosPools::labels(Call call, std::string pool) {
    auto labels = co_await pools_.find(pool)->second->containers(std::move(call));
    if (labels) {
        std::erase_if(*labels, [](const auto& each) { return !object::is_valid_label(each); });
    }
    co_return labels;
}

Task<Result<std::unique_ptr<fs::FileSystem>>> DaosPools::open(Call call, std::string pool,
                                                              std::string container,
                                                              Report& report) {
    const auto found = pools_.find(pool);
    if (found == pools_.end()) {
        co_return report.fail(Code::not_found, "there is no pool '{}'", pool);
    }
    // DAOS opens a container by its UUID, too, but rights are given for labels.
    if (Uuid::parse(container).has_value()) {
        co_return report.fail(Code::not_found, "the pool '{}' has no container with the label '{}'",
                              pool, container);
    }
    co_return co_await found->second->open(call, container, report);
}

std::string DaosPools::storage(const std::string& pool, const std::string& container) const {
    if (!pools_.contains(pool)) return {};
    return fmt::format("which keeps {}/{} in DAOS: as durable as its pool is", pool, container);
}

}  // namespace ros2s::dpud
