// getattr, setattr, statfs, flags (chattr), and extended attributes.
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <string>

#include "request.h"
#include "ros2s/api/mount_trace.h"
#include "ros2s/fs/acl.h"
#include "ros2s/fs/unsynced.h"
#include "ros2s/runtime/time.h"

namespace ros2s::fuse {
namespace {

// The seconds of times that a program sets.
struct TimesSet {
    std::optional<time_t> accessed, modified;
};

// A time that cannot be stored is cut, as the kernel does for file systems whose limits it knows:
// here, or by the file system under a directory that a DPU serves. All of them keep times of 32
// bits. A client that sets another time meanwhile is therefore not taken for a cut.
void note_if_cut(Server& server, fs::NodeId node, std::optional<time_t> set, WallTime kept) {
    if (!set || *set == static_cast<int32_t>(*set)) return;
    const time_t seconds = to_timespec(kept).tv_sec;
    if (seconds != *set) server.note_cut_time(node, *set, seconds);
}

Task<> getattr_task(Server& server, fuse_req_t request, fs::NodeId node, bool with_birth_time) {
    const UserCall user(server, request);
    co_await server.kernel_caches().attributes_asked(node);
    auto found = co_await server.file_system().get_attributes(user.call, node);
    if (!found) {
        if (const auto removed = removed_directory(server, node, found.error())) found = *removed;
    }
    if (found && with_birth_time) {
        reply_statx(request, user, *found);
    } else {
        reply_attributes(request, user, found);
    }
}
void getattr(fuse_req_t request, fuse_ino_t node, fuse_file_info*) {
    run(request, getattr_task, node_of(node), server_of(request).asks_for_birth_time());
}

// Where the kernel keeps writes, it has the times: it has checked who may set them. It also tells
// them after a rename, as the user who may rename the file, but perhaps not write to it.
bool changes_times_only(const fs::SetAttributes& changes) noexcept {
    const bool changes_more = changes.mode || changes.uid || changes.gid || changes.size ||
                              changes.flags || changes.clears_set_ids;
    return !changes_more;
}

Task<> setattr_task(Server& server, fuse_req_t request, fs::NodeId node, fs::SetAttributes changes,
                    TimesSet times) {
    const UserCall user(server, request, node);
    Call call = user.call;
    static constexpr fs::Caller kernel{.uid = 0, .gid = 0};
    if (server.is_exclusive() && changes_times_only(changes)) call.caller = &kernel;
    server.borrowed_files().kernel().setting_begins(node);
    const auto changed = co_await server.file_system().set_attributes(call, node, changes);
    if (changed) {
        note_if_cut(server, node, times.accessed, changed->accessed);
        note_if_cut(server, node, times.modified, changed->modified);
    }
    user.leases.clear();  // the kernel would keep them also after the lease is lost
    reply_attributes(request, user, changed);
    server.borrowed_files().kernel().setting_ends(node);
}
void setattr(fuse_req_t request, fuse_ino_t node, struct stat* wanted, int which, fuse_file_info*) {
    Server& server = server_of(request);
    fs::SetAttributes changes;
    TimesSet times;
    if ((which & FUSE_SET_ATTR_MODE) != 0) changes.mode = wanted->st_mode & fs::permission_bits;
    if ((which & FUSE_SET_ATTR_UID) != 0) changes.uid = wanted->st_uid;
    if ((which & FUSE_SET_ATTR_GID) != 0) changes.gid = wanted->st_gid;
    if ((which & FUSE_SET_ATTR_SIZE) != 0) changes.size = static_cast<uint64_t>(wanted->st_size);
    const WallTime now = server.reactor().wall_time();
    if ((which & FUSE_SET_ATTR_ATIME_NOW) != 0) {
        changes.accessed = now;
    } else if ((which & FUSE_SET_ATTR_ATIME) != 0) {
        changes.accessed = to_wall_time(wanted->st_atim);
        times.accessed = wanted->st_atim.tv_sec;
    }
    if ((which & FUSE_SET_ATTR_MTIME_NOW) != 0) {
        changes.modified = now;
    } else if ((which & FUSE_SET_ATTR_MTIME) != 0) {
        changes.modified = to_wall_time(wanted->st_mtim);
        times.modified = wanted->st_mtim.tv_sec;
    }
    changes.keeps_set_ids = !server.clears_set_ids();
    // The kernel announces a change of the contents by a program that may not keep set-id bits. So
    // it does chown(2) without a new owner.
    changes.clears_set_ids = !(changes.mode || changes.uid || changes.gid || changes.size ||
                               changes.accessed || changes.modified);
    server.run(setattr_task(server, request, node_of(node), changes, times));
}

// ---- flags: what chattr(1) sets, in two forms

uint32_t to_flags(fs::Attributes node) noexcept {
    return ((node.flags & fs::node_flags::append_only) != 0 ? FS_APPEND_FL : 0U) |
           ((node.flags & fs::node_flags::immutable) != 0 ? FS_IMMUTABLE_FL : 0U);
}
fsxattr to_fsxattr(fs::Attributes node) noexcept {
    fsxattr extended{};
    if ((node.flags & fs::node_flags::append_only) != 0) extended.fsx_xflags |= FS_XFLAG_APPEND;
    if ((node.flags & fs::node_flags::immutable) != 0) extended.fsx_xflags |= FS_XFLAG_IMMUTABLE;
    return extended;
}

// Errors: unsupported (other flags).
Result<uint32_t> node_flags_of(uint32_t flags, uint32_t append, uint32_t immutable) noexcept {
    if ((flags & ~(append | immutable)) != 0) return fail(Code::unsupported);
    return ((flags & append) != 0 ? fs::node_flags::append_only : 0U) |
           ((flags & immutable) != 0 ? fs::node_flags::immutable : 0U);
}
Result<uint32_t> wanted_flags(unsigned command, std::string_view given) noexcept {
    if (command == FS_IOC_SETFLAGS) {
        uint32_t flags = 0;
        if (given.size() < sizeof flags) return fail(Code::invalid);
        std::memcpy(&flags, given.data(), sizeof flags);
        return node_flags_of(flags, FS_APPEND_FL, FS_IMMUTABLE_FL);
    }
    fsxattr extended{};
    if (given.size() < sizeof extended) return fail(Code::invalid);
    std::memcpy(&extended, given.data(), sizeof extended);
    const bool has_more =
        extended.fsx_extsize != 0 || extended.fsx_projid != 0 || extended.fsx_cowextsize != 0;
    if (has_more) return fail(Code::unsupported);
    return node_flags_of(extended.fsx_xflags, FS_XFLAG_APPEND, FS_XFLAG_IMMUTABLE);
}

Task<> get_flags_task(Server& server, fuse_req_t request, fs::NodeId node, unsigned command) {
    const UserCall user(server, request);
    const auto found = co_await server.file_system().get_attributes(user.call, node);
    if (!found) {
        reply_error(request, found.error());
        co_return;
    }
    const uint32_t flags = to_flags(*found);
    const fsxattr extended = to_fsxattr(*found);
    if (command == FS_IOC_GETFLAGS) {
        fuse_reply_ioctl(request, 0, &flags, sizeof flags);
    } else {
        fuse_reply_ioctl(request, 0, &extended, sizeof extended);
    }
}

Task<> set_flags_task(Server& server, fuse_req_t request, fs::NodeId node, uint32_t flags) {
    const UserCall user(server, request);
    const auto changed =
        co_await server.file_system().set_attributes(user.call, node, {.flags = flags});
    if (changed) {
        server.kernel_caches().attributes_changed(node);
        fuse_reply_ioctl(request, 0, nullptr, 0);
    } else {
        reply_error(request, changed.error());
    }
}

// The kernel (5.13) turns the calls of programs into these, and requires CAP_LINUX_IMMUTABLE.
void ioctl(fuse_req_t request, fuse_ino_t node, unsigned command, void*, fuse_file_info* file,
           unsigned, const void* given, size_t given_bytes, size_t) {
    // Past a kernel that keeps writes, programs would see old bytes.
    const bool lends = !server_of(request).is_exclusive();
    if (lends && lend_by_ioctl(request, node_of(node), command, file, given, given_bytes)) return;
    switch (command) {
        case FS_IOC_GETFLAGS:
        case FS_IOC_FSGETXATTR: run(request, get_flags_task, node_of(node), command); return;
        case FS_IOC_SETFLAGS:
        case FS_IOC_FSSETXATTR: break;
        default: fuse_reply_err(request, ENOTTY); return;
    }
    const auto flags = wanted_flags(command, {static_cast<const char*>(given), given_bytes});
    if (fuse_req_ctx(request)->uid != 0) {
        fuse_reply_err(request, EPERM);
    } else if (!flags) {
        reply_error(request, flags.error());
    } else {
        run(request, set_flags_task, node_of(node), *flags);
    }
}

Task<> statfs_task(Server& server, fuse_req_t request) {
    const UserCall user(server, request);
    const auto space = co_await server.file_system().space(user.call);
    if (!space) {
        reply_error(request, space.error());
        co_return;
    }
    struct statvfs status{};
    status.f_bsize = block_bytes;
    status.f_frsize = block_bytes;
    status.f_blocks = space->total_bytes / block_bytes;
    status.f_bfree = space->free_bytes / block_bytes;
    status.f_bavail = status.f_bfree;
    // There is no inode table: space limits the number of files. Programs would take 0 for "none
    // left".
    status.f_ffree = space->free_bytes / block_bytes;
    if (space->files_max > 0) status.f_ffree = space->files_max - space->files;
    status.f_files = space->files + status.f_ffree;
    status.f_favail = status.f_ffree;
    status.f_namemax = fs::name_bytes_max;
    fuse_reply_statfs(request, &status);
}
void statfs(fuse_req_t request, fuse_ino_t) { run(request, statfs_task); }

// Attributes whose effect nothing here implements.
bool is_refused(const Server& server, std::string_view name) noexcept {
    if (fs::is_acl(name)) return !server.options().access_lists;
    return name.starts_with("system.");
}

// This process answers them. A file with such an attribute could not be copied with its attributes.
bool is_reserved(std::string_view name) noexcept {
    return name.starts_with(api::reserved_attributes);
}

Task<Result<std::string>> answer_why(Server& server, fs::NodeId node, uint64_t offset) {
    const Time arrived = server.reactor().now();
    const Call call;
    fs::FileSystem& file_system = server.file_system();
    ROS2S_CO_TRY_ASSIGN(const fs::Opened opened, co_await file_system.open(call, node, {}));
    const auto trace = co_await api::trace_file(call, server.reactor(), file_system, opened.handle,
                                                offset, api::TraceKinds::read);
    ROS2S_CO_TRY(co_await file_system.close(call, opened.handle));
    if (!trace) {
        server.note_failure(node, trace.error());
        co_return fail(trace.error());
    }
    co_return api::to_text(*trace, server.reactor().now() - arrived);
}

// Questions to this process are answered here; all other attributes are the file's.
Task<Result<std::string>> value_of(Server& server, fuse_req_t request, fs::NodeId node,
                                   std::string name) {
    if (const auto offset = api::parse_question(name)) {
        co_return co_await answer_why(server, node, *offset);
    }
    if (node == fs::root_node && name == api::mount_status_attribute && server.options().status) {
        co_return server.options().status();
    }
    if (name == fs::unsynced_attribute && server.options().unsynced) {
        co_return server.options().unsynced();
    }
    const UserCall user(server, request);
    co_return co_await server.file_system().get_xattr(user.call, node, name);
}

Task<> getxattr_task(Server& server, fuse_req_t request, fs::NodeId node, std::string name,
                     size_t room) {
    if (room == 0 && api::parse_question(name)) {  // the trace runs when the value is requested
        fuse_reply_xattr(request, api::mount_answer_bytes_max);
        co_return;
    }
    const auto value = co_await value_of(server, request, node, std::move(name));
    if (!value && removed_directory(server, node, value.error())) {
        fuse_reply_err(request, ENODATA);
    } else if (!value) {
        reply_error(request, value.error());
    } else if (room == 0) {
        fuse_reply_xattr(request, value->size());
    } else if (value->size() > room) {
        fuse_reply_err(request, ERANGE);
    } else {
        fuse_reply_buf(request, value->data(), value->size());
    }
}
void getxattr(fuse_req_t request, fuse_ino_t node, const char* name, size_t room) {
    const Server& server = server_of(request);
    if (is_refused(server, name)) {
        fuse_reply_err(request, EOPNOTSUPP);
        return;
    }
    if (server.lacks_attribute(node_of(node), name)) {
        fuse_reply_err(request, ENODATA);
        return;
    }
    run(request, getxattr_task, node_of(node), name, room);
}

Task<> setxattr_task(Server& server, fuse_req_t request, fs::NodeId node, std::string name,
                     std::string value, fs::SetXattr how) {
    const UserCall user(server, request);
    const auto result =
        co_await server.file_system().set_xattr(user.call, node, name, as_bytes(value), how);
    if (fs::flag_of_attribute(name) != 0) server.acl_changed(node);
    if (!result && result.error().code == Code::too_large) {
        fuse_reply_err(request, E2BIG);
        co_return;
    }
    reply(request, result);
}
void setxattr(fuse_req_t request, fuse_ino_t node, const char* name, const char* value,
              size_t bytes, int flags) {
    const Server& server = server_of(request);
    if (is_refused(server, name) || is_reserved(name)) {
        fuse_reply_err(request, EOPNOTSUPP);
        return;
    }
    const auto how = (flags & XATTR_CREATE) != 0    ? fs::SetXattr::create
                     : (flags & XATTR_REPLACE) != 0 ? fs::SetXattr::replace
                     : server.clears_set_group()    ? fs::SetXattr::without_set_group
                                                    : fs::SetXattr::any;
    run(request, setxattr_task, node_of(node), name, std::string(value, bytes), how);
}

Task<> listxattr_task(Server& server, fuse_req_t request, fs::NodeId node, size_t room) {
    const UserCall user(server, request);
    auto names = co_await server.file_system().list_xattrs(user.call, node);
    if (!names && removed_directory(server, node, names.error())) names.emplace();
    if (!names) {
        reply_error(request, names.error());
        co_return;
    }
    std::string list;  // each name with its NUL
    for (const auto& name : *names) {
        if (!is_reserved(name)) list.append(name.c_str(), name.size() + 1);
    }
    if (room == 0) {
        fuse_reply_xattr(request, list.size());
    } else if (list.size() > room) {
        fuse_reply_err(request, ERANGE);
    } else {
        fuse_reply_buf(request, list.data(), list.size());
    }
}
void listxattr(fuse_req_t request, fuse_ino_t node, size_t room) {
    run(request, listxattr_task, node_of(node), room);
}

Task<> removexattr_task(Server& server, fuse_req_t request, fs::NodeId node, std::string name) {
    const UserCall user(server, request);
    auto removed = co_await server.file_system().remove_xattr(user.call, node, name);
    if (fs::is_acl(name)) {
        server.acl_changed(node);
        // For Linux, that is no error.
        if (!removed && removed.error().code == Code::no_attribute) removed = {};
    }
    reply(request, removed);
}
void removexattr(fuse_req_t request, fuse_ino_t node, const char* name) {
    if (is_refused(server_of(request), name)) {
        fuse_reply_err(request, EOPNOTSUPP);
        return;
    }
    run(request, removexattr_task, node_of(node), name);
}

}  // namespace

void add_attribute_operations(fuse_lowlevel_ops& table) noexcept {
    table.getattr = getattr;
    table.setattr = setattr;
    table.statfs = statfs;
    table.ioctl = ioctl;
    table.getxattr = getxattr;
    table.setxattr = setxattr;
    table.listxattr = listxattr;
    table.removexattr = removexattr;
}

}  // namespace ros2s::fuse
