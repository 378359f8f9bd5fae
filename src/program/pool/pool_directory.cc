#include "ros2s/pool/pool_directory.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "device_files.h"
#include "pool_engine.h"
#include "pool_files.h"
#include "ros2s/base/durable_file.h"
#include "ros2s/base/trusted_file.h"
#include "ros2s/client/counted_store.h"
#include "ros2s/config/units.h"
#include "ros2s/fs/container.h"
#include "ros2s/pool/embedded_pool.h"
#include "ros2s/pool/owner.h"

namespace ros2s::pool {
namespace {

Result<std::string> absolute(const std::string& path, Report& report) {
    std::error_code error;
    auto whole = std::filesystem::absolute(path, error).lexically_normal().string();
    if (path.empty() || error)
        return report.fail(Code::invalid, "the pool's directory has no name");
    if (whole.size() > 1 && whole.ends_with('/')) whole.pop_back();
    return whole;
}

Result<> check_request(const PoolCreation& creation, Report& report) {
    for (const auto& [what, name] :
         {std::pair{"pool", creation.pool}, std::pair{"container", creation.container}}) {
        if (object::is_valid_label(name) || (what[0] == 'c' && name.empty())) continue;
        return report.fail(Code::invalid, "the {} name '{}' is not 1 to 127 of A-Z a-z 0-9 . _ -",
                           what, name);
    }
    if (creation.devices < 1 || creation.devices > pool_devices_max) {
        return report.fail(Code::invalid, "a pool has 1 to {} devices, not {}", pool_devices_max,
                           creation.devices);
    }
    if (creation.devices < creation.device_directories.size()) {
        return report.fail(
            Code::invalid,
            "{} locations for {} device{}: name at most one location for each device",
            creation.device_directories.size(), creation.devices, creation.devices == 1 ? "" : "s");
    }
    if (creation.bytes / creation.devices < pool_bytes_min) {
        return report.fail(Code::invalid,
                           "{} are too little for {} device{}: each needs {} at least",
                           config::format_size(creation.bytes), creation.devices,
                           creation.devices == 1 ? "" : "s", config::format_size(pool_bytes_min));
    }
    return {};
}

// A pool whose settings are lost is still a pool: its data exist.
std::string lost_settings(const std::string& directory, const std::string& data) {
    return fmt::format(
        "{} holds a pool's data ('{}') but no {}: put it back from a copy, or write one with the "
        "line `pool: NAME` (the name in its URIs); nothing was changed",
        directory, data, config_name);
}

// Refuses a directory that is not empty. Changes nothing.
Result<> check_directory(const std::string& directory, Report& report) {
    if (exists(in(directory, config_name)) && !exists(in(directory, half_made_name))) {
        return report.fail(Code::exists,
                           "there is a pool in {} already: use it (`ros2store status {}`), or "
                           "remove it with all its data first: `ros2store pool destroy {}`",
                           directory, directory, directory);
    }
    const auto data = data_names(directory);
    if (!data) return cannot("list", directory, data.error(), report);
    if (!data->empty() && !exists(in(directory, half_made_name))) {
        return report.fail(Code::exists, lost_settings(directory, data->front()));
    }
    const auto names = foreign_names(directory);
    if (!names) return cannot("list", directory, names.error(), report);
    if (!names->empty()) {
        return report.fail(Code::exists,
                           "{} is not empty (it holds '{}', which does not belong to a pool): "
                           "choose a new or empty directory",
                           directory, names->front());
    }
    return {};
}

// The initial space for an index beside the devices.
constexpr uint64_t index_bytes = uint64_t{64} << 20;

std::vector<DevicePath> place_devices(const std::string& directory, const PoolCreation& creation,
                                      const Secrets& secrets) {
    std::vector<DevicePath> places;
    const auto& others = creation.device_directories;
    for (size_t i = 0; i < creation.devices; ++i) {
        places.push_back(device_path(directory, creation.pool, i,
                                     others.empty() ? "" : others[i % others.size()], secrets));
    }
    return places;
}

uint64_t bytes_of(const DevicePath& place, uint64_t file_bytes) {
    return place.raw_bytes > 0 ? place.raw_bytes : file_bytes;
}

Task<Result<>> make_devices(const Call& call, Environment environment, const PoolCreation& creation,
                            const std::vector<DevicePath>& places, uint64_t file_bytes,
                            Report& report) {
    uint64_t total = 0, before = 0;
    for (const auto& place : places) total += bytes_of(place, file_bytes);
    for (const auto& place : places) {
        const auto progress = [&creation, before, total](uint64_t done) {
            if (creation.progress) creation.progress(before + done, total);
        };
        ROS2S_CO_TRY(co_await make_device(call, environment, place, file_bytes,
                                          creation.config.page_cache, progress, report));
        before += bytes_of(place, file_bytes);
    }
    co_return {};
}

Task<Result<>> make_container(const Call& call, Environment environment, PoolDirectory& directory,
                              const std::string& container, Report& report) {
    ROS2S_CO_TRY_ASSIGN(auto engine, co_await open_engine(environment, directory, report));
    Result<> made;
    if (!container.empty()) {
        const fs::Owner owner{.uid = ::geteuid(), .gid = ::getegid()};
        client::CountedStore store(environment.reactor, *engine);
        const auto created = co_await fs::create_container(call, environment.reactor, store,
                                                           {.label = container}, owner, report);
        if (!created) made = fail(created.error());
    }
    const auto closed = co_await engine->close();
    ROS2S_CO_TRY(made);
    if (!closed)
        co_return cannot("write out the new pool in", directory.directory, closed.error(), report);
    co_return {};
}

// The steps between creating and removing half-made.
Task<Result<>> make_pool(const Call& call, Environment environment, const PoolCreation& creation,
                         std::string directory, Report& report) {
    const auto places = place_devices(directory, creation, environment.reactor.secrets());
    const auto files = std::ranges::count(places, uint64_t{0}, &DevicePath::raw_bytes);
    const auto file_bytes = round_down(creation.bytes / std::max<uint64_t>(files, 1), block_bytes);
    ROS2S_CO_TRY(check_space(places, file_bytes, {directory, index_bytes}, report));
    if (const auto marked = replace_file(in(directory, half_made_name), "\n"); !marked) {
        co_return cannot("write in", directory, marked.error(), report);
    }
    ROS2S_CO_TRY(co_await make_devices(call, environment, creation, places, file_bytes, report));
    PoolDirectory pool{.directory = directory, .config = creation.config};
    pool.config.pool = creation.pool;
    for (size_t i = 0; i < places.size(); ++i) {
        pool.devices.push_back(in(directory, device_name(i)));
        pool.device_bytes += bytes_of(places[i], file_bytes);
    }
    ROS2S_CO_TRY(co_await format_engine(environment, pool, report));
    ROS2S_CO_TRY(co_await make_container(call, environment, pool, creation.container, report));
    if (call.stop.stop_requested()) {
        co_return report.fail(Code::cancelled, "the creation of the pool in {} was stopped",
                              directory);
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

// The path of the device file that is being added, or "".
Result<std::string> growing_in(const std::string& directory, Report& report) {
    const auto path = in(directory, growing_name);
    if (!exists(path)) return std::string();
    constexpr size_t name_bytes_max = 64;
    Report why;
    const auto read = read_trusted(path, name_bytes_max, why);
    if (!read && read.error().code != Code::too_large) return report.fail(read.error(), why.text());
    const std::string text = read.value_or("");
    const std::string name = text.substr(0, text.find('\n'));
    if (!is_device_name(name) || name.ends_with(".new")) {
        return report.fail(Code::corrupt,
                           "{} does not name the device file that is being added: write its name "
                           "there ({}, say), or remove {} where none is",
                           path, device_name(1), path);
    }
    return in(directory, name);
}

Result<uint64_t> bytes_of_device(const std::string& device, Report& report) {
    const auto bytes = device_bytes(device);
    if (bytes) return *bytes;
    const Error error = bytes.error();
    std::error_code no_link;
    const auto target = std::filesystem::read_symlink(device, no_link).string();
    if (no_link) return cannot("open the device file", device, error, report);
    return report.fail(error,
                       "the device file {0} is a link to {1}, which cannot be opened ({2}): mount "
                       "the disk that holds it, or link to where it is now: ln -sfn FILE {0}",
                       device, target, describe(error));
}

}  // namespace

std::string cannot_open(const std::string& directory, int cause) {
    const std::string what =
        fmt::format("cannot open the pool directory {} ({})", directory, std::strerror(cause));
    if (cause == ENOENT) return fmt::format("{}; `ros2store up {}` makes one", what, directory);
    if (cause == EACCES) return what + "; run as the user who made the pool";
    return what;
}

Task<Result<>> create_pool(const Call& call, Environment environment, const PoolCreation& creation,
                           Report& report) {
    ROS2S_CO_TRY(check_request(creation, report));
    ROS2S_CO_TRY_ASSIGN(const std::string directory, absolute(creation.directory, report));
    ROS2S_CO_TRY(check_trusted(directory, report));
    const bool fresh = ::mkdir(directory.c_str(), 0755) == 0;
    if (!fresh && errno != EEXIST) {
        co_return cannot("make the directory", directory, fail_errno(errno).error(), report);
    }
    // In /tmp, another user may have made it meanwhile.
    ROS2S_CO_TRY(check_trusted(directory, report));
    // Checked before the lock, so that a refused directory stays as it is, and again under the
    // lock, where the result is reliable.
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
        report.say("cannot remove the new files in {}: {}", directory, describe(removed.error()));
    }
    ::unlink(in(directory, owner_name).c_str());
    ownership.reset();
    if (fresh) ::rmdir(directory.c_str());
    co_return fail(made.error());
}

Result<> destroy_pool(const std::string& path, Report& report,
                      const std::function<Result<>()>& also) {
    ROS2S_TRY_ASSIGN(const std::string directory, absolute(path, report));
    ROS2S_TRY(check_trusted(directory, report));
    struct stat unused{};
    if (::lstat(in(directory, config_name).c_str(), &unused) != 0 && errno == EACCES) {
        return report.fail(fail_errno(EACCES).error(), cannot_open(directory, EACCES));
    }
    const bool interrupted = exists(in(directory, half_made_name));
    if (!interrupted && !exists(in(directory, config_name))) {
        return report.fail(Code::not_found, "there is no pool in {}", directory);
    }
    OwnerRecord present;
    const OwnerRecord self{.pid = ::getpid(), .program = ::program_invocation_short_name};
    ROS2S_TRY_ASSIGN(auto ownership, Ownership::take(directory, self, present, report));
    auto removed = replace_file(in(directory, half_made_name), "\n");
    if (removed && also) ROS2S_TRY(also());
    if (removed) removed = remove_pool_files(directory);
    if (!removed) return cannot("remove the pool in", directory, removed.error(), report);
    ::unlink(in(directory, owner_name).c_str());
    ownership.reset();
    ::rmdir(directory.c_str());  // fails if it holds other files
    return {};
}

Result<uint64_t> index_disk_bytes(const PoolDirectory& pool) {
    std::error_code failed;
    std::filesystem::directory_iterator each(in(pool.directory, index_name), failed);
    uint64_t bytes = 0;
    for (; !failed && each != std::filesystem::directory_iterator(); each.increment(failed)) {
        struct stat found{};
        // A file that was removed meanwhile uses no space.
        if (::stat(each->path().c_str(), &found) != 0 || !S_ISREG(found.st_mode)) continue;
        bytes += static_cast<uint64_t>(found.st_blocks) * 512;
    }
    if (failed) return fail_errno(failed.value());
    return bytes;
}

Result<PoolDirectory> read_pool_settings(const std::string& path, Report& report) {
    ROS2S_TRY_ASSIGN(std::string directory, absolute(path, report));
    struct stat status{};
    const int missing = ::stat(directory.c_str(), &status) == 0 ? 0 : errno;
    if (missing != 0 || !S_ISDIR(status.st_mode)) {
        const int cause = missing != 0 ? missing : ENOTDIR;
        if (cause == ENOTDIR) {
            return report.fail(Code::not_directory,
                               "{} is not a directory; a pool is a directory: name the directory "
                               "that `ros2store up` made",
                               directory);
        }
        return report.fail(fail_errno(cause).error(), "{}", cannot_open(directory, cause));
    }
    if (exists(in(directory, half_made_name))) {
        return report.fail(Code::not_found,
                           "the pool in {} is incomplete: its creation or removal is under way or "
                           "was interrupted; `ros2store up {}` clears it and makes a new one",
                           directory, directory);
    }
    const auto config_path = in(directory, config_name);
    Report why;
    const auto text = read_trusted(config_path, config_bytes_max, why);
    if (!text) {
        const Error error = text.error();
        if (error.code == Code::too_large) {
            return report.fail(
                error, "{} has more than {} KiB, which no settings have: put it back from a copy",
                config_path, config_bytes_max / 1024);
        }
        const bool is_missing = error.code == Code::not_found;
        const auto data = data_names(directory);
        if (is_missing && data && !data->empty()) {
            return report.fail(Code::not_found, lost_settings(directory, data->front()));
        }
        if (is_missing) {
            return report.fail(error,
                               "there is no pool in {} (it has no {}); `ros2store up {}` makes one",
                               directory, config_name, directory);
        }
        const bool may_not_read = error.code == Code::denied && !is_distrust(error);
        return report.fail(
            error, "{}{}", why.text(),
            may_not_read ? "; run as the user who made the pool, or change its mode" : "");
    }
    PoolDirectory found{.directory = std::move(directory)};
    found.read_only = is_on_read_only_medium(found.directory);
    ROS2S_TRY_ASSIGN(found.config, PoolConfig::parse(*text, config_path, report));
    return found;
}

Result<PoolDirectory> read_pool_directory(const std::string& path, Report& report) {
    ROS2S_TRY_ASSIGN(PoolDirectory found, read_pool_settings(path, report));
    ROS2S_TRY_ASSIGN(found.growing, growing_in(found.directory, report));
    for (size_t i = 0; i < pool_devices_max; ++i) {
        const auto device = in(found.directory, device_name(i));
        if (!exists(device) || device == found.growing) continue;
        ROS2S_TRY(check_trusted(device, report));
        ROS2S_TRY_ASSIGN(const uint64_t bytes, bytes_of_device(device, report));
        found.device_bytes += bytes;
        found.devices.push_back(device);
    }
    if (found.devices.empty()) {
        return report.fail(
            Code::not_found,
            "the pool in {} has lost its device files ({} …): put them back where they were",
            found.directory, device_name(0));
    }
    ROS2S_TRY(check_trusted(in(found.directory, index_name), report));
    return found;
}

Result<std::unique_ptr<OsReactor>> create_reactor(const PoolDirectory& pool, Report& report,
                                                  OsReactorOptions options) {
    pool.config.apply_to(options);
    options.sync_in_loop = options.callers_lead;  // one program; a mount has many users
    Report refusal;
    auto reactor = OsReactor::create(options, refusal);
    if (reactor) return reactor;
    if (options.ring != RingChoice::io_uring) return report.fail(reactor.error(), refusal.text());
    return report.fail(reactor.error(),
                       "{}; {} demands io_uring: allow it, or write there `back_end: auto`, which "
                       "takes threads instead, slower",
                       refusal.text(), in(pool.directory, config_name));
}

}  // namespace ros2s::pool
