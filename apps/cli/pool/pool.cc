// pool list and destroy. (create is in pool_creation.cc, query in status.cc.)
#include <dirent.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "daemons/service_files.h"
#include "daemons/services.h"
#include "pool_location.h"
#include "ros2s/pool/pool_directory.h"
#include "ros2s/pool/pool_remains.h"

namespace ros2s::cli {
namespace {

Result<std::vector<std::string>> subdirectories(const std::string& directory, Report& report) {
    const std::unique_ptr<DIR, int (*)(DIR*)> stream(opendir(directory.c_str()), closedir);
    if (stream == nullptr) {
        return report.fail(Error{Code::not_found, errno},
                           "cannot read the directory {}: {}; name one in or below which pools are",
                           directory, std::strerror(errno));
    }
    std::vector<std::string> names;
    while (const dirent* entry = readdir(stream.get())) {
        const std::string name = entry->d_name;
        if (name != "." && name != "..") names.push_back(directory + "/" + name);
    }
    std::ranges::sort(names);
    return names;
}

// A half-made directory may have no owner's record yet.
Result<pool::OwnerRecord> owner_if_any(const std::string& directory, Report& report) {
    Report why;
    const auto owner = pool::find_owner(directory, why);
    if (owner) return owner;
    if (owner.error().code == Code::not_found) return pool::OwnerRecord{};
    return report.fail(owner.error(), why.text());
}

std::string all_of(const std::vector<std::string>& names) {
    return fmt::format("{}", fmt::join(names, ", "));
}

// The state as a word for programs, and as a sentence.
std::pair<std::string, std::string> state_of(const pool::PoolRemains& pool,
                                             const pool::OwnerRecord& owner) {
    if (pool.half_made) {
        return {"half-made", owner.pid == 0
                                 ? "half-made: its making or removal was interrupted"
                                 : fmt::format("being made or removed by process {}", owner.pid)};
    }
    if (!owner.mount_point.empty()) return {"mounted", "mounted at " + owner.mount_point};
    if (owner.pid != 0) return {"open", fmt::format("open in process {}", owner.pid)};
    if (!pool.missing.empty()) return {"damaged", "damaged: missing " + all_of(pool.missing)};
    if (!pool.trouble.empty()) return {"damaged", "damaged: " + pool.trouble};
    return {"closed", "closed"};
}

std::string name_of(const pool::PoolRemains& pool) {
    return pool.pool.empty() ? "the half-made pool" : fmt::format("the pool '{}'", pool.pool);
}

// With the settings, certificates and logs of its daemons, which must not run.
Task<Result<>> destroy_with_services(CommandContext context, std::string directory) {
    if (::access(api::ServicePaths(directory).run.c_str(), F_OK) != 0) {
        co_return pool::destroy_pool(directory, context.report);
    }
    ROS2S_CO_TRY_ASSIGN(const RunLock turn, co_await take_turn(context, directory));
    ROS2S_CO_TRY_ASSIGN(const auto services, find_services(directory, context.report));
    for (const Service& service : services) {
        if (service.running.pid == 0) continue;
        co_return context.report.fail(
            Code::busy, "{} (process {}) serves {}; stop it first: ros2store down {}",
            service.paths.program, service.running.pid, directory, shell_word(directory));
    }
    co_return pool::destroy_pool(directory, context.report,
                                 [&] { return remove_service_files(directory, context.report); });
}

}  // namespace

Task<Result<>> pool_list(CommandContext context, PoolOptions options) {
    ROS2S_CO_TRY_ASSIGN(const std::string directory,
                        pool_directory_of(options.directory, context.report));
    ROS2S_CO_TRY_ASSIGN(std::vector<std::string> candidates,
                        subdirectories(directory, context.report));
    candidates.insert(candidates.begin(), directory);
    std::vector<Json> pools;
    for (const std::string& candidate : candidates) {
        Report no_pool;
        const auto pool = pool::look_at_remains(candidate, no_pool);
        if (!pool) continue;
        ROS2S_CO_TRY_ASSIGN(const pool::OwnerRecord owner,
                            owner_if_any(pool->directory, context.report));
        const auto [state, words] = state_of(*pool, owner);
        context.console.say("{:<16} {:>10}  {}  {}", pool->pool.empty() ? "?" : pool->pool,
                            human_bytes(pool->bytes), pool->directory, words);
        const std::vector<Json> missing(pool->missing.begin(), pool->missing.end());
        pools.push_back(
            Json::object({{"pool", pool->pool.empty() ? Json() : Json(pool->pool)},
                          {"directory", pool->directory},
                          {"bytes", pool->bytes},
                          {"state", state},
                          {"missing", Json::array(missing)},
                          {"trouble", pool->trouble.empty() ? Json() : Json(pool->trouble)},
                          {"owner_pid", owner.pid == 0 ? Json() : Json(owner.pid)},
                          {"mount_point", owner.mount_point}}));
    }
    if (pools.empty()) {
        context.console.say("no pool in {} or directly below it; make one: ros2store up DIR",
                            directory);
    }
    context.console.answer(Json::object({{"pools", Json::array(pools)}}));
    co_return Result<>{};
}

Task<Result<>> pool_destroy(CommandContext context, PoolOptions options) {
    ROS2S_CO_TRY_ASSIGN(const std::string directory,
                        pool_directory_of(options.directory, context.report));
    ROS2S_CO_TRY_ASSIGN(const pool::PoolRemains pool,
                        pool::look_at_remains(directory, context.report));
    // Files without a pool's name may be a user's own files with the same names.
    if (pool.pool.empty() && !pool.half_made) {
        co_return context.report.fail(Code::not_found, pool.trouble);
    }
    const std::string lost = pool.missing.empty() ? "" : "; missing of it: " + all_of(pool.missing);
    if (!options.yes) {
        co_return context.report.fail(Code::denied,
                                      "this removes {} in {} ({}{}) and every file in it; if that "
                                      "is what you want: ros2store pool destroy --yes {}",
                                      name_of(pool), pool.directory, human_bytes(pool.bytes), lost,
                                      shell_word(pool.directory));
    }
    ROS2S_CO_TRY(co_await destroy_with_services(context, pool.directory));
    context.console.say("removed {} from {}{}{}", name_of(pool), pool.directory, lost,
                        lost.empty() ? "" : "; device files on other disks were not removed");
    const std::vector<Json> missing(pool.missing.begin(), pool.missing.end());
    context.console.answer(Json::object({{"directory", pool.directory},
                                         {"pool", pool.pool.empty() ? Json() : Json(pool.pool)},
                                         {"missing", Json::array(missing)}}));
    co_return Result<>{};
}

}  // namespace ros2s::cli
