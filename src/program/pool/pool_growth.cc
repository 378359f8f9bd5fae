#include "ros2s/pool/pool_growth.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "device_files.h"
#include "pool_engine.h"
#include "pool_files.h"
#include "ros2s/config/units.h"

namespace ros2s::pool {
namespace {

// Checks before anything is written.
Result<DevicePath> plan(const PoolDirectory& pool, const PoolGrowth& growth,
                        const std::string& read_only_reason, const Secrets& secrets,
                        Report& report) {
    if (growth.bytes < pool_bytes_min && !raw_device_bytes(growth.device_directory)) {
        return report.fail(Code::invalid, "{} are too little for a device: it needs {} at least",
                           config::format_size(growth.bytes), config::format_size(pool_bytes_min));
    }
    if (!read_only_reason.empty()) {
        return report.fail(Code::read_only, "the pool in {} cannot grow: {}", pool.directory,
                           read_only_reason);
    }
    const auto is_taken = [&](size_t number) {
        return std::ranges::find(pool.devices, in(pool.directory, device_name(number))) !=
               pool.devices.end();
    };
    size_t number = 0;
    while (number < pool_devices_max && is_taken(number)) ++number;
    if (number == pool_devices_max) {
        return report.fail(Code::too_large,
                           "the pool in {} has {} devices, and can have no more: make a larger one "
                           "(`ros2store up`) and copy its files there (`ros2store cp -r`)",
                           pool.directory, pool_devices_max);
    }
    auto place =
        device_path(pool.directory, pool.config.pool, number, growth.device_directory, secrets);
    ROS2S_TRY(check_space({place}, round_down(growth.bytes, block_bytes), {}, report));
    return place;
}

Task<Result<>> write_file(const Call& call, Environment environment, const PoolDirectory& pool,
                          const PoolGrowth& growth, DevicePath place, Report& report) {
    const auto bytes = round_down(growth.bytes, block_bytes);
    const auto progress = [&growth, bytes](uint64_t done) {
        if (growth.progress) growth.progress(done, bytes);
    };
    // The two ends are reported, too: nothing of the file, then all of it.
    progress(0);
    ROS2S_CO_TRY(co_await make_device(call, environment, std::move(place), bytes,
                                      pool.config.page_cache, progress, report));
    progress(bytes);
    if (call.stop.stop_requested()) {
        co_return report.fail(Code::cancelled, "the growth of the pool in {} was stopped",
                              pool.directory);
    }
    co_return {};
}

Task<Result<>> grow(const Call& call, Environment environment, const PoolDirectory& pool,
                    const PoolGrowth& growth, engine::EngineStore& engine, Report& report) {
    ROS2S_CO_TRY_ASSIGN(const auto place, plan(pool, growth, engine.read_only_reason(),
                                               environment.reactor.secrets(), report));
    const std::string device = place.link.empty() ? place.path : place.link;
    const auto name = std::filesystem::path(device).filename().string();
    const auto marked = replace_file(in(pool.directory, growing_name), name + "\n");
    if (!marked) co_return cannot("write in", pool.directory, marked.error(), report);
    auto written = co_await write_file(call, environment, pool, growth, place, report);
    if (!written) {
        if (const auto removed = remove_device(device, Removal::unfinished); !removed) {
            report.say(
                "cannot remove the new device {}: {}; the next opening of the pool tries again",
                device, describe(removed.error()));
            co_return written;
        }
        if (const auto ended = end_growth(pool, report); !ended) co_return ended;
        co_return written;
    }
    ROS2S_CO_TRY_ASSIGN(auto opened,
                        co_await open_device(environment, device, pool.config.page_cache, report));
    ROS2S_CO_TRY(co_await engine.grow(std::move(opened), report));
    if (growth.progress) growth.progress(growth.bytes, growth.bytes);
    co_return end_growth(pool, report);
}

}  // namespace

Task<Result<>> grow_pool(const Call& call, Environment environment, PoolGrowth growth,
                         Report& report) {
    OwnerRecord present;
    ROS2S_CO_TRY_ASSIGN(
        auto taken, co_await take_pool(environment.reactor, growth.directory, {}, present, report));
    PoolDirectory& pool = taken.directory;
    ROS2S_CO_TRY_ASSIGN(auto engine, co_await open_engine(environment, pool, report));
    const auto grown = co_await grow(call, environment, pool, growth, *engine, report);
    const auto closed = co_await engine->close();
    ROS2S_CO_TRY(grown);
    if (!closed) co_return cannot("write out the pool in", pool.directory, closed.error(), report);
    co_return {};
}

}  // namespace ros2s::pool
