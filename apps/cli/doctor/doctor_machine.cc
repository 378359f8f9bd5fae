#include "doctor_machine.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <link.h>
#include <sys/resource.h>
#include <sys/statfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>

#include "daemons/process.h"
#include "output/console.h"
#include "ros2s/base/bytes.h"
#include "ros2s/base/descriptor.h"
#include "ros2s/pool/pool_directory.h"
#include "ros2s/runtime/os_reactor.h"

namespace ros2s::cli {
namespace {

constexpr rlim_t memlock_wanted = rlim_t{64} << 20;
constexpr uint64_t disk_wanted = uint64_t{5} << 30;
// For the index of a pool that exists: a part of its size within these.
constexpr uint64_t index_wanted_least = uint64_t{64} << 20;
constexpr uint64_t index_wanted_most = uint64_t{1} << 30;
constexpr long overlay_magic = 0x794c7630;
constexpr long tmpfs_magic = 0x01021994;

Finding kernel() {
    utsname name{};
    uname(&name);
    Finding finding{.what = "kernel",
                    .found = fmt::format("{} {} ({})", name.sysname, name.release, name.machine)};
    int major = 0;
    int minor = 0;
    if (std::sscanf(name.release, "%d.%d", &major, &minor) == 2 &&
        (major < 5 || (major == 5 && minor < 10))) {
        finding.grade = Grade::slower;
        finding.remedy =
            "kernels before 5.10 are not tested; Debian 12's own is 6.1: apt-get install "
            "linux-image-amd64, then reboot";
    }
    return finding;
}

// `mine` is this program's reactor. A second one could be refused although the first was not,
// because a user's rings share the limit on locked memory.
Finding io_uring(Reactor& mine) {
    if (mine.ring() != nullptr && mine.ring()->kind() == Ring::Kind::io_uring) {
        return {.what = "io_uring", .found = "io_uring works", .remedy = {}};
    }
    Report refusal;
    const auto demanded = OsReactor::create({.ring = RingChoice::io_uring}, refusal);
    Finding finding{
        .what = "io_uring",
        .grade = Grade::slower,
        .found = demanded ? "refused at the first attempt, accepted at the second" : refusal.text(),
        .remedy = {}};
    finding.remedy = !demanded && demanded.error().code == Code::no_memory
                         ? "works on threads instead, slower; to allow it, see memlock below"
                         : "works on threads instead, slower; to allow it: sysctl -w "
                           "kernel.io_uring_disabled=0, and in a container: docker run "
                           "--security-opt seccomp=unconfined …";
    return finding;
}

Finding memlock() {
    rlimit limit{};
    getrlimit(RLIMIT_MEMLOCK, &limit);
    const bool unlimited = limit.rlim_cur == RLIM_INFINITY;
    Finding finding{.what = "memlock",
                    .found = unlimited ? "unlimited" : human_bytes(limit.rlim_cur)};
    if (unlimited || limit.rlim_cur >= memlock_wanted) return finding;
    if (geteuid() == 0) {
        finding.found += ", which does not bind root";
        return finding;
    }
    finding.grade = Grade::slower;
    finding.remedy = fmt::format(
        "io_uring and its fixed I/O buffers need {0}: sudo prlimit --pid $$ --memlock=unlimited, "
        "or permanently: echo '{1} - memlock unlimited' | sudo tee "
        "/etc/security/limits.d/ros2store.conf, then log in again",
        human_bytes(memlock_wanted), geteuid());
    return finding;
}

Finding fuse() {
    Finding finding{.what = "fuse"};
    const Descriptor device(open("/dev/fuse", O_RDWR | O_CLOEXEC));
    if (device.get() < 0) {
        finding.grade = Grade::missing;
        finding.found = fmt::format("/dev/fuse: {}", std::strerror(errno));
        finding.remedy = errno == ENOENT ? "sudo modprobe fuse; in a container: docker run "
                                           "--device /dev/fuse --cap-add SYS_ADMIN …"
                                         : "sudo chmod 666 /dev/fuse, or run as root";
        return finding;
    }
    finding.found = "/dev/fuse opens";
    return finding;
}

Finding helper(const char* name, const char* package) {
    Finding finding{.what = name};
    std::string program = sibling_program(name);
    if (program.find('/') == std::string::npos) {
        const char* path = std::getenv("PATH");
        std::string_view rest = path == nullptr ? "" : path;
        while (!rest.empty()) {
            const size_t colon = rest.find(':');
            const std::string candidate = fmt::format("{}/{}", rest.substr(0, colon), name);
            if (::access(candidate.c_str(), X_OK) == 0) {
                program = candidate;
                break;
            }
            rest = colon == std::string_view::npos ? "" : rest.substr(colon + 1);
        }
    }
    if (program.find('/') != std::string::npos) {
        finding.found = program;
        return finding;
    }
    finding.grade = Grade::missing;
    finding.found = "not beside this program and not on the PATH";
    finding.remedy = package;
    return finding;
}

// A file of its own, removed when its descriptor is closed.
Finding direct_io(const std::string& directory) {
    Finding finding{.what = "O_DIRECT"};
    const Descriptor file(open(directory.c_str(), O_TMPFILE | O_RDWR | O_DIRECT | O_CLOEXEC, 0600));
    struct statfs system{};
    if (file.get() < 0 || fstatfs(file.get(), &system) != 0) {
        const int failure = errno;
        finding.grade = Grade::missing;
        finding.found =
            fmt::format("no O_DIRECT file in {}: {}", directory, std::strerror(failure));
        finding.remedy =
            failure == ENOENT ? fmt::format("mkdir -p {}", shell_word(directory))
            : failure == EACCES
                ? fmt::format("choose a directory that you may write to, or: sudo chown $USER {}",
                              shell_word(directory))
                : "use a directory on ext4, xfs or another disk file system";
        return finding;
    }
    const AlignedBuffer block(block_bytes);
    std::memset(block.data(), 0, block.size());
    const bool works =
        pwrite(file.get(), block.data(), block.size(), 0) == static_cast<ssize_t>(block.size()) &&
        fdatasync(file.get()) == 0;
    const int failure = errno;
    if (!works) {
        finding.grade = Grade::missing;
        finding.found =
            fmt::format("a direct write in {} failed: {}", directory, std::strerror(failure));
        finding.remedy = "use a directory on ext4, xfs or another disk file system";
    } else if (const auto sentence = in_memory(directory)) {
        finding.grade = Grade::slower;
        finding.found = *sentence;
        finding.remedy = "use a directory on a disk";
    } else if (system.f_type == overlay_magic) {
        finding.grade = Grade::slower;
        finding.found = fmt::format("{} is on overlayfs, as in a container's own layer", directory);
        finding.remedy = "put pools on a volume: docker run -v /srv/ros2s:/srv/ros2s …";
    } else {
        finding.found = fmt::format("direct writes work in {}", directory);
    }
    return finding;
}

Finding disk_space(const std::string& directory) {
    Finding finding{.what = "disk space"};
    struct statfs system{};
    if (statfs(directory.c_str(), &system) != 0) {
        finding.grade = Grade::missing;
        finding.found = fmt::format("{}: {}", directory, std::strerror(errno));
        finding.remedy = fmt::format("mkdir -p {}", shell_word(directory));
        return finding;
    }
    const uint64_t free = system.f_bavail * static_cast<uint64_t>(system.f_bsize);
    finding.found = fmt::format("{} free in {}", human_bytes(free), directory);
    Report no_pool;
    if (const auto pool = pool::read_pool_directory(directory, no_pool)) {
        const uint64_t wanted =
            std::clamp(pool->device_bytes / 64, index_wanted_least, index_wanted_most);
        if (free < wanted) {
            finding.grade = Grade::slower;
            finding.remedy = fmt::format(
                "the pool's index grows there, and without space the pool takes no changes: keep "
                "{} free",
                human_bytes(wanted));
        }
        return finding;
    }
    if (free < disk_wanted) {
        finding.grade = Grade::slower;
        finding.remedy = fmt::format(
            "a pool of the default size needs {}; free some, or: ros2store up DIR --size 512M",
            human_bytes(disk_wanted));
    }
    return finding;
}

// The loaded libraries, by their file names, which contain the versions.
Finding libraries() {
    Finding finding{.what = "libraries"};
    dl_iterate_phdr(
        [](dl_phdr_info* loaded, size_t, void* out) {
            char path[PATH_MAX];
            if (realpath(loaded->dlpi_name, path) == nullptr) return 0;
            const std::string_view name =
                std::string_view(path).substr(std::string_view(path).rfind('/') + 1);
            for (const char* wanted :
                 {"librocksdb", "liburing", "libisal", "libfmt", "libfuse3", "libros2store"}) {
                if (!name.starts_with(wanted)) continue;
                auto& text = *static_cast<std::string*>(out);
                text += (text.empty() ? "" : ", ") + std::string(name);
            }
            return 0;
        },
        &finding.found);
    if (finding.found.empty()) finding.found = "all linked in";
    return finding;
}

}  // namespace

std::vector<Finding> look_at_machine(Reactor& reactor) {
    return {kernel(),
            io_uring(reactor),
            memlock(),
            fuse(),
            helper("fusermount3", "sudo apt-get install fuse3"),
            helper("ros2store-fuse", "./dev build, or install the ros2store package"),
            libraries()};
}

std::vector<Finding> look_at_directory(const std::string& directory) {
    return {direct_io(directory), disk_space(directory)};
}

std::optional<std::string> in_memory(const std::string& path) {
    struct statfs system{};
    if (pool::raw_device_bytes(path) || statfs(path.c_str(), &system) != 0 ||
        system.f_type != tmpfs_magic) {
        return std::nullopt;
    }
    return fmt::format("{} is in memory (tmpfs): nothing in it survives a restart", path);
}

}  // namespace ros2s::cli
