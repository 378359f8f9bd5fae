#include "mount_point.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "ros2s/base/descriptor.h"
#include "ros2s/base/mount_table.h"

namespace ros2s::fuse {
namespace {

// Runs fusermount3, which may unmount what its user mounted. Returns the exit status, or -1.
int run_fusermount(const std::string& mount_point, bool lazily) {
    std::string program = "fusermount3", unmount = "-u", quiet = "-q", lazy = "-z";
    std::string target = mount_point;
    char* arguments[] = {program.data(), unmount.data(), quiet.data(),
                         target.data(),  nullptr,        nullptr};
    if (lazily) {
        arguments[3] = lazy.data();
        arguments[4] = target.data();
    }
    posix_spawnattr_t attributes;
    sigset_t none;
    sigemptyset(&none);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);  // ours blocks signals that stop it
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    pid_t child = -1;
    const int failed =
        posix_spawnp(&child, program.c_str(), nullptr, &attributes, arguments, environ);
    posix_spawnattr_destroy(&attributes);
    if (failed != 0) return -1;
    int status = 0;
    while (::waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) return -1;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

bool is_program_installed(const char* name) {
    const char* const path = std::getenv("PATH");
    std::istringstream directories(path != nullptr ? path : "/usr/bin:/bin");
    std::string directory;
    while (std::getline(directories, directory, ':')) {
        if (::access((directory + "/" + name).c_str(), X_OK) == 0) return true;
    }
    return false;
}

Result<> check_fuse(bool allow_other, Report& report) {
    struct stat status{};
    if (::stat("/dev/fuse", &status) != 0 && errno == ENOENT) {
        return report.fail(Code::unsupported,
                           "there is no /dev/fuse here, so nothing can be mounted: load the "
                           "kernel's module (`modprobe fuse`) or, in a container, start it with "
                           "--device /dev/fuse --cap-add SYS_ADMIN");
    }
    const bool is_root = ::geteuid() == 0;
    const Descriptor device(::open("/dev/fuse", O_RDWR | O_CLOEXEC));
    const int error = errno;
    const bool has_helper = is_program_installed("fusermount3");
    if (device.get() < 0) {
        std::string remedy;
        if (error == EACCES || error == EPERM) {
            remedy =
                ": in a container, start it with --device /dev/fuse --cap-add SYS_ADMIN; elsewhere "
                "have root let users use it (`chmod 666 /dev/fuse`, Debian's default)";
        } else if (error == ENODEV || error == ENXIO) {
            remedy = ": load the kernel's module (`modprobe fuse`)";
        }
        return report.fail(fail_errno(error).error(), "/dev/fuse cannot be opened ({}){}",
                           std::strerror(error), remedy);
    }
    if (!is_root && !has_helper) {
        return report.fail(Code::denied,
                           "an ordinary user needs fusermount3 to mount, and it is not "
                           "installed: `apt-get install fuse3`, or run this as root");
    }
    if (!is_root && allow_other) {
        std::ifstream configuration("/etc/fuse.conf");
        std::string line;
        while (std::getline(configuration, line)) {
            if (line.starts_with("user_allow_other")) return {};
        }
        return report.fail(Code::denied,
                           "ordinary users may not use --allow-other here: let root add the "
                           "line user_allow_other to /etc/fuse.conf, or omit the option");
    }
    return {};
}

}  // namespace

Result<> unmount_cleanly(const std::string& mount_point) {
    if (::umount2(mount_point.c_str(), UMOUNT_NOFOLLOW) == 0) return {};
    if (errno != EPERM) return fail_errno(errno);
    return run_fusermount(mount_point, false) == 0 ? Result<>{} : fail(Code::busy);
}

Result<> set_read_ahead(const std::string& mount_point, uint64_t bytes) {
    const std::string setting =
        "/sys/class/bdi/" + mounted_on(mount_point).device + "/read_ahead_kb";
    const Descriptor file(::open(setting.c_str(), O_WRONLY | O_CLOEXEC));
    if (file.get() < 0) return fail_errno(errno);
    const std::string value = std::to_string(bytes / 1024);
    if (::write(file.get(), value.data(), value.size()) < 0) return fail_errno(errno);
    return {};
}

Result<> write_back(const std::string& mount_point) {
    const Descriptor root(::open(mount_point.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (root.get() < 0 || ::syncfs(root.get()) != 0) return fail_errno(errno);
    return {};
}

Result<std::string> prepare_mount_point(const std::string& path, bool allow_other, Report& report) {
    struct stat status{};
    struct statvfs asked{};
    if (::statvfs(path.c_str(), &asked) != 0 && errno == ENOTCONN) {
        // A mount whose process has ended. stat() may still be answered from the kernel's cache,
        // but realpath() fails, so the path is made absolute as text.
        const auto dead = std::filesystem::absolute(path).lexically_normal();
        const std::string dead_path = dead.has_filename() ? dead : dead.parent_path();
        if (::umount2(dead_path.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW) != 0 &&
            run_fusermount(dead_path, true) != 0) {
            return report.fail(Code::busy, path +
                                               " is a mount whose process died, and this user "
                                               "may not unmount it: run `umount -l " +
                                               path + "` as root");
        }
    }
    char resolved[PATH_MAX];
    if (::stat(path.c_str(), &status) != 0 || ::realpath(path.c_str(), resolved) == nullptr) {
        const int error = errno;
        if (error == ENOENT) {
            return report.fail(Code::not_found, "the mount point " + path +
                                                    " does not exist: make it with `mkdir -p " +
                                                    path + "`");
        }
        return report.fail(Code::denied, "the mount point " + path + " cannot be examined (" +
                                             std::strerror(error) + ")");
    }
    const std::string absolute = resolved;
    if (!S_ISDIR(status.st_mode)) {
        return report.fail(Code::not_directory,
                           path + " is not a directory: a mount point must be one");
    }
    const std::string mounted = mounted_on(absolute).kind;
    if (!mounted.empty()) {
        return report.fail(Code::busy, path + " is a mount point already (" + mounted +
                                           "): unmount it with `fusermount3 -u " + absolute +
                                           "`, or choose another directory");
    }
    std::error_code error;
    const auto first = std::filesystem::directory_iterator(absolute, error);
    if (error) {
        return report.fail(Code::denied,
                           "the mount point " + path + " cannot be read (" + error.message() + ")");
    }
    if (first != std::filesystem::directory_iterator{}) {
        return report.fail(Code::not_empty, path +
                                                " is not empty, and mounting would hide what is "
                                                "in it: choose an empty directory");
    }
    ROS2S_TRY(check_fuse(allow_other, report));
    return absolute;
}

}  // namespace ros2s::fuse
