#include "pool_engine.h"

#include <errno.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "device_files.h"
#include "pool_files.h"
#include "ros2s/config/units.h"
#include "ros2s/engine/index/rocksdb/rocksdb_index.h"
#include "ros2s/runtime/process_limits.h"

namespace ros2s::pool {
namespace {

using Devices = engine::EngineStore::Devices;

Task<> close_all(Devices& devices) {
    for (auto& each : devices) co_await each->close();
}

Task<Result<Devices>> open_devices(Environment environment, PoolDirectory directory,
                                   Report& report) {
    Devices devices;
    for (const auto& path : directory.devices) {
        auto opened = co_await open_device(environment, path, directory.config.page_cache, report,
                                           directory.read_only);
        if (!opened) {
            co_await close_all(devices);
            co_return fail(opened.error());
        }
        devices.push_back(std::move(*opened));
    }
    co_return std::move(devices);
}

engine::IndexFactory index_in(const PoolDirectory& directory, const Log& log) {
    constexpr size_t open_files_most = 256;
    // Helpers of ours that start meanwhile, and workers of io_uring: without a worker the kernel
    // cancels a transfer.
    constexpr size_t threads_beside = 4;
    const engine::RocksDbOptions options{
        .memory_bytes =
            engine::EngineOptions{.memory_bytes = directory.config.memory_bytes}.index_share(),
        .read_only = directory.read_only,
        .open_files_max = static_cast<int>(descriptor_share(4, open_files_most)),
        .log = log};
    return [options, parent = directory.directory](
               std::string_view name, bool create,
               Report& report) -> Result<std::unique_ptr<engine::Index>> {
        ROS2S_TRY(check_threads(engine::rocksdb_threads + threads_beside, "RocksDB and io_uring",
                                report));
        const auto path = in(parent, name);
        return create ? engine::create_rocksdb_index(path, options, report)
                      : engine::open_rocksdb_index(path, options, report);
    };
}

// Under a limit on address space the pool gets half of what is left beside the stacks and heaps of
// threads, some 70 MiB for each; the other half is the program's. Memory that runs out in the
// middle of an operation would end the process. Errors: no_memory, reported.
Result<> keep_to_address_space(PoolDirectory& directory, const Log& log, Report& report) {
    constexpr uint64_t beside = uint64_t{256} << 20;
    const uint64_t left = address_space_left();
    if (left == UINT64_MAX) return {};
    const uint64_t share = (left - std::min(left, beside)) / 2;
    uint64_t& memory = directory.config.memory_bytes;
    if (share >= memory) return {};
    if (share < memory_bytes_min) {
        return report.fail(fail_errno(ENOMEM).error(),
                           "the pool in {} needs {} of address space, and {} are left to this "
                           "process: raise its limit (ulimit -v)",
                           directory.directory, config::human_size(beside + 2 * memory_bytes_min),
                           config::human_size(left));
    }
    log.warning(
        "the pool in {} uses {} of memory and not {}, as 'engine: memory' in {} allows: this "
        "process has a limit on address space (ulimit -v)",
        directory.directory, config::human_size(share), config::human_size(memory), config_name);
    memory = share;
    return {};
}

Task<Result<std::unique_ptr<engine::EngineStore>>> open_as_it_is(Environment environment,
                                                                 PoolDirectory directory,
                                                                 engine::EngineOptions options,
                                                                 Report& report) {
    ROS2S_CO_TRY(keep_to_address_space(directory, environment.log, report));
    const PoolConfig& config = directory.config;
    options.memory_bytes = config.memory_bytes;
    options.groups_in_flight = config.groups_in_flight;
    options.accept_copies = config.accept_copies;
    options.discard = config.discard;
    options.cleaner_percent = config.cleaner_percent;
    options.rest_after = std::chrono::seconds(5);
    options.read_only = directory.read_only;
    if (is_on_read_only_medium(directory.directory)) {
        options.read_only_reason = "its file system is mounted read-only";
    }
    ROS2S_CO_TRY_ASSIGN(auto devices, co_await open_devices(environment, directory, report));
    co_return co_await engine::EngineStore::open(environment, std::move(devices),
                                                 index_in(directory, environment.log),
                                                 std::move(options), report);
}

}  // namespace

Task<Result<TakenPool>> take_pool(Reactor& reactor, std::string directory, OwnerRecord self,
                                  OwnerRecord& present, Report& report, PoolUse use) {
    ROS2S_CO_TRY_ASSIGN(const auto named, read_pool_directory(directory, report));
    self.pid = ::getpid();
    if (self.program.empty()) self.program = ::program_invocation_short_name;
    std::unique_ptr<Ownership> ownership;
    if (named.read_only || use == PoolUse::reading) {
        ROS2S_CO_TRY_ASSIGN(ownership, co_await Ownership::share_patiently(reactor, named.directory,
                                                                           present, report));
    } else {
        ROS2S_CO_TRY_ASSIGN(
            ownership, co_await Ownership::take_patiently(reactor, named.directory, std::move(self),
                                                          present, report));
    }
    // Read again, now that this process is the owner.
    ROS2S_CO_TRY_ASSIGN(auto found, read_pool_directory(named.directory, report));
    found.read_only |= use == PoolUse::reading;
    co_return TakenPool{std::move(ownership), std::move(found)};
}

Result<TakenPool> adopt_pool(const std::string& directory, int owner_file, const OwnerRecord& self,
                             Report& report) {
    ROS2S_TRY_ASSIGN(auto ownership, Ownership::adopt(owner_file, self, report));
    ROS2S_TRY_ASSIGN(auto found, read_pool_directory(directory, report));
    return TakenPool{std::move(ownership), std::move(found)};
}

Task<Result<>> format_engine(Environment environment, PoolDirectory directory, Report& report) {
    ROS2S_CO_TRY_ASSIGN(auto devices, co_await open_devices(environment, directory, report));
    std::vector<device::BlockDevice*> borrowed;
    for (const auto& each : devices) borrowed.push_back(each.get());
    const auto made = co_await engine::EngineStore::create(
        environment, borrowed, index_in(directory, environment.log), {}, report);
    co_await close_all(devices);
    co_return made;
}

Result<> end_growth(const PoolDirectory& directory, Report& report) {
    const auto marker = in(directory.directory, growing_name);
    if (::unlink(marker.c_str()) != 0 && errno != ENOENT) {
        return cannot("finish the growth of the pool: remove", marker, fail_errno(errno).error(),
                      report);
    }
    if (const auto synced = sync_directory(directory.directory); !synced) {
        return cannot("make durable", directory.directory, synced.error(), report);
    }
    return {};
}

Task<Result<std::unique_ptr<engine::EngineStore>>> open_engine(Environment environment,
                                                               PoolDirectory& directory,
                                                               Report& report,
                                                               engine::EngineOptions options) {
    if (directory.growing.empty()) {
        co_return co_await open_as_it_is(environment, directory, std::move(options), report);
    }
    const std::string added = std::exchange(directory.growing, {});
    Report refusal;
    auto engine = co_await open_as_it_is(environment, directory, options, refusal);
    std::error_code error;
    if (!engine && engine.error().code == Code::invalid && std::filesystem::exists(added, error)) {
        // An older device lists the new one, so it belongs to the pool.
        directory.devices.push_back(added);
        directory.device_bytes += device_bytes(added).value_or(0);
        refusal = {};
        engine = co_await open_as_it_is(environment, directory, options, refusal);
        if (engine && !directory.read_only) {
            environment.log.info("a growth that was interrupted is finished: the pool has {} now",
                                 added);
        }
    } else if (engine && !directory.read_only) {
        if (const auto removed = remove_device(added, Removal::unfinished); !removed) {
            co_await (*engine)->close();
            co_return cannot("remove what an interrupted growth left:", added, removed.error(),
                             report);
        }
        environment.log.info("a growth that was interrupted is undone: {} is gone", added);
    }
    if (!engine) co_return report.fail(engine.error(), refusal.text());
    if (directory.read_only) co_return std::move(engine);
    if (const auto ended = end_growth(directory, report); !ended) {
        co_await (*engine)->close();
        co_return fail(ended.error());
    }
    co_return std::move(engine);
}

}  // namespace ros2s::pool
