// Calls on paths.
#include <fcntl.h>

#include <cerrno>

#include "handles.h"
#include "owner_of_new.h"
#include "ros2s/fs/stat.h"
#include "ros2s/runtime/time.h"
#include "walk.h"

using namespace ros2s;
using namespace ros2s::api::c;

namespace ros2s::api::c {

namespace {

constexpr blksize_t preferred_io_bytes = 1 << 20;  // a DFS chunk

using Last = Walk::Last;

Task<Result<>> stat_path(ros2s_fs& fs, std::string_view path, Last last, struct stat& out) {
    Walk walk(fs.file_system(), fs.call);
    ROS2S_CO_TRY_ASSIGN(const auto found, co_await walk.to(fs.base, path, last));
    to_stat(found, out);
    co_return {};
}

Task<Result<>> make_directory(ros2s_fs& fs, std::string_view path, mode_t mode) {
    Walk walk(fs.file_system(), fs.call);
    const auto place = co_await walk.to_name(fs.base, path);
    // "/" and "a/.." exist already, as for mkdir(2).
    if (!place)
        co_return fail(place.error().code == Code::invalid ? Error{Code::exists} : place.error());
    ROS2S_CO_TRY_ASSIGN(const auto made, co_await fs.file_system().mkdir(
                                             fs.call, place->parent, place->name,
                                             mode & fs::permission_bits, owner_of_new()));
    walk.add(made.node);
    co_return {};
}

Task<Result<>> remove_directory(ros2s_fs& fs, std::string_view path) {
    Walk walk(fs.file_system(), fs.call);
    ROS2S_CO_TRY_ASSIGN(const auto place, co_await walk.to_name(fs.base, path));
    co_return co_await fs.file_system().rmdir(fs.call, place.parent, place.name);
}

Task<Result<>> remove_file(ros2s_fs& fs, std::string_view path) {
    Walk walk(fs.file_system(), fs.call);
    ROS2S_CO_TRY_ASSIGN(const auto place, co_await walk.to_name(fs.base, path));
    if (path.ends_with('/')) co_return fail(Code::not_directory);
    co_return co_await fs.file_system().unlink(fs.call, place.parent, place.name);
}

Task<Result<>> rename_path(ros2s_fs& fs, std::string_view from, std::string_view to,
                           fs::FileSystem::RenameFlags flags) {
    Walk from_walk(fs.file_system(), fs.call);
    Walk to_walk(fs.file_system(), fs.call);
    ROS2S_CO_TRY_ASSIGN(const auto source, co_await from_walk.to_name(fs.base, from));
    ROS2S_CO_TRY_ASSIGN(const auto target, co_await to_walk.to_name(fs.base, to));
    const auto renamed = co_await fs.file_system().rename(fs.call, source.parent, source.name,
                                                          target.parent, target.name, flags);
    // A directory into itself: rename(2) returns EINVAL, and ELOOP means too many symbolic links.
    if (!renamed && renamed.error().code == Code::loop) co_return fail(Code::invalid);
    co_return renamed;
}

Task<Result<>> link_path(ros2s_fs& fs, std::string_view path, std::string_view new_path) {
    Walk walk(fs.file_system(), fs.call);
    Walk new_walk(fs.file_system(), fs.call);
    ROS2S_CO_TRY_ASSIGN(const auto node, co_await walk.to(fs.base, path, Last::keep));
    ROS2S_CO_TRY_ASSIGN(const auto place, co_await new_walk.to_name(fs.base, new_path));
    ROS2S_CO_TRY_ASSIGN(const auto linked, co_await fs.file_system().link(
                                               fs.call, node.node, place.parent, place.name));
    new_walk.add(linked.node);
    co_return {};
}

Task<Result<>> link_symbolically(ros2s_fs& fs, std::string_view target, std::string_view path) {
    Walk walk(fs.file_system(), fs.call);
    ROS2S_CO_TRY_ASSIGN(const auto place, co_await walk.to_name(fs.base, path));
    ROS2S_CO_TRY_ASSIGN(const auto made,
                        co_await fs.file_system().symlink(fs.call, place.parent, place.name, target,
                                                          owner_of_new()));
    walk.add(made.node);
    co_return {};
}

Task<Result<std::string>> read_link(ros2s_fs& fs, std::string_view path) {
    Walk walk(fs.file_system(), fs.call);
    ROS2S_CO_TRY_ASSIGN(const auto found, co_await walk.to(fs.base, path, Last::keep));
    if (!S_ISLNK(found.mode)) co_return fail(Code::invalid);
    co_return co_await fs.file_system().readlink(fs.call, found.node);
}

Task<Result<>> set_path_attributes(ros2s_fs& fs, std::string_view path, fs::SetAttributes changes) {
    Walk walk(fs.file_system(), fs.call);
    ROS2S_CO_TRY_ASSIGN(const auto found, co_await walk.to(fs.base, path, Last::follow));
    if (changes.size && S_ISDIR(found.mode)) co_return fail(Code::is_directory);
    const auto changed = co_await fs.file_system().set_attributes(fs.call, found.node, changes);
    if (!changed) co_return fail(changed.error());
    co_return {};
}

Result<std::optional<WallTime>> wanted_time(const timespec& time, WallTime now) {
    if (time.tv_nsec == UTIME_OMIT) return std::nullopt;
    if (time.tv_nsec == UTIME_NOW) return now;
    if (time.tv_nsec < 0 || time.tv_nsec > 999'999'999) return fail(Code::invalid);
    if (!is_representable(time)) return fail(Code::invalid);
    return to_wall_time(time);
}

Task<Result<fs::FileSystemSpace>> ask_space(ros2s_fs& fs) {
    return fs.file_system().space(fs.call);
}

int change(ros2s_fs* fs, const char* what, const char* path, const fs::SetAttributes& changes) {
    return static_cast<int>(answer(
        fs->run_by_name([&] { return set_path_attributes(*fs, path, changes); }), what, path));
}

}  // namespace

int check_call(ros2s_fs* fs, const char* what, const void* first, const void* second) {
    if (const int rc = check(fs, what); rc < 0) return rc;
    if (first == nullptr || second == nullptr) {
        return refuse(EINVAL, std::string(what) + ": an argument is NULL");
    }
    return 0;
}

void to_stat(const fs::Attributes& attributes, struct stat& out) {
    out = fs::to_stat(attributes, preferred_io_bytes);
}

}  // namespace ros2s::api::c

int ros2s_stat(ros2s_fs* fs, const char* path, struct stat* out) {
    if (const int rc = check_call(fs, "stat", path, out); rc < 0) return rc;
    return run_and_answer(*fs, "stat", path,
                          [&] { return stat_path(*fs, path, Last::follow, *out); });
}

int ros2s_lstat(ros2s_fs* fs, const char* path, struct stat* out) {
    if (const int rc = check_call(fs, "stat", path, out); rc < 0) return rc;
    return run_and_answer(*fs, "stat", path,
                          [&] { return stat_path(*fs, path, Last::keep, *out); });
}

int ros2s_mkdir(ros2s_fs* fs, const char* path, mode_t mode) {
    if (const int rc = check_call(fs, "mkdir", path, path); rc < 0) return rc;
    return run_and_answer(*fs, "mkdir", path, [&] { return make_directory(*fs, path, mode); });
}

int ros2s_rmdir(ros2s_fs* fs, const char* path) {
    if (const int rc = check_call(fs, "rmdir", path, path); rc < 0) return rc;
    return run_and_answer(*fs, "rmdir", path, [&] { return remove_directory(*fs, path); });
}

int ros2s_unlink(ros2s_fs* fs, const char* path) {
    if (const int rc = check_call(fs, "unlink", path, path); rc < 0) return rc;
    return run_and_answer(*fs, "unlink", path, [&] { return remove_file(*fs, path); });
}

int ros2s_rename(ros2s_fs* fs, const char* from, const char* to, uint32_t flags) {
    if (const int rc = check_call(fs, "rename", from, to); rc < 0) return rc;
    const fs::FileSystem::RenameFlags wanted{.no_replace = (flags & ROS2S_RENAME_NOREPLACE) != 0,
                                             .exchange = (flags & ROS2S_RENAME_EXCHANGE) != 0};
    if ((flags & ~(ROS2S_RENAME_NOREPLACE | ROS2S_RENAME_EXCHANGE)) != 0 ||
        (wanted.no_replace && wanted.exchange)) {
        return refuse(
            EINVAL, "rename: the flags are not 0, ROS2S_RENAME_NOREPLACE or ROS2S_RENAME_EXCHANGE");
    }
    return run_and_answer(*fs, std::string("rename '") + from + "' to", to,
                          [&] { return rename_path(*fs, from, to, wanted); });
}

int ros2s_link(ros2s_fs* fs, const char* path, const char* new_path) {
    if (const int rc = check_call(fs, "link", path, new_path); rc < 0) return rc;
    return run_and_answer(*fs, std::string("link '") + path + "' as", new_path,
                          [&] { return link_path(*fs, path, new_path); });
}

int ros2s_symlink(ros2s_fs* fs, const char* target, const char* path) {
    if (const int rc = check_call(fs, "symlink", target, path); rc < 0) return rc;
    return run_and_answer(*fs, "symlink", path,
                          [&] { return link_symbolically(*fs, target, path); });
}

ssize_t ros2s_readlink(ros2s_fs* fs, const char* path, char* buffer, size_t bytes) {
    if (const int rc = check_call(fs, "readlink", path, buffer); rc < 0) return rc;
    const auto target = fs->run_by_name([&] { return read_link(*fs, path); });
    if (!target) return refuse(target.error(), "readlink", path);
    if (target->size() > bytes) {
        return refuse(fail(Code::too_small, target->size()).error(), "readlink", path);
    }
    target->copy(buffer, target->size());  // without a NUL, as readlink(2)
    return static_cast<ssize_t>(target->size());
}

int ros2s_truncate(ros2s_fs* fs, const char* path, uint64_t bytes) {
    if (const int rc = check_call(fs, "truncate", path, path); rc < 0) return rc;
    return change(fs, "truncate", path, {.size = bytes});
}

int ros2s_chmod(ros2s_fs* fs, const char* path, mode_t mode) {
    if (const int rc = check_call(fs, "chmod", path, path); rc < 0) return rc;
    return change(fs, "chmod", path, {.mode = mode & fs::permission_bits});
}

int ros2s_chown(ros2s_fs* fs, const char* path, uid_t uid, gid_t gid) {
    if (const int rc = check_call(fs, "chown", path, path); rc < 0) return rc;
    fs::SetAttributes changes;
    if (uid != static_cast<uid_t>(-1)) changes.uid = uid;
    if (gid != static_cast<gid_t>(-1)) changes.gid = gid;
    return change(fs, "chown", path, changes);
}

int ros2s_utimens(ros2s_fs* fs, const char* path, const struct timespec times[2]) {
    if (const int rc = check_call(fs, "utimens", path, path); rc < 0) return rc;
    const auto now = fs->instance().reactor().wall_time();
    fs::SetAttributes changes{.accessed = now, .modified = now};
    if (times != nullptr) {
        const auto accessed = wanted_time(times[0], now);
        const auto modified = wanted_time(times[1], now);
        if (!accessed || !modified) {
            return refuse(EINVAL, std::string("utimens '") + path +
                                      "': a time is not within the years 1677 to 2262, or its "
                                      "nanoseconds are not 0 to 999999999");
        }
        changes.accessed = *accessed;
        changes.modified = *modified;
    }
    return change(fs, "utimens", path, changes);
}

int ros2s_statfs(ros2s_fs* fs, struct statvfs* out) {
    if (const int rc = check_call(fs, "statfs", out, out); rc < 0) return rc;
    const auto space = fs->run([&] { return ask_space(*fs); });
    if (!space) return refuse(space.error(), "statfs");
    *out = {};
    out->f_bsize = preferred_io_bytes;
    out->f_frsize = block_bytes;
    out->f_blocks = space->total_bytes / block_bytes;
    out->f_bfree = out->f_bavail = space->free_bytes / block_bytes;
    out->f_files = space->files_max > 0 ? space->files_max : space->files;
    if (space->files_max > 0) out->f_ffree = out->f_favail = space->files_max - space->files;
    out->f_namemax = fs::name_bytes_max;
    return 0;
}
