// pool list and destroy. (create is in up.cc, query in status.cc.)
#include <dirent.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "pool_place.h"
#include "ros2s/api/pool_directory.h"

namespace ros2s::cli {
namespace {

Result<std::vector<std::string>> subdirectories(const std::string& directory, Report& report) {
    const std::unique_ptr<DIR, int (*)(DIR*)> stream(opendir(directory.c_str()), closedir);
    if (stream == nullptr) {
        return report.fail(
            Error{Code::not_found, errno},
            fmt::format("cannot read the directory {}: {}", directory, std::strerror(errno)));
    }
    std::vector<std::string> names;
    while (const dirent* entry = readdir(stream.get())) {
        const std::string name = entry->d_name;
        if (name != "." && name != "..") names.push_back(directory + "/" + name);
    }
    std::ranges::sort(names);
    return names;
}

}  // namespace

Task<Result<>> pool_list(Workplace work, PoolOptions options) {
    ROS2S_CO_TRY_ASSIGN(std::vector<std::string> candidates,
                        subdirectories(options.directory, work.report));
    candidates.insert(candidates.begin(), options.directory);
    std::vector<Json> pools;
    for (const std::string& candidate : candidates) {
        Report unused;
        const auto pool = api::read_pool_directory(candidate, unused);
        if (!pool) continue;
        ROS2S_CO_TRY_ASSIGN(const api::OwnerRecord owner, owner_of(pool->directory, work.report));
        const std::string use = owner.pid == 0 ? "closed"
                                : owner.mount_point.empty()
                                    ? fmt::format("open in process {}", owner.pid)
                                    : "mounted at " + owner.mount_point;
        work.session.say(fmt::format("{:<16} {:>10}  {}  {}", pool->config.pool,
                                     human_bytes(pool->device_bytes), pool->directory, use));
        pools.push_back(Json::object({{"pool", pool->config.pool},
                                      {"directory", pool->directory},
                                      {"bytes", pool->device_bytes},
                                      {"owner_pid", owner.pid == 0 ? Json() : Json(owner.pid)},
                                      {"mount_point", owner.mount_point}}));
    }
    if (pools.empty()) {
        work.session.say(fmt::format(
            "no pool in {} or directly below it; make one: ros2store up DIR", options.directory));
    }
    work.session.answer(Json::object({{"pools", Json::array(pools)}}));
    co_return Result<>{};
}

Task<Result<>> pool_destroy(Workplace work, PoolOptions options) {
    ROS2S_CO_TRY_ASSIGN(const api::PoolDirectory pool,
                        api::read_pool_directory(options.directory, work.report));
    if (!options.yes) {
        co_return work.report.fail(
            Code::denied,
            fmt::format("this removes the pool '{}' in {} ({}) and every file in it; if that is "
                        "what you want: ros2store pool destroy --yes {}",
                        pool.config.pool, pool.directory, human_bytes(pool.device_bytes),
                        shell_word(pool.directory)));
    }
    ROS2S_CO_TRY(api::destroy_pool(pool.directory, work.report));
    work.session.say(
        fmt::format("removed the pool '{}' from {}", pool.config.pool, pool.directory));
    work.session.answer(Json::object({{"directory", pool.directory}, {"pool", pool.config.pool}}));
    co_return Result<>{};
}

}  // namespace ros2s::cli
