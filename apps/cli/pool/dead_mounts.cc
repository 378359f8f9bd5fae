#include "dead_mounts.h"

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>
#include <utility>

#include "ros2s/api/uri.h"
#include "ros2s/base/mount_table.h"
#include "ros2s/runtime/reactor.h"

namespace ros2s::cli {
namespace {

constexpr std::string_view type = "fuse.ros2store";
constexpr Duration mount_answer_max = std::chrono::seconds(2);

bool same_directory(const std::string& one, const std::string& other) {
    struct stat left{}, right{};
    return ::stat(one.c_str(), &left) == 0 && ::stat(other.c_str(), &right) == 0 &&
           left.st_dev == right.st_dev && left.st_ino == right.st_ino;
}

// The exit statuses of a process that checks a mount.
constexpr int mount_lives = 0, is_dead = 1, is_hidden = 2;

// In a child process: only system calls.
int ask_kernel(const char* mount_point) {
    // Attributes may be cached; the space of a file system is not.
    struct statvfs space{};
    if (::statvfs(mount_point, &space) != 0) return errno == ENOTCONN ? is_dead : mount_lives;
    struct stat status{};
    return ::stat(mount_point, &status) != 0 && errno == EACCES ? is_hidden : mount_lives;
}

// A system call on a mount whose daemon hangs does not return, and a process with a thread in it
// cannot end. So a child makes the call, and may be left behind. It keeps nothing open of ours.
pid_t start_asking(const std::string& mount_point) {
    const pid_t child = ::fork();
    if (child != 0) return child;
    ::close_range(0, ~0U, 0);
    ::_exit(ask_kernel(mount_point.c_str()));
}

struct Mount {
    std::string mount_point;
    api::Uri uri;
};

// `process` is its directory in /proc.
std::vector<Mount> mounts_of(const std::string& directory, const std::filesystem::path& process) {
    std::ifstream table(process / "mountinfo");
    std::vector<Mount> found;
    for (MountEntry& mount : read_mounts(table)) {
        if (mount.kind != type) continue;
        Report ignored;
        auto uri = api::Uri::parse(mount.source, ignored);
        if (uri && same_directory(uri->dir, directory)) {
            found.push_back({.mount_point = std::move(mount.mount_point), .uri = std::move(*uri)});
        }
    }
    return found;
}

std::string namespace_of(const std::filesystem::path& process) {
    std::error_code failed;
    return std::filesystem::read_symlink(process / "ns/mnt", failed).string();
}

}  // namespace

std::optional<MountCopy> copy_of_mount(const std::string& directory) {
    std::set<std::string> seen{namespace_of("/proc/self"), ""};
    std::error_code failed;
    for (const auto& process : std::filesystem::directory_iterator("/proc", failed)) {
        const std::string name = process.path().filename();
        uint32_t pid = 0;
        std::from_chars(name.data(), name.data() + name.size(), pid);
        if (pid == 0 || !seen.insert(namespace_of(process)).second) continue;
        const std::vector<Mount> mounts = mounts_of(directory, process.path());
        if (mounts.empty()) continue;
        std::string program;
        std::getline(std::ifstream(process.path() / "comm"), program);
        return MountCopy{pid, std::move(program), mounts.front().mount_point};
    }
    return std::nullopt;
}

Task<Result<PoolMounts>> look_at_mounts(CommandContext context, std::string directory,
                                        pool::OwnerRecord owner) {
    struct Probe {
        Mount mount;
        pid_t child = -1;
        std::optional<int> status;
    };
    PoolMounts mounts;
    std::vector<Probe> asked;
    for (Mount& mount : mounts_of(directory, "/proc/self")) {
        if (owner.pid != 0 && owner.mount_point == mount.mount_point) {
            mounts.living.push_back(std::move(mount.mount_point));
        } else {
            const pid_t child = start_asking(mount.mount_point);
            asked.push_back({.mount = std::move(mount), .child = child, .status = {}});
        }
    }
    Reactor& reactor = context.environment.reactor;
    const Time until = reactor.now() + mount_answer_max;
    const auto waits = [](Probe& each) {
        int status = 0;
        if (!each.status && each.child > 0 && ::waitpid(each.child, &status, WNOHANG) != 0) {
            each.status = WIFEXITED(status) ? WEXITSTATUS(status) : mount_lives;
        }
        return !each.status;
    };
    while (std::ranges::count_if(asked, waits) > 0 && reactor.now() < until) {
        ROS2S_CO_TRY(context.call.check(reactor));
        co_await sleep_for(reactor, std::chrono::milliseconds(1), context.call.stop);
    }
    for (Probe& each : asked) {
        // A living mount has its pool open, if no daemon has it for the mount.
        const bool dead =
            each.status == is_dead || (each.status == is_hidden && owner.pid == 0 &&
                                       each.mount.uri.transport == api::Uri::Transport::local);
        auto& list = dead ? mounts.dead : each.status ? mounts.living : mounts.silent;
        if (!each.status && each.child > 0) ::kill(each.child, SIGKILL);
        list.push_back(std::move(each.mount.mount_point));
    }
    co_return mounts;
}

}  // namespace ros2s::cli
