#include "operations.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cerrno>

#include "request.h"
#include "ros2s/fs/stat.h"
#include "ros2s/runtime/time.h"

namespace ros2s::fuse {

void reply_error(fuse_req_t request, const Error& error) noexcept {
    const int number = to_errno(error);
    // ENOTCONN is the kernel's error for a mount whose process has ended, and programs react to it
    // by unmounting. Here only a daemon is away, and may come back.
    fuse_reply_err(request, number == ENOTCONN ? EHOSTDOWN : number);
}

void reply(fuse_req_t request, const Result<>& result) noexcept {
    if (!result) return reply_error(request, result.error());
    fuse_reply_err(request, 0);
}

std::optional<fs::Attributes> removed_directory(Server& server, fs::NodeId node,
                                                const Error& error) {
    const bool is_gone = error.code == Code::stale;
    if (!is_gone || !server.directories().is_in_use(node, server.reactor().now())) return {};
    return server.directories().attributes(node);
}

Task<Error> error_in(Server& server, const Call& call, fs::NodeId directory, Error error) {
    const Time now = server.reactor().now();
    if (error.code != Code::stale || !server.directories().is_in_use(directory, now)) {
        co_return error;
    }
    const auto found = co_await server.file_system().get_attributes(call, directory);
    const bool is_gone = !found && found.error().code == Code::stale;
    co_return is_gone ? Error{.code = Code::not_found} : error;
}

namespace {

// A file without a name that is not open here was found by a name, which it has lost since. The
// kernel links no file that has no links. The file system does (add_link).
struct stat to_stat(const Server& server, const fs::Attributes& attributes) noexcept {
    // stdio writes in pieces of this size, and each write is a durable commit, so large is better.
    struct stat status = fs::to_stat(attributes, 128 * 1024);
    const bool was_found = attributes.links == 0 &&
                           (S_ISREG(attributes.mode) || S_ISLNK(attributes.mode)) &&
                           !server.is_open(attributes.node);
    if (was_found) status.st_nlink = 1;
    return status;
}

}  // namespace

fuse_entry_param to_entry(Server& server, const UserCall& user, fs::NodeId directory,
                          std::string_view name, const fs::Attributes& attributes) {
    server.note_attributes(attributes, true, user.acl_changes);
    fuse_entry_param entry{};
    entry.ino = attributes.node.value;  // never reused: no generation needed
    entry.attr = to_stat(server, attributes);
    const CacheTimes times = server.cache_times(
        {directory, attributes.node, name, S_ISDIR(attributes.mode)}, user.leases);
    entry.attr_timeout = times.attributes;
    entry.entry_timeout = times.name;
    return entry;
}

void reply_entry(fuse_req_t request, const UserCall& user, fs::NodeId directory,
                 std::string_view name, const Result<fs::Attributes>& result) {
    if (!result) return reply_error(request, result.error());
    Server& server = server_of(request);
    const fuse_entry_param entry = to_entry(server, user, directory, name, *result);
    // Not delivered (the caller was killed): the kernel has no reference, either.
    if (fuse_reply_entry(request, &entry) != 0) server.file_system().forget(result->node, 1);
}

void reply_attributes(fuse_req_t request, const UserCall& user,
                      const Result<fs::Attributes>& result) {
    if (!result) return reply_error(request, result.error());
    Server& server = server_of(request);
    server.note_attributes(*result, false, user.acl_changes);
    const struct stat status = to_stat(server, *result);
    fuse_reply_attr(request, &status,
                    server.cache_times({.node = result->node}, user.leases).attributes);
}

namespace {

// Of the kernel's interface 7.39, which Debian 12's headers do not have.
struct StatxTime {
    int64_t seconds;
    uint32_t nanoseconds;
    int32_t reserved;
};
struct StatxReply {
    uint64_t valid_seconds;
    uint32_t valid_nanoseconds;
    uint32_t flags;
    uint64_t reserved[2];
    uint32_t mask;
    uint32_t io_bytes;
    uint64_t attributes;
    uint32_t links, uid, gid;
    uint16_t mode;
    uint16_t reserved1;
    uint64_t node, size, blocks, attributes_mask;
    StatxTime accessed, created, changed, modified;
    uint32_t device_major, device_minor, file_system_major, file_system_minor;
    uint64_t reserved2[14];
};
static_assert(sizeof(StatxReply) == 32 + 256);

StatxTime to_statx(const timespec& time) noexcept {
    return {.seconds = time.tv_sec, .nanoseconds = static_cast<uint32_t>(time.tv_nsec)};
}

}  // namespace

void reply_statx(fuse_req_t request, const UserCall& user, const fs::Attributes& attributes) {
    Server& server = server_of(request);
    server.note_attributes(attributes, false, user.acl_changes);
    const struct stat status = to_stat(server, attributes);
    const bool has_birth_time = attributes.created != WallTime{};
    const double valid = server.cache_times({.node = attributes.node}, user.leases).attributes;
    const auto valid_seconds = static_cast<uint64_t>(valid);
    StatxReply reply{
        .valid_seconds = valid_seconds,
        .valid_nanoseconds =
            static_cast<uint32_t>((valid - static_cast<double>(valid_seconds)) * 1e9),
        .mask = STATX_BASIC_STATS | (has_birth_time ? STATX_BTIME : 0U),
        .io_bytes = static_cast<uint32_t>(status.st_blksize),
        .links = static_cast<uint32_t>(status.st_nlink),
        .uid = status.st_uid,
        .gid = status.st_gid,
        .mode = static_cast<uint16_t>(status.st_mode),
        .node = status.st_ino,
        .size = static_cast<uint64_t>(status.st_size),
        .blocks = static_cast<uint64_t>(status.st_blocks),
        .accessed = to_statx(status.st_atim),
        .created = to_statx(to_timespec(attributes.created)),
        .changed = to_statx(status.st_ctim),
        .modified = to_statx(status.st_mtim),
        .device_major = major(status.st_rdev),
        .device_minor = minor(status.st_rdev),
    };
    fuse_reply_buf(request, reinterpret_cast<const char*>(&reply), sizeof reply);
}

fuse_lowlevel_ops operations(Sharing sharing) noexcept {
    fuse_lowlevel_ops table{};
    table.init = [](void* server, fuse_conn_info* connection) noexcept {
        static_cast<Server*>(server)->connected(*connection);
    };
    add_name_operations(table);
    add_attribute_operations(table);
    add_file_operations(table);
    add_directory_operations(table);
    if (sharing == Sharing::shared) add_lock_operations(table);
    return table;
}

}  // namespace ros2s::fuse
