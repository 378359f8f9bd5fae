#include "dead_mounts.h"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <utility>

#include "ros2s/api/uri.h"

namespace ros2s::cli {
namespace {

constexpr std::string_view type = "fuse.ros2store";

// The table writes bytes that would end a field as three octal digits: "\040".
std::string unescape(std::string_view field) {
    const auto is_octal = [](char c) { return c >= '0' && c <= '7'; };
    std::string out;
    for (size_t i = 0; i < field.size(); ++i) {
        if (field[i] == '\\' && i + 3 < field.size() && is_octal(field[i + 1]) &&
            is_octal(field[i + 2]) && is_octal(field[i + 3])) {
            out += static_cast<char>((field[i + 1] - '0') * 64 + (field[i + 2] - '0') * 8 +
                                     (field[i + 3] - '0'));
            i += 3;
        } else {
            out += field[i];
        }
    }
    return out;
}

bool same_directory(const std::string& one, const std::string& other) {
    struct stat left{}, right{};
    return ::stat(one.c_str(), &left) == 0 && ::stat(other.c_str(), &right) == 0 &&
           left.st_dev == right.st_dev && left.st_ino == right.st_ino;
}

bool is_dead(const std::string& mount_point, const pool::OwnerRecord& owner) {
    // A living mount is not asked: it may be busy.
    if (owner.pid != 0 && owner.mount_point == mount_point) return false;
    // Attributes may be cached; the space of a file system is not.
    struct statvfs space{};
    if (::statvfs(mount_point.c_str(), &space) != 0) return errno == ENOTCONN;
    // The kernel hides another user's mount, also a dead one. A living mount has its pool open.
    struct stat status{};
    return owner.pid == 0 && ::stat(mount_point.c_str(), &status) != 0 && errno == EACCES;
}

}  // namespace

std::vector<TableMount> ros2store_mounts(std::string_view mountinfo) {
    std::vector<TableMount> found;
    std::istringstream table{std::string(mountinfo)};
    std::string line;
    while (std::getline(table, line)) {
        // 36 35 98:0 /root /mount/point options [further…] - type source super-options
        std::istringstream fields(line);
        std::string word, mount_point, kind, source;
        fields >> word >> word >> word >> word >> mount_point;
        while (fields >> word && word != "-") {
        }
        if (fields >> kind >> source && kind == type) {
            found.push_back({.mount_point = unescape(mount_point), .source = unescape(source)});
        }
    }
    return found;
}

namespace {

// `process` is its directory in /proc.
std::vector<std::string> mounts_of(const std::string& directory,
                                   const std::filesystem::path& process) {
    std::ostringstream table;
    table << std::ifstream(process / "mountinfo").rdbuf();
    std::vector<std::string> found;
    for (const auto& mount : ros2store_mounts(table.view())) {
        Report ignored;
        const auto uri = api::Uri::parse(mount.source, ignored);
        if (uri && same_directory(uri->dir, directory)) found.push_back(mount.mount_point);
    }
    return found;
}

std::string namespace_of(const std::filesystem::path& process) {
    std::error_code failed;
    return std::filesystem::read_symlink(process / "ns/mnt", failed).string();
}

}  // namespace

std::vector<std::string> mounts_of(const std::string& directory) {
    return mounts_of(directory, "/proc/self");
}

std::optional<MountCopy> copy_of_mount(const std::string& directory) {
    std::set<std::string> seen{namespace_of("/proc/self"), ""};
    std::error_code failed;
    for (const auto& process : std::filesystem::directory_iterator("/proc", failed)) {
        const std::string name = process.path().filename();
        uint32_t pid = 0;
        std::from_chars(name.data(), name.data() + name.size(), pid);
        if (pid == 0 || !seen.insert(namespace_of(process)).second) continue;
        const std::vector<std::string> mounts = mounts_of(directory, process);
        if (mounts.empty()) continue;
        std::string program;
        std::getline(std::ifstream(process.path() / "comm"), program);
        return MountCopy{pid, std::move(program), mounts.front()};
    }
    return std::nullopt;
}

std::vector<std::string> living_mounts(const std::string& directory,
                                       const std::vector<std::string>& dead) {
    std::vector<std::string> living = mounts_of(directory);
    std::erase_if(living,
                  [&](const auto& each) { return std::ranges::find(dead, each) != dead.end(); });
    return living;
}

std::vector<std::string> dead_mounts(const std::string& directory, const pool::OwnerRecord& owner) {
    std::vector<std::string> dead = mounts_of(directory);
    std::erase_if(dead, [&](const auto& mount_point) { return !is_dead(mount_point, owner); });
    return dead;
}

}  // namespace ros2s::cli
