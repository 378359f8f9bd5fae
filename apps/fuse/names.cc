// lookup, forget, mknod, mkdir, unlink, rmdir, symlink, link, rename, readlink.
#include <linux/fs.h>

#include <cerrno>
#include <string>

#include "request.h"

namespace ros2s::fuse {
namespace {

Task<> lookup_task(Server& server, fuse_req_t request, fs::NodeId parent, std::string name) {
    const UserCall user(server, request);
    const auto result = co_await named_in(
        server, user.call, parent, co_await server.file_system().lookup(user.call, parent, name));
    if (!result && result.error().code == Code::not_found) {
        fuse_entry_param absent{};  // node 0: the kernel remembers that the name does not exist
        absent.entry_timeout =
            server.cache_times({.directory = parent, .name = name}, user.leases).name;
        if (absent.entry_timeout > 0) {
            fuse_reply_entry(request, &absent);
            co_return;
        }
    }
    reply_entry(request, user, parent, name, result);
}
void lookup(fuse_req_t request, fuse_ino_t parent, const char* name) {
    run(request, lookup_task, node_of(parent), name);
}

void forget(fuse_req_t request, fuse_ino_t node, uint64_t count) {
    server_of(request).forget(node_of(node), count);
    fuse_reply_none(request);
}
void forget_multi(fuse_req_t request, size_t count, fuse_forget_data* forgotten) {
    for (size_t i = 0; i < count; ++i) {
        server_of(request).forget(node_of(forgotten[i].ino), forgotten[i].nlookup);
    }
    fuse_reply_none(request);
}

Task<> mknod_task(Server& server, fuse_req_t request, fs::NodeId parent, std::string name,
                  mode_t mode, dev_t device) {
    const UserCall user(server, request);
    const NamesChange change(server, parent);
    const auto made = co_await server.file_system().mknod(user.call, parent, name, mode, device,
                                                          owner_of(request, parent));
    reply_entry(request, user, parent, name, co_await named_in(server, user.call, parent, made));
}
void mknod(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode, dev_t device) {
    run(request, mknod_task, node_of(parent), name, mode, device);
}

Task<> mkdir_task(Server& server, fuse_req_t request, fs::NodeId parent, std::string name,
                  mode_t mode) {
    const UserCall user(server, request);
    const NamesChange change(server, parent);
    if (server.inherited_group(parent)) mode |= S_ISGID;
    const auto made = co_await server.file_system().mkdir(user.call, parent, name, mode,
                                                          owner_of(request, parent));
    reply_entry(request, user, parent, name, co_await named_in(server, user.call, parent, made));
}
void mkdir(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode) {
    run(request, mkdir_task, node_of(parent), name, mode);
}

using Remove = Task<Result<>> (fs::FileSystem::*)(const Call&, fs::NodeId, std::string_view);
Task<> remove_task(Server& server, fuse_req_t request, Remove remove, fs::NodeId parent,
                   std::string name) {
    const UserCall user(server, request);
    const NamesChange change(server, parent);
    const auto done = co_await (server.file_system().*remove)(user.call, parent, name);
    reply(request, co_await named_in(server, user.call, parent, done));
}
void unlink(fuse_req_t request, fuse_ino_t parent, const char* name) {
    run(request, remove_task, &fs::FileSystem::unlink, node_of(parent), name);
}
void rmdir(fuse_req_t request, fuse_ino_t parent, const char* name) {
    run(request, remove_task, &fs::FileSystem::rmdir, node_of(parent), name);
}

Task<> symlink_task(Server& server, fuse_req_t request, std::string target, fs::NodeId parent,
                    std::string name) {
    const UserCall user(server, request);
    const NamesChange change(server, parent);
    const auto made = co_await server.file_system().symlink(user.call, parent, name, target,
                                                            owner_of(request, parent));
    reply_entry(request, user, parent, name, co_await named_in(server, user.call, parent, made));
}
void symlink(fuse_req_t request, const char* target, fuse_ino_t parent, const char* name) {
    run(request, symlink_task, target, node_of(parent), name);
}

Task<> link_task(Server& server, fuse_req_t request, fs::NodeId node, fs::NodeId parent,
                 std::string name) {
    const UserCall user(server, request);
    const NamesChange change(server, parent);
    const auto made = co_await server.file_system().link(user.call, node, parent, name);
    user.leases.clear();  // the kernel would keep the attributes also after the lease is lost
    reply_entry(request, user, parent, name, co_await named_in(server, user.call, parent, made));
}
void link(fuse_req_t request, fuse_ino_t node, fuse_ino_t parent, const char* name) {
    run(request, link_task, node_of(node), node_of(parent), name);
}

Task<> rename_task(Server& server, fuse_req_t request, fs::NodeId parent, std::string name,
                   fs::NodeId new_parent, std::string new_name, fs::FileSystem::RenameFlags flags) {
    const UserCall user(server, request);
    const NamesChange change(server, parent), new_change(server, new_parent);
    server.kernel_caches().name_moves({parent, name}, {new_parent, new_name}, flags.exchange);
    auto result =
        co_await server.file_system().rename(user.call, parent, name, new_parent, new_name, flags);
    for (const fs::NodeId directory : {parent, new_parent}) {
        result = co_await named_in(server, user.call, directory, result);
    }
    if (!result && result.error().code == Code::loop) {
        fuse_reply_err(request, EINVAL);
        co_return;
    }
    reply(request, result);
}
void rename(fuse_req_t request, fuse_ino_t parent, const char* name, fuse_ino_t new_parent,
            const char* new_name, unsigned flags) {
    if ((flags & ~(RENAME_NOREPLACE | RENAME_EXCHANGE | RENAME_WHITEOUT)) != 0) {
        fuse_reply_err(request, EINVAL);
        return;
    }
    run(request, rename_task, node_of(parent), name, node_of(new_parent), new_name,
        fs::FileSystem::RenameFlags{.no_replace = (flags & RENAME_NOREPLACE) != 0,
                                    .exchange = (flags & RENAME_EXCHANGE) != 0,
                                    .whiteout = (flags & RENAME_WHITEOUT) != 0,
                                    .owner = owner_of(request, node_of(parent))});
}

Task<> readlink_task(Server& server, fuse_req_t request, fs::NodeId node) {
    const UserCall user(server, request);
    const auto target = co_await server.file_system().readlink(user.call, node);
    if (!target) {
        reply_error(request, target.error());
        co_return;
    }
    fuse_reply_readlink(request, target->c_str());
}
void readlink(fuse_req_t request, fuse_ino_t node) { run(request, readlink_task, node_of(node)); }

}  // namespace

void add_name_operations(fuse_lowlevel_ops& table) noexcept {
    table.lookup = lookup;
    table.forget = forget;
    table.forget_multi = forget_multi;
    table.mknod = mknod;
    table.mkdir = mkdir;
    table.unlink = unlink;
    table.rmdir = rmdir;
    table.symlink = symlink;
    table.link = link;
    table.rename = rename;
    table.readlink = readlink;
}

}  // namespace ros2s::fuse
