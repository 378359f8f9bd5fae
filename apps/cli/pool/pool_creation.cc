#include "pool_creation.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "doctor/doctor_machine.h"
#include "output/progress.h"
#include "pool_location.h"
#include "ros2s/api/deployment.h"
#include "ros2s/api/uri.h"
#include "ros2s/pool/pool_growth.h"

namespace ros2s::cli {
namespace {

constexpr const char* used_whole =
    "an NVMe namespace or a devdax device is used completely: leave --size out";

// Removing the outer pool would leave the inner one, or remove it, too.
Result<> check_outside_pools(const std::string& directory, Report& report) {
    std::error_code failed;
    const auto whole = std::filesystem::weakly_canonical(directory, failed);
    if (failed) return {};  // the creation reports the problem
    for (auto inner = whole; inner.has_relative_path(); inner = inner.parent_path()) {
        Report none;
        const auto outer = pool::read_pool_directory(inner.parent_path(), none);
        if (!outer) continue;
        return report.fail(Code::invalid,
                           "{} is inside the directory of the pool '{}', {}: choose one outside it",
                           directory, outer->config.pool, outer->directory);
    }
    return {};
}

}  // namespace

Task<Result<pool::PoolDirectory>> create_pool(CommandContext context, const UpOptions& options) {
    ROS2S_CO_TRY(check_outside_pools(options.directory, context.report));
    const auto raw = std::ranges::count_if(options.device_directories, [](const auto& location) {
        return pool::raw_device_bytes(location).has_value();
    });
    if (options.size && raw > 0 && static_cast<size_t>(raw) == options.device_directories.size()) {
        co_return context.report.fail(Code::invalid, used_whole);
    }
    const auto one_each =
        std::max(default_devices, static_cast<uint32_t>(options.device_directories.size()));
    ROS2S_CO_TRY_ASSIGN(const uint64_t bytes,
                        size_of(options.size.value_or(default_size), context.report));
    Progress progress("writing the pool's files once", Progress::Unit::bytes,
                      !context.console.json());
    const pool::PoolCreation creation{
        .directory = options.directory,
        .pool = options.pool.value_or(default_pool),
        .bytes = bytes,
        .devices = options.devices.value_or(one_each),
        .device_directories = options.device_directories,
        .container = options.container.value_or(default_container),
        .progress = [&](uint64_t done, uint64_t total) { progress.update(done, total); }};
    ROS2S_CO_TRY(
        co_await pool::create_pool(context.call, context.environment, creation, context.report));
    co_return pool::read_pool_directory(options.directory, context.report);
}

void warn_of_memory(const Console& console, const pool::PoolDirectory& pool) {
    if (const auto sentence = in_memory(pool.directory)) return console.warn(*sentence);
    for (const auto& device : pool.devices) {
        if (const auto sentence = in_memory(device)) console.warn(*sentence);
    }
}

std::string devices_text(const pool::PoolDirectory& pool) {
    return fmt::format("{} on {} device{}", human_bytes(pool.device_bytes), pool.devices.size(),
                       pool.devices.size() == 1 ? "" : "s");
}

std::vector<Json> device_list(const pool::PoolDirectory& pool) {
    return {pool.devices.begin(), pool.devices.end()};
}

Task<Result<>> pool_create(CommandContext context, UpOptions options) {
    ROS2S_CO_TRY_ASSIGN(const pool::PoolDirectory pool, co_await create_pool(context, options));
    context.console.answer(Json::object({{"directory", pool.directory},
                                         {"pool", pool.config.pool},
                                         {"bytes", pool.device_bytes},
                                         {"devices", Json::array(device_list(pool))}}));
    context.console.say("Pool '{}' is ready: {} in {}", pool.config.pool, devices_text(pool),
                        pool.directory);
    const api::Uri uri{.pool = pool.config.pool, .container = "NAME", .dir = pool.directory};
    context.console.say("Next: ros2store container create {}", shell_word(uri.to_string()));
    warn_of_memory(context.console, pool);
    co_return Result<>{};
}

Task<Result<>> pool_grow(CommandContext context, GrowOptions options) {
    ROS2S_CO_TRY_ASSIGN(const std::string directory,
                        pool_directory_of(options.location, context.report));
    const auto whole = pool::raw_device_bytes(options.device_directory);
    if (whole.has_value() != options.size.empty()) {
        co_return context.report.fail(
            Code::invalid,
            whole ? used_whole
                  : "--size is required: the size of the new device file, for example 1T");
    }
    uint64_t bytes = whole.value_or(0);
    if (!whole) {
        ROS2S_CO_TRY_ASSIGN(bytes, size_of(options.size, context.report));
    }
    ROS2S_CO_TRY_ASSIGN(const auto before, pool::read_pool_directory(directory, context.report));
    ROS2S_CO_TRY_ASSIGN(const auto owner, owner_of(before.directory, context.report));
    if (api::is_served(before.directory, owner)) {
        const std::string location = shell_word(before.directory);
        const std::string size = whole ? "" : " --size " + shell_word(options.size);
        const std::string device = options.device_directory.empty()
                                       ? ""
                                       : " --device-dir " + shell_word(options.device_directory);
        co_return context.report.fail(
            Code::busy,
            "the pool in {0} is served by process {1} ({2}), and grows only while no process has "
            "it open: ros2store down {3} && ros2store pool grow {3}{4}{5} && ros2store up {3}",
            before.directory, owner.pid, owner.program, location, size, device);
    }
    {
        Progress progress("writing the new device file once", Progress::Unit::bytes,
                          !context.console.json());
        const auto show = [&](uint64_t done, uint64_t total) { progress.update(done, total); };
        ROS2S_CO_TRY(co_await pool::grow_pool(context.call, context.environment,
                                              {.directory = directory,
                                               .bytes = bytes,
                                               .device_directory = options.device_directory,
                                               .progress = show},
                                              context.report));
    }
    ROS2S_CO_TRY_ASSIGN(const auto pool, pool::read_pool_directory(directory, context.report));
    const uint64_t added = pool.device_bytes - before.device_bytes;
    context.console.answer(Json::object({{"directory", pool.directory},
                                         {"pool", pool.config.pool},
                                         {"added_bytes", added},
                                         {"bytes", pool.device_bytes},
                                         {"devices", Json::array(device_list(pool))}}));
    context.console.say("Pool '{}' has grown by {}: {} in {}", pool.config.pool, human_bytes(added),
                        devices_text(pool), pool.directory);
    co_return Result<>{};
}

}  // namespace ros2s::cli
