#include "describe.h"

#include <fmt/format.h>
#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>

#include <chrono>
#include <ctime>

namespace ros2s::cli {

std::string mode_text(mode_t mode) {
    std::string text = "?rwxrwxrwx";
    switch (mode & S_IFMT) {
        case S_IFREG: text[0] = '-'; break;
        case S_IFDIR: text[0] = 'd'; break;
        case S_IFLNK: text[0] = 'l'; break;
        case S_IFIFO: text[0] = 'p'; break;
        case S_IFSOCK: text[0] = 's'; break;
        case S_IFBLK: text[0] = 'b'; break;
        case S_IFCHR: text[0] = 'c'; break;
        default: break;
    }
    for (unsigned bit = 0; bit < 9; ++bit) {
        if ((mode & (0400U >> bit)) == 0) text[bit + 1] = '-';
    }
    const auto special = [&](mode_t bit, size_t at, char with, char without) {
        if ((mode & bit) != 0) text[at] = text[at] == 'x' ? with : without;
    };
    special(S_ISUID, 3, 's', 'S');
    special(S_ISGID, 6, 's', 'S');
    special(S_ISVTX, 9, 't', 'T');
    return text;
}

std::string_view type_text(mode_t mode) {
    switch (mode & S_IFMT) {
        case S_IFREG: return "regular file";
        case S_IFDIR: return "directory";
        case S_IFLNK: return "symbolic link";
        case S_IFIFO: return "FIFO";
        case S_IFSOCK: return "socket";
        case S_IFBLK: return "block device";
        case S_IFCHR: return "character device";
        default: return "unknown type";
    }
}

std::string user_text(uid_t uid) {
    const passwd* const entry = getpwuid(uid);
    return entry != nullptr ? entry->pw_name : std::to_string(uid);
}

std::string group_text(gid_t gid) {
    const group* const entry = getgrgid(gid);
    return entry != nullptr ? entry->gr_name : std::to_string(gid);
}

std::string time_text(WallTime time, bool seconds) {
    const std::time_t count =
        std::chrono::system_clock::to_time_t(std::chrono::floor<std::chrono::seconds>(time));
    std::tm parts{};
    localtime_r(&count, &parts);
    char text[64];
    return {text, std::strftime(text, sizeof text,
                                seconds ? "%Y-%m-%d %H:%M:%S %z" : "%Y-%m-%d %H:%M", &parts)};
}

Json attributes_value(std::string_view path, const fs::Attributes& attributes,
                      std::string_view link_target) {
    const auto nanoseconds = [](WallTime time) { return Json(time.time_since_epoch().count()); };
    return Json::object({{"path", path},
                         {"type", type_text(attributes.mode)},
                         {"mode", fmt::format("{:04o}", attributes.mode & 07777U)},
                         {"links", attributes.links},
                         {"uid", attributes.uid},
                         {"gid", attributes.gid},
                         {"bytes", attributes.size},
                         {"bytes_used", attributes.bytes_used},
                         {"inode", attributes.node.value},
                         {"accessed_ns", nanoseconds(attributes.accessed)},
                         {"modified_ns", nanoseconds(attributes.modified)},
                         {"changed_ns", nanoseconds(attributes.changed)},
                         {"target", S_ISLNK(attributes.mode) ? Json(link_target) : Json()}});
}

}  // namespace ros2s::cli
