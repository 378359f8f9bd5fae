#include "device_files.h"

#include <errno.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <filesystem>
#include <map>

#include "pool_files.h"
#include "ros2s/config/units.h"
#include "ros2s/device/uring/file_device.h"

namespace ros2s::api {
namespace {

// What is taken of each file system, by anything in it.
class Room {
  public:
    Result<> take(const std::string& directory, uint64_t bytes, Report& report) {
        struct stat status{};
        if (::stat(directory.c_str(), &status) != 0) {
            return cannot("make a file in", directory, fail_errno(errno).error(), report);
        }
        struct statvfs space{};
        if (::statvfs(directory.c_str(), &space) != 0) {
            return cannot("ask for the free space of", directory, fail_errno(errno).error(),
                          report);
        }
        const uint64_t free_bytes = uint64_t{space.f_bavail} * space.f_frsize;
        uint64_t& sum = needed_[status.st_dev];
        sum += bytes;
        if (sum <= free_bytes) return {};
        return report.fail(
            Code::no_space,
            fmt::format("{} needs {} of free space and has {}, {} too little: free some, "
                        "choose another directory, or a smaller --size",
                        directory, config::human_size(sum), config::human_size(free_bytes),
                        config::human_size(sum - free_bytes)));
    }

  private:
    std::map<dev_t, uint64_t> needed_;
};

}  // namespace

DevicePlace place_device(const std::string& directory, const std::string& pool, size_t number,
                         const std::string& elsewhere) {
    if (elsewhere.empty()) return {.path = in(directory, device_name(number)), .link = {}};
    return {.path = fmt::format("{}/ros2store-{}-{}", elsewhere, pool, device_name(number)),
            .link = in(directory, device_name(number))};
}

Result<> check_space(const std::vector<DevicePlace>& places, uint64_t device_bytes,
                     const IndexPlace& index, Report& report) {
    Room room;
    if (index.bytes > 0) ROS2S_TRY(room.take(index.directory, index.bytes, report));
    for (const auto& place : places) {
        const auto parent = std::filesystem::path(place.path).parent_path().string();
        ROS2S_TRY(room.take(parent, device_bytes, report));
        if (exists(place.path)) {
            return report.fail(Code::exists, fmt::format("{} exists already: remove it, or choose "
                                                         "another name for the pool",
                                                         place.path));
        }
    }
    return {};
}

Task<Result<>> make_device(const Call& call, Environment environment, DevicePlace place,
                           uint64_t device_bytes, bool page_cache,
                           std::function<void(uint64_t)> progress, Report& report) {
    if (!place.link.empty() && ::symlink(place.path.c_str(), place.link.c_str()) != 0) {
        co_return cannot("make the link", place.link, fail_errno(errno).error(), report);
    }
    co_return co_await device::create_file_device(
        environment.reactor, place.path, device_bytes, {.buffered = page_cache},
        [progress = std::move(progress)](uint64_t done, uint64_t) {
            if (progress) progress(done);
        },
        call.stop, report);
}

}  // namespace ros2s::api
