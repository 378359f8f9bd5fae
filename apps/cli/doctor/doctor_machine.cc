#include "doctor.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <link.h>
#include <sys/resource.h>
#include <sys/statfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <ranges>

#include "daemons/process.h"
#include "output/console.h"
#include "ros2s/base/bytes.h"
#include "ros2s/base/descriptor.h"
#include "ros2s/fabric/providers/providers.h"
#include "ros2s/pool/pool_directory.h"
#include "ros2s/runtime/os_reactor.h"

namespace ros2s::cli {
namespace {

constexpr rlim_t memlock_wanted = rlim_t{64} << 20;
constexpr uint64_t disk_wanted = uint64_t{5} << 30;
constexpr long overlay_magic = 0x794c7630;
constexpr long tmpfs_magic = 0x01021994;

Finding kernel() {
    utsname name{};
    uname(&name);
    const std::string found = fmt::format("{} {} ({})", name.sysname, name.release, name.machine);
    int major = 0, minor = 0;
    if (std::sscanf(name.release, "%d.%d", &major, &minor) != 2 ||
        std::pair(major, minor) >= std::pair(5, 10)) {
        return {"kernel", found};
    }
    return {"kernel", found, Grade::slower,
            "kernels before 5.10 are not tested; Debian 12's own is 6.1: apt-get install "
            "linux-image-amd64, then reboot"};
}

// `mine` is this program's reactor. A second one could be refused although the first was not,
// because a user's rings share the limit on locked memory.
Finding io_uring(Reactor& mine) {
    if (mine.ring() != nullptr && mine.ring()->kind() == Ring::Kind::io_uring) {
        return {"io_uring", "io_uring works"};
    }
    Report refusal;
    const auto demanded = OsReactor::create({.ring = RingChoice::io_uring}, refusal);
    return {"io_uring",
            demanded ? "refused at the first attempt, accepted at the second" : refusal.text(),
            Grade::slower,
            !demanded && demanded.error().code == Code::no_memory
                ? "works on threads instead, slower; to allow it, see memlock below"
                : "works on threads instead, slower; to allow it: sysctl -w "
                  "kernel.io_uring_disabled=0, and in a container: docker run --security-opt "
                  "seccomp=unconfined …"};
}

Finding memlock() {
    rlimit limit{};
    getrlimit(RLIMIT_MEMLOCK, &limit);
    if (limit.rlim_cur == RLIM_INFINITY) return {"memlock", "unlimited"};
    const std::string found = human_bytes(limit.rlim_cur);
    if (limit.rlim_cur >= memlock_wanted) return {"memlock", found};
    if (geteuid() == 0) return {"memlock", found + ", which does not bind root"};
    return {"memlock", found, Grade::slower,
            fmt::format("io_uring and its fixed I/O buffers need {0}: sudo prlimit --pid $$ "
                        "--memlock=unlimited, or permanently: echo '{1} - memlock unlimited' | "
                        "sudo tee /etc/security/limits.d/ros2store.conf, then log in again",
                        human_bytes(memlock_wanted), geteuid())};
}

Finding fuse() {
    const Descriptor device(open("/dev/fuse", O_RDWR | O_CLOEXEC));
    if (device.get() >= 0) return {"fuse", "/dev/fuse opens"};
    const int failure = errno;
    return {"fuse", fmt::format("/dev/fuse: {}", std::strerror(failure)), Grade::missing,
            failure == ENOENT ? "sudo modprobe fuse; in a container: docker run --device /dev/fuse "
                                "--cap-add SYS_ADMIN …"
                              : "sudo chmod 666 /dev/fuse, or run as root"};
}

Finding helper(const char* name, const char* package) {
    const std::string beside = sibling_program(name);
    if (beside.contains('/')) return {name, beside};
    const char* const path = std::getenv("PATH");
    for (const auto directory : std::views::split(std::string_view(path ? path : ""), ':')) {
        const std::string program = fmt::format("{}/{}", std::string_view(directory), name);
        if (::access(program.c_str(), X_OK) == 0) return {name, program};
    }
    return {name, "not beside this program and not on the PATH", Grade::missing, package};
}

// A file of its own, removed when its descriptor is closed.
Finding direct_io(const std::string& directory) {
    constexpr const char *what = "O_DIRECT", *disk = "ext4, xfs or another disk file system";
    const Descriptor file(open(directory.c_str(), O_TMPFILE | O_RDWR | O_DIRECT | O_CLOEXEC, 0600));
    struct statfs system{};
    if (file.get() < 0 || fstatfs(file.get(), &system) != 0) {
        const int failure = errno;
        return {what, fmt::format("no O_DIRECT file in {}: {}", directory, std::strerror(failure)),
                Grade::missing,
                failure == ENOENT ? "mkdir -p " + shell_word(directory)
                : failure == EACCES
                    ? "choose a directory that you may write to, or: sudo chown $USER " +
                          shell_word(directory)
                    : fmt::format("use a directory on {}", disk)};
    }
    const AlignedBuffer block(block_bytes);
    std::memset(block.data(), 0, block.size());
    if (pwrite(file.get(), block.data(), block.size(), 0) != static_cast<ssize_t>(block.size()) ||
        fdatasync(file.get()) != 0) {
        const int failure = errno;
        return {what,
                fmt::format("a direct write in {} failed: {}", directory, std::strerror(failure)),
                Grade::missing, fmt::format("use a directory on {}", disk)};
    }
    if (const auto sentence = in_memory(directory)) {
        return {what, *sentence, Grade::slower, "use a directory on a disk"};
    }
    if (system.f_type == overlay_magic) {
        return {what, fmt::format("{} is on overlayfs, as in a container's own layer", directory),
                Grade::slower, "put pools on a volume: docker run -v /srv/ros2s:/srv/ros2s …"};
    }
    return {what, fmt::format("direct writes work in {}", directory)};
}

Finding disk_space(const std::string& directory) {
    struct statfs system{};
    if (statfs(directory.c_str(), &system) != 0) {
        const int failure = errno;
        return {"disk space", fmt::format("{}: {}", directory, std::strerror(failure)),
                Grade::missing, "mkdir -p " + shell_word(directory)};
    }
    const uint64_t free = system.f_bavail * static_cast<uint64_t>(system.f_bsize);
    Finding finding{"disk space", fmt::format("{} free in {}", human_bytes(free), directory)};
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
    std::string names;
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
        &names);
    return {"libraries", names.empty() ? "all linked in" : names};
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

std::vector<Finding> look_at_providers() {
    std::vector<Finding> findings;
    for (const fabric::NetworkLibrary& each : fabric::network_libraries()) {
        if (each.why_not.empty()) {
            findings.push_back({each.name, fmt::format("{} of {}", each.version, each.path)});
        } else {
            findings.push_back({each.name, each.why_not, Grade::absent,
                                "needed for RDMA, and for fast TCP between trusted machines; on "
                                "Debian and Ubuntu: sudo apt-get install " +
                                    each.package});
        }
    }
    for (const fabric::Availability& each : fabric::look_at_providers()) {
        if (!each.here) {
            findings.push_back({each.provider, "not on this machine", Grade::absent, each.why_not});
        } else {
            findings.push_back(
                {each.provider, each.devices.empty()
                                    ? each.reach
                                    : fmt::format("over {}", fmt::join(each.devices, ", "))});
        }
    }
    return findings;
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
