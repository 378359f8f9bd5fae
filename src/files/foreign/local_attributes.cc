// Attributes of LocalDirectory, and extended attributes.
#include <fcntl.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "local_directory.h"
#include "ros2s/fs/acl.h"
#include "ros2s/runtime/time.h"

namespace ros2s::foreign {
namespace {

timespec time_or_omitted(const std::optional<WallTime>& time) {
    return time ? to_timespec(*time) : timespec{.tv_sec = 0, .tv_nsec = UTIME_OMIT};
}

}  // namespace

Result<> LocalDirectory::drop_set_id(int path) const {
    if (!options_.gives_no_power) return {};
    struct stat status{};
    ROS2S_TRY(checked(::fstat(path, &status)));
    const mode_t left = allowed(status.st_mode, status.st_mode);
    if (left == status.st_mode) return {};
    return checked(::chmod(proc_path(path).c_str(), left & fs::permission_bits));
}

bool LocalDirectory::is_refused(std::string_view attribute) const {
    return options_.gives_no_power && fs::is_acl(attribute);
}

Result<> LocalDirectory::check_attribute(std::string_view name) const {
    if (is_refused(name)) return fail(Code::unsupported);
    if (name.starts_with("user.") || !options_.gives_no_power) return {};
    return fail_errno(EPERM);  // security.capability is equivalent to a set-id bit
}

Result<> LocalDirectory::change(int path, mode_t type, fs::SetAttributes changes) const {
    if (changes.flags) return fail(Code::unsupported);
    if (changes.uid) changes.uid = allowed({.uid = *changes.uid}).uid;
    if (changes.gid) changes.gid = allowed({.gid = *changes.gid}).gid;
    if (changes.mode) changes.mode = allowed(type, *changes.mode);
    if (changes.size) {
        if (S_ISDIR(type)) return fail(Code::is_directory);
        if (!S_ISREG(type)) return fail(Code::invalid);
        if (*changes.size > INT64_MAX) return fail(Code::too_large, INT64_MAX);
        ROS2S_TRY(drop_set_id(path));
        ROS2S_TRY(checked(::truncate(proc_path(path).c_str(), static_cast<off_t>(*changes.size))));
    }
    if (changes.uid || changes.gid || changes.clears_set_ids) {
        const uid_t uid = changes.uid.value_or(static_cast<uid_t>(-1));
        const gid_t gid = changes.gid.value_or(static_cast<gid_t>(-1));
        ROS2S_TRY(checked(::fchownat(path, "", uid, gid, AT_EMPTY_PATH)));
    }
    if (changes.mode) {
        if (S_ISLNK(type)) return fail(Code::unsupported);
        ROS2S_TRY(checked(::chmod(proc_path(path).c_str(), *changes.mode & fs::permission_bits)));
    }
    if (changes.accessed || changes.modified) {
        const timespec times[] = {time_or_omitted(changes.accessed),
                                  time_or_omitted(changes.modified)};
        ROS2S_TRY(checked(::utimensat(path, "", times, AT_EMPTY_PATH)));
    }
    return {};
}

Result<Attributes> LocalDirectory::get_now(NodeId id, int path) {
    struct statx status{};
    ROS2S_TRY(checked(::statx(path, "", AT_EMPTY_PATH, STATX_BASIC_STATS | STATX_BTIME, &status)));
    const auto time = [](const statx_timestamp& at) {
        return to_wall_time({.tv_sec = at.tv_sec, .tv_nsec = at.tv_nsec});
    };
    Attributes found{.node = id,
                     .mode = status.stx_mode,
                     .links = status.stx_nlink,
                     .uid = status.stx_uid,
                     .gid = status.stx_gid,
                     .size = status.stx_size,
                     .bytes_used = status.stx_blocks * 512,
                     .device = makedev(status.stx_rdev_major, status.stx_rdev_minor),
                     .accessed = time(status.stx_atime),
                     .modified = time(status.stx_mtime),
                     .changed = time(status.stx_ctime)};
    if ((status.stx_mask & STATX_BTIME) != 0) found.created = time(status.stx_btime);
    if ((status.stx_attributes & STATX_ATTR_APPEND) != 0)
        found.flags |= fs::node_flags::append_only;
    if ((status.stx_attributes & STATX_ATTR_IMMUTABLE) != 0) {
        found.flags |= fs::node_flags::immutable;
    }
    return found;
}

Task<Result<Attributes>> LocalDirectory::get_attributes(const Call& call, NodeId id) {
    ROS2S_CO_TRY_ASSIGN(const NodeUse node, co_await use(call, id));
    const auto get = [&]() -> Result<Attributes> { return get_now(id, node->fd()); };
    if (answers_at_once(node->inode.first)) co_return get();
    co_return co_await on_thread(call, get);
}

Task<Result<Attributes>> LocalDirectory::set_attributes(const Call& call, NodeId id,
                                                        const fs::SetAttributes& changes) {
    ROS2S_CO_TRY_ASSIGN(const NodeUse node, co_await use(call, id));
    co_return co_await on_thread(call, [&]() -> Result<Attributes> {
        ROS2S_TRY(change(node->fd(), node->type, changes));
        struct stat status{};
        ROS2S_TRY(checked(::fstat(node->fd(), &status)));
        return attributes_of(id, status);
    });
}

// The system calls for extended attributes take no O_PATH descriptor, and through /proc a symbolic
// link would be followed: links have none here.

Task<Result<std::string>> LocalDirectory::get_xattr(const Call& call, NodeId id,
                                                    std::string_view name) {
    ROS2S_CO_TRY_ASSIGN(const NodeUse node, co_await use(call, id));
    if (is_refused(name)) co_return fail(Code::unsupported);
    if (S_ISLNK(node->type)) co_return fail(Code::no_attribute);
    const std::string owned(name);
    co_return co_await on_thread(call, [&]() -> Result<std::string> {
        std::string value(fs::attribute_value_bytes_max, '\0');
        const ssize_t bytes =
            ::getxattr(proc_path(node->fd()).c_str(), owned.c_str(), value.data(), value.size());
        ROS2S_TRY(checked(bytes));
        value.resize(static_cast<size_t>(bytes));
        return value;
    });
}

Task<Result<>> LocalDirectory::set_xattr(const Call& call, NodeId id, std::string_view name,
                                         ConstBytes value, fs::SetXattr how) {
    ROS2S_CO_TRY(check_first(call));
    ROS2S_CO_TRY_ASSIGN(const NodeUse node, co_await use(call, id));
    if (S_ISLNK(node->type)) co_return fail(Code::denied);
    ROS2S_CO_TRY(check_attribute(name));
    const std::string owned(name);
    const int flags = how == fs::SetXattr::create    ? XATTR_CREATE
                      : how == fs::SetXattr::replace ? XATTR_REPLACE
                                                     : 0;
    co_return co_await on_thread(call, [&] {
        return checked(::setxattr(proc_path(node->fd()).c_str(), owned.c_str(), value.data(),
                                  value.size(), flags));
    });
}

Task<Result<>> LocalDirectory::remove_xattr(const Call& call, NodeId id, std::string_view name) {
    ROS2S_CO_TRY(check_first(call));
    ROS2S_CO_TRY_ASSIGN(const NodeUse node, co_await use(call, id));
    if (S_ISLNK(node->type)) co_return fail(Code::no_attribute);
    ROS2S_CO_TRY(check_attribute(name));
    const std::string owned(name);
    co_return co_await on_thread(
        call, [&] { return checked(::removexattr(proc_path(node->fd()).c_str(), owned.c_str())); });
}

Task<Result<std::vector<std::string>>> LocalDirectory::list_xattrs(const Call& call, NodeId id) {
    ROS2S_CO_TRY_ASSIGN(const NodeUse node, co_await use(call, id));
    if (S_ISLNK(node->type)) co_return std::vector<std::string>{};
    co_return co_await on_thread(call, [&]() -> Result<std::vector<std::string>> {
        std::string buffer(64 * 1024, '\0');  // the kernel's limit for a list
        const ssize_t bytes =
            ::listxattr(proc_path(node->fd()).c_str(), buffer.data(), buffer.size());
        ROS2S_TRY(checked(bytes));
        std::vector<std::string> names;
        for (size_t at = 0; at < static_cast<size_t>(bytes); at += names.back().size() + 1) {
            names.emplace_back(buffer.c_str() + at);
        }
        std::erase_if(names, [this](const std::string& name) { return is_refused(name); });
        return names;
    });
}

}  // namespace ros2s::foreign
