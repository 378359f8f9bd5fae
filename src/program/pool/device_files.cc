#include "device_files.h"

#include <errno.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "pool_files.h"
#include "ros2s/base/trusted_file.h"
#include "ros2s/config/units.h"
#include "ros2s/device/nvme/nvme_device.h"
#include "ros2s/device/pmem/pmem_device.h"
#include "ros2s/device/uring/file_device.h"
#include "ros2s/pool/pool_directory.h"

namespace ros2s::pool {
namespace {

// The space that is needed in each file system.
class Room {
  public:
    Result<> take(const std::string& directory, uint64_t bytes, Report& report) {
        struct stat status{};
        if (::stat(directory.c_str(), &status) != 0) {
            return cannot("make a file in", directory, fail_errno(errno).error(), report);
        }
        if (!S_ISDIR(status.st_mode)) {
            return report.fail(Code::invalid,
                               "{} is not a directory or a device that can hold a pool: name a "
                               "directory, an NVMe namespace's character device (/dev/ng0n1, say) "
                               "or a devdax device of persistent memory (not virtio-pmem)",
                               directory);
        }
        struct statvfs space{};
        if (::statvfs(directory.c_str(), &space) != 0) {
            return cannot("read the free space of", directory, fail_errno(errno).error(), report);
        }
        const uint64_t free_bytes = uint64_t{space.f_bavail} * space.f_frsize;
        uint64_t& sum = needed_[status.st_dev];
        sum += bytes;
        if (sum <= free_bytes) return {};
        return report.fail(Code::no_space,
                           "{} needs {} of free space and has {}: free {} more, choose another "
                           "directory, or choose a smaller --size",
                           directory, config::human_size(sum), config::human_size(free_bytes),
                           config::human_size(sum - free_bytes));
    }

  private:
    std::map<dev_t, uint64_t> needed_;
};

// The signatures of file systems, volumes and pools at the beginning of a disk are within these
// bytes.
constexpr uint64_t looked_at_bytes = uint64_t{1} << 20;

Result<> check_raw_devices(const std::vector<DevicePath>& places, Report& report) {
    std::set<std::string> seen;
    for (const auto& place : places) {
        if (place.raw_bytes == 0) continue;
        if (!seen.insert(std::filesystem::weakly_canonical(place.path)).second) {
            return report.fail(
                Code::invalid,
                "{} would be two devices of the pool: name each once, and leave --devices out",
                place.path);
        }
        if (place.raw_bytes < pool_bytes_min) {
            return report.fail(Code::invalid, "{} has {}, too little for a device: it needs {}",
                               place.path, config::human_size(place.raw_bytes),
                               config::human_size(pool_bytes_min));
        }
    }
    return {};
}

std::string how_to_clear(const std::string& path) {
    std::string name = std::filesystem::weakly_canonical(path).filename();
    if (!device::nvme_bytes(path)) {
        return ": make its namespace raw (ndctl create-namespace -f -e NAMESPACE -m raw), run "
               "blkdiscard -z on its block device, and make it devdax again";
    }
    return " with blkdiscard -z " + name.replace(0, 2, "/dev/nvme");
}

Task<Result<>> check_empty(Environment environment, std::string path, Report& report) {
    ROS2S_CO_TRY_ASSIGN(const auto opened, co_await open_device(environment, path, false, report));
    AlignedBuffer first(looked_at_bytes);
    const auto read = co_await opened->read(0, first.bytes());
    co_await opened->close();
    if (!read) co_return cannot("read", path, read.error(), report);
    const bool empty =
        std::ranges::all_of(first.bytes(), [](std::byte byte) { return byte == std::byte{0}; });
    if (empty) co_return Result<>{};
    co_return report.fail(Code::exists,
                          "{} is not empty (perhaps it has a pool): to overwrite it, clear it{}",
                          path, how_to_clear(path));
}

}  // namespace

std::optional<uint64_t> raw_device_bytes(const std::string& path) {
    if (const auto bytes = device::nvme_bytes(path)) return bytes;
    struct stat status{};
    const bool may_be_devdax = ::stat(path.c_str(), &status) == 0 && S_ISCHR(status.st_mode);
    return may_be_devdax ? device::pmem_bytes(path) : std::nullopt;
}

DevicePath device_path(const std::string& directory, const std::string& pool, size_t number,
                       const std::string& elsewhere, const Secrets& secrets) {
    if (elsewhere.empty()) return {.path = in(directory, device_name(number)), .link = {}};
    // A relative link would start at the pool's directory, not at this process's.
    std::error_code failed;
    auto location = std::filesystem::absolute(elsewhere, failed);
    if (failed) location = elsewhere;
    const auto bytes = raw_device_bytes(elsewhere);
    if (!bytes) location /= name_elsewhere(pool, number, secrets.next());
    return {.path = location.string(),
            .link = in(directory, device_name(number)),
            .raw_bytes = bytes.value_or(0)};
}

Result<> check_space(const std::vector<DevicePath>& places, uint64_t device_bytes,
                     const IndexPath& index, Report& report) {
    ROS2S_TRY(check_raw_devices(places, report));
    Room room;
    if (index.bytes > 0) ROS2S_TRY(room.take(index.directory, index.bytes, report));
    for (const auto& place : places) {
        ROS2S_TRY(check_trusted(place.path, report));
        if (place.raw_bytes > 0) continue;
        const auto parent = std::filesystem::path(place.path).parent_path().string();
        ROS2S_TRY(room.take(parent, device_bytes, report));
    }
    return {};
}

Task<Result<>> make_device(const Call& call, Environment environment, DevicePath place,
                           uint64_t device_bytes, bool page_cache,
                           std::function<void(uint64_t)> progress, Report& report) {
    // Checked before the link is made: a refused device never becomes the pool's.
    if (place.raw_bytes > 0) {
        ROS2S_CO_TRY(co_await check_empty(environment, place.path, report));
    }
    if (!place.link.empty() && ::symlink(place.path.c_str(), place.link.c_str()) != 0) {
        co_return cannot("make the link", place.link, fail_errno(errno).error(), report);
    }
    if (place.raw_bytes > 0) {
        if (progress) progress(place.raw_bytes);
        co_return Result<>{};
    }
    co_return co_await device::create_file_device(
        environment.reactor, place.path, device_bytes, {.buffered = page_cache},
        [progress = std::move(progress)](uint64_t done, uint64_t) {
            if (progress) progress(done);
        },
        call.stop, report);
}

Task<Result<std::unique_ptr<device::BlockDevice>>> open_device(Environment environment,
                                                               std::string path, bool page_cache,
                                                               Report& report, bool read_only) {
    if (device::nvme_bytes(path)) {
        co_return co_await device::NvmeDevice::open(environment.reactor, path, environment.log,
                                                    report);
    }
    if (device::pmem_bytes(path)) {
        co_return co_await device::PmemDevice::open(environment.reactor, path, {}, report);
    }
    co_return co_await device::FileDevice::open(
        environment.reactor, path, {.buffered = page_cache, .read_only = read_only}, report);
}

Result<uint64_t> device_bytes(const std::string& path) {
    if (const auto bytes = raw_device_bytes(path)) return *bytes;
    struct stat status{};
    if (::stat(path.c_str(), &status) != 0) return fail_errno(errno);
    return static_cast<uint64_t>(status.st_size);
}

}  // namespace ros2s::pool
