#include "ros2s/api/pool_directory.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "container.h"
#include "pool_files.h"
#include "ros2s/api/embedded_pool.h"
#include "ros2s/api/owner.h"
#include "ros2s/config/units.h"
#include "ros2s/device/uring/file_device.h"
#include "store_stack.h"

namespace ros2s::api {
namespace {

std::unexpected<Error> cannot(std::string_view do_what, const std::string& path, const Error& error,
                              Report& report) {
    return report.fail(error, fmt::format("cannot {} {}: {}", do_what, path, describe(error)));
}

Result<std::string> absolute(const std::string& path, Report& report) {
    std::error_code error;
    auto whole = std::filesystem::absolute(path, error).lexically_normal().string();
    if (path.empty() || error)
        return report.fail(Code::invalid, "the pool's directory has no name");
    if (whole.size() > 1 && whole.ends_with('/')) whole.pop_back();
    return whole;
}

bool exists(const std::string& path) {
    struct stat status{};
    return ::lstat(path.c_str(), &status) == 0;
}

Result<> check_request(const PoolCreation& creation, Report& report) {
    for (const auto& [what, name] :
         {std::pair{"pool", creation.pool}, std::pair{"container", creation.container}}) {
        if (object::is_valid_label(name) || (what[0] == 'c' && name.empty())) continue;
        return report.fail(
            Code::invalid,
            fmt::format("the {} name '{}' is not 1 to 127 of A-Z a-z 0-9 . _ -", what, name));
    }
    if (creation.devices < 1 || creation.devices > pool_devices_max) {
        return report.fail(Code::invalid, fmt::format("a pool has 1 to {} devices, not {}",
                                                      pool_devices_max, creation.devices));
    }
    if (creation.bytes / creation.devices < pool_bytes_min) {
        return report.fail(
            Code::invalid,
            fmt::format("{} are too little for {} device{}: each needs {} at least",
                        config::format_size(creation.bytes), creation.devices,
                        creation.devices == 1 ? "" : "s", config::format_size(pool_bytes_min)));
    }
    return {};
}

// A pool that has lost its settings is not nobody's: its data are there.
std::string lost_settings(const std::string& directory, const std::string& data) {
    return fmt::format(
        "{} holds a pool's data ('{}') but no {}: put it back from a copy, or write "
        "one with the line `pool: NAME` (the name in its URIs); nothing was changed",
        directory, data, config_name);
}

// Refuses a directory that holds something. Changes nothing.
Result<> check_directory(const std::string& directory, Report& report) {
    if (exists(in(directory, config_name)) && !exists(in(directory, half_made_name))) {
        return report.fail(Code::exists,
                           fmt::format("there is a pool in {} already: use it (`ros2store status "
                                       "{}`), or remove it with all its data first: `ros2store "
                                       "pool destroy {}`",
                                       directory, directory, directory));
    }
    const auto data = data_names(directory);
    if (!data) return cannot("list", directory, data.error(), report);
    if (!data->empty() && !exists(in(directory, half_made_name))) {
        return report.fail(Code::exists, lost_settings(directory, data->front()));
    }
    const auto names = foreign_names(directory);
    if (!names) return cannot("list", directory, names.error(), report);
    if (!names->empty()) {
        return report.fail(
            Code::exists, fmt::format("{} is not empty (it holds '{}', which is no pool's): choose "
                                      "a new or empty directory",
                                      directory, names->front()));
    }
    return {};
}

// Where the device files go: path and, where that is elsewhere, the link to it.
struct DevicePlace {
    std::string path;
    std::string link;  // empty: none
};

std::vector<DevicePlace> place_devices(const std::string& directory, const PoolCreation& creation) {
    std::vector<DevicePlace> places;
    for (size_t i = 0; i < creation.devices; ++i) {
        const auto& others = creation.device_directories;
        if (others.empty()) {
            places.push_back({.path = in(directory, device_name(i))});
        } else {
            places.push_back({.path = fmt::format("{}/ros2store-{}-{}", others[i % others.size()],
                                                  creation.pool, device_name(i)),
                              .link = in(directory, device_name(i))});
        }
    }
    return places;
}

// Before anything is written: room for all device files that share a file system, and for what an
// index takes beside them.
Result<> check_space(const std::vector<DevicePlace>& places, uint64_t device_bytes,
                     Report& report) {
    constexpr uint64_t index_bytes = uint64_t{64} << 20;
    std::map<dev_t, uint64_t> needed;
    for (const auto& place : places) {
        const auto parent = std::filesystem::path(place.path).parent_path().string();
        struct stat status{};
        if (::stat(parent.c_str(), &status) != 0) {
            return cannot("make a device file in", parent, fail_errno(errno).error(), report);
        }
        struct statvfs space{};
        if (::statvfs(parent.c_str(), &space) != 0) {
            return cannot("ask for the free space of", parent, fail_errno(errno).error(), report);
        }
        const uint64_t free_bytes = uint64_t{space.f_bavail} * space.f_frsize;
        uint64_t& sum = needed.try_emplace(status.st_dev, index_bytes).first->second;
        sum += device_bytes;
        if (sum > free_bytes) {
            constexpr double gib = 1 << 30;
            return report.fail(
                Code::no_space,
                fmt::format(
                    "{} needs {:.1f} GiB of free space and has {:.1f} GiB: free some, choose "
                    "another directory, or a smaller --size",
                    parent, static_cast<double>(sum) / gib, static_cast<double>(free_bytes) / gib));
        }
        if (exists(place.path)) {
            return report.fail(Code::exists, fmt::format("{} exists already: remove it, or choose "
                                                         "another name for the pool",
                                                         place.path));
        }
    }
    return {};
}

Task<Result<>> make_devices(const Call& call, Environment environment, const PoolCreation& creation,
                            const std::vector<DevicePlace>& places, uint64_t device_bytes,
                            Report& report) {
    const uint64_t total = device_bytes * places.size();
    for (size_t i = 0; i < places.size(); ++i) {
        const auto& place = places[i];
        if (!place.link.empty() && ::symlink(place.path.c_str(), place.link.c_str()) != 0) {
            co_return cannot("make the link", place.link, fail_errno(errno).error(), report);
        }
        const device::Progress progress = [&creation, i, device_bytes, total](uint64_t done,
                                                                              uint64_t) {
            if (creation.progress) creation.progress(i * device_bytes + done, total);
        };
        ROS2S_CO_TRY(co_await device::create_file_device(
            environment.reactor, place.path, device_bytes, {.buffered = creation.config.page_cache},
            progress, call.stop, report));
    }
    co_return {};
}

Task<Result<>> make_container(const Call& call, Environment environment,
                              const PoolDirectory& directory, const std::string& container,
                              Report& report) {
    ROS2S_CO_TRY_ASSIGN(auto stack, co_await StoreStack::open(environment, directory, report));
    Result<> made;
    if (!container.empty()) {
        const fs::Owner owner{.uid = ::geteuid(), .gid = ::getegid()};
        const auto created = co_await create_container(call, environment.reactor, stack->store(),
                                                       {.label = container}, owner, report);
        if (!created) made = fail(created.error());
    }
    const auto closed = co_await stack->close();
    ROS2S_CO_TRY(made);
    if (!closed)
        co_return cannot("write out the new pool in", directory.directory, closed.error(), report);
    co_return {};
}

// Everything between half-made's coming and going.
Task<Result<>> make_pool(const Call& call, Environment environment, const PoolCreation& creation,
                         std::string directory, Report& report) {
    const auto places = place_devices(directory, creation);
    const auto device_bytes = round_down(creation.bytes / creation.devices, block_bytes);
    ROS2S_CO_TRY(check_space(places, device_bytes, report));
    if (const auto marked = replace_file(in(directory, half_made_name), "\n"); !marked) {
        co_return cannot("write in", directory, marked.error(), report);
    }
    ROS2S_CO_TRY(co_await make_devices(call, environment, creation, places, device_bytes, report));
    PoolDirectory pool{.directory = directory,
                       .config = creation.config,
                       .device_bytes = device_bytes * creation.devices};
    pool.config.pool = creation.pool;
    for (size_t i = 0; i < places.size(); ++i)
        pool.devices.push_back(in(directory, device_name(i)));
    ROS2S_CO_TRY(co_await StoreStack::format(environment, pool, report));
    ROS2S_CO_TRY(co_await make_container(call, environment, pool, creation.container, report));
    if (call.stop.stop_requested()) {
        co_return report.fail(Code::cancelled, fmt::format("the creation of the pool in {} was "
                                                           "stopped",
                                                           directory));
    }
    const auto config = replace_file(in(directory, config_name), pool.config.document());
    if (!config) co_return cannot("write the settings in", directory, config.error(), report);
    if (::unlink(in(directory, half_made_name).c_str()) != 0) {
        co_return cannot("finish the pool in", directory, fail_errno(errno).error(), report);
    }
    if (const auto synced = sync_directory(directory); !synced) {
        co_return cannot("make durable", directory, synced.error(), report);
    }
    co_return {};
}

}  // namespace

Task<Result<>> create_pool(const Call& call, Environment environment, const PoolCreation& creation,
                           Report& report) {
    ROS2S_CO_TRY(check_request(creation, report));
    ROS2S_CO_TRY_ASSIGN(const std::string directory, absolute(creation.directory, report));
    const bool fresh = ::mkdir(directory.c_str(), 0755) == 0;
    if (!fresh && errno != EEXIST) {
        co_return cannot("make the directory", directory, fail_errno(errno).error(), report);
    }
    // Before the lock, so that a refused directory stays as it is; and under it, where it counts.
    ROS2S_CO_TRY(check_directory(directory, report));
    OwnerRecord present;
    const OwnerRecord self{.pid = ::getpid(), .program = ::program_invocation_short_name};
    ROS2S_CO_TRY_ASSIGN(auto ownership, co_await Ownership::take_patiently(
                                            environment.reactor, directory, self, present, report));
    ROS2S_CO_TRY(check_directory(directory, report));
    if (const auto cleared = remove_pool_files(directory); !cleared) {
        co_return cannot("clear what an interrupted creation left in", directory, cleared.error(),
                         report);
    }
    const auto made = co_await make_pool(call, environment, creation, directory, report);
    if (made) co_return {};
    if (const auto removed = remove_pool_files(directory); !removed) {
        report.say(fmt::format("what was made in {} could not be removed: {}", directory,
                               describe(removed.error())));
    }
    ::unlink(in(directory, owner_name).c_str());
    ownership.reset();
    if (fresh) ::rmdir(directory.c_str());
    co_return fail(made.error());
}

Result<> destroy_pool(const std::string& path, Report& report) {
    ROS2S_TRY_ASSIGN(const std::string directory, absolute(path, report));
    const bool interrupted = exists(in(directory, half_made_name));
    if (!interrupted && !exists(in(directory, config_name))) {
        return report.fail(Code::not_found, fmt::format("there is no pool in {}", directory));
    }
    OwnerRecord present;
    const OwnerRecord self{.pid = ::getpid(), .program = ::program_invocation_short_name};
    ROS2S_TRY_ASSIGN(auto ownership, Ownership::take(directory, self, present, report));
    auto removed = replace_file(in(directory, half_made_name), "\n");
    if (removed) removed = remove_pool_files(directory);
    if (!removed) return cannot("remove the pool in", directory, removed.error(), report);
    ::unlink(in(directory, owner_name).c_str());
    ownership.reset();
    ::rmdir(directory.c_str());  // stays where other files are in it
    return {};
}

Result<PoolDirectory> read_pool_directory(const std::string& path, Report& report) {
    ROS2S_TRY_ASSIGN(std::string directory, absolute(path, report));
    struct stat status{};
    const int missing = ::stat(directory.c_str(), &status) == 0 ? 0 : errno;
    if (missing != 0 || !S_ISDIR(status.st_mode)) {
        const int cause = missing != 0 ? missing : ENOTDIR;
        return report.fail(fail_errno(cause).error(),
                           fmt::format("cannot open the pool directory {} ({}); `ros2store up {}` "
                                       "makes one",
                                       directory, std::strerror(cause), directory));
    }
    if (exists(in(directory, half_made_name))) {
        return report.fail(
            Code::not_found,
            fmt::format("the pool in {} is incomplete: its creation or removal is under way or was "
                        "interrupted; `ros2store up {}` clears it and makes a new one",
                        directory, directory));
    }
    const auto config_path = in(directory, config_name);
    std::ifstream file(config_path);
    std::ostringstream text;
    text << file.rdbuf();
    if (!file) {
        const int cause = exists(config_path) ? EACCES : ENOENT;
        const auto data = data_names(directory);
        if (cause == ENOENT && data && !data->empty()) {
            return report.fail(Code::not_found, lost_settings(directory, data->front()));
        }
        return report.fail(fail_errno(cause).error(),
                           cause == ENOENT
                               ? fmt::format("there is no pool in {} (it has no {}); `ros2store up "
                                             "{}` makes one",
                                             directory, config_name, directory)
                               : fmt::format("cannot read {}", config_path));
    }
    PoolDirectory found{.directory = std::move(directory)};
    ROS2S_TRY_ASSIGN(found.config, PoolConfig::parse(text.str(), config_path, report));
    for (size_t i = 0; i < pool_devices_max; ++i) {
        const auto device = in(found.directory, device_name(i));
        if (!exists(device)) continue;  // the engine knows whether one is missing
        if (::stat(device.c_str(), &status) != 0) {
            return cannot("open the device file", device, fail_errno(errno).error(), report);
        }
        found.device_bytes += static_cast<uint64_t>(status.st_size);
        found.devices.push_back(device);
    }
    if (found.devices.empty()) {
        return report.fail(Code::not_found,
                           fmt::format("the pool in {} has lost its device files ({} …): put them "
                                       "back where they were",
                                       found.directory, device_name(0)));
    }
    return found;
}

}  // namespace ros2s::api
