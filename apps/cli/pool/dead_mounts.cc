#include "dead_mounts.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>
#include <utility>

#include "ros2s/api/uri.h"
#include "ros2s/base/descriptor.h"
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
constexpr size_t unsynced_bytes_max = 128;

// In a child process: only system calls. Writes what is not durable yet, as the mount says it.
int ask_kernel(const char* mount_point, const char* unsynced_name, int answers) {
    // Attributes may be cached; the space of a file system is not.
    struct statvfs space{};
    if (::statvfs(mount_point, &space) != 0) return errno == ENOTCONN ? is_dead : mount_lives;
    struct stat status{};
    if (::stat(mount_point, &status) != 0 && errno == EACCES) return is_hidden;
    std::array<char, unsynced_bytes_max> unsynced{};
    const ssize_t bytes = ::getxattr(mount_point, unsynced_name, unsynced.data(), unsynced.size());
    if (bytes > 0) (void)!::write(answers, unsynced.data(), static_cast<size_t>(bytes));
    return mount_lives;
}

// A system call on a mount whose daemon hangs does not return, and a process with a thread in it
// cannot end. So a child makes the call, and may be left behind. It keeps nothing open of ours.
pid_t start_asking(const std::string& mount_point, Descriptor& answers) {
    const std::string unsynced(fs::unsynced_attribute);
    int ends[2] = {-1, -1};
    if (::pipe2(ends, O_CLOEXEC) != 0) return -1;
    answers = Descriptor(ends[0]);
    const Descriptor child_end(ends[1]);
    const pid_t child = ::fork();
    if (child != 0) return child;
    if (::dup2(ends[1], 0) != 0) ::_exit(mount_lives);
    ::close_range(1, ~0U, 0);
    ::_exit(ask_kernel(mount_point.c_str(), unsynced.c_str(), 0));
}

std::optional<fs::UnsyncedAnswer> read_answer(const Descriptor& answers) {
    std::array<char, unsynced_bytes_max> text{};
    const ssize_t bytes = ::read(answers.get(), text.data(), text.size());
    if (bytes <= 0) return {};
    return fs::parse_unsynced({text.data(), static_cast<size_t>(bytes)});
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
        Descriptor answers;
        std::optional<int> status;
    };
    PoolMounts mounts;
    std::vector<Probe> asked;
    for (Mount& mount : mounts_of(directory, "/proc/self")) {
        if (owner.pid != 0 && owner.mount_point == mount.mount_point) {
            mounts.living.push_back(std::move(mount.mount_point));
        } else {
            Descriptor answers;
            const pid_t child = start_asking(mount.mount_point, answers);
            asked.push_back({.mount = std::move(mount),
                             .child = child,
                             .answers = std::move(answers),
                             .status = {}});
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
        const auto unsynced = each.status == mount_lives ? read_answer(each.answers) : std::nullopt;
        if (unsynced) mounts.unsynced[each.mount.mount_point] = *unsynced;
        if (!each.status && each.child > 0) ::kill(each.child, SIGKILL);
        list.push_back(std::move(each.mount.mount_point));
    }
    co_return mounts;
}

}  // namespace ros2s::cli
