// Shared by all operations: the conversion of libfuse's request to ours, and the common replies.
#pragma once
#include <optional>
#include <string_view>
#include <vector>

#include "ros2s/fs/caller.h"
#include "ros2s/fs/file_system.h"
#include "server.h"

namespace ros2s::fuse {

[[nodiscard]] inline Server& server_of(fuse_req_t request) noexcept {
    return *static_cast<Server*>(fuse_req_userdata(request));
}
// Continues the request that is being dispatched in `task`(server, request, arguments...).
void run(fuse_req_t request, auto task, auto... arguments) {
    Server& server = server_of(request);
    server.run(task(server, request, std::move(arguments)...));
}
[[nodiscard]] inline fs::NodeId node_of(fuse_ino_t inode) noexcept { return {inode}; }
[[nodiscard]] inline fs::FileHandle handle_of(const fuse_file_info& file) noexcept {
    return {file.fh};
}
// The caller, as owner of what it creates in `parent`.
[[nodiscard]] inline fs::Owner owner_of(fuse_req_t request, fs::NodeId parent) {
    const fuse_ctx* context = fuse_req_ctx(request);
    const auto group = server_of(request).inherited_group(parent);
    return {.uid = context->uid, .gid = group.value_or(context->gid), .umask = context->umask};
}

// A call for the user whose program made the request.
struct UserCall {
    // `changes`: a node whose contents or owner the call changes. The user's groups decide which
    // set-id bits the call clears.
    UserCall(Server& server, fuse_req_t request, std::optional<fs::NodeId> changes = {})
        : groups(server.groups_of(request, changes && server.has_set_ids(*changes))),
          caller{.uid = fuse_req_ctx(request)->uid,
                 .gid = fuse_req_ctx(request)->gid,
                 .groups = groups},
          acl_changes(server.acl_changes()),
          call{.caller = &caller, .leases = server.takes_leases() ? &leases : nullptr} {}
    UserCall& operator=(UserCall&&) = delete;

    const std::vector<uint32_t> groups;
    const fs::Caller caller;
    const uint64_t acl_changes;          // when it began
    mutable std::vector<Leased> leases;  // that the reply came with
    const Call call;
};

// A change of names in the directory, to the end of its reply.
class NamesChange {
  public:
    NamesChange(Server& server, fs::NodeId directory)
        : caches_(server.kernel_caches()), directory_(directory) {
        caches_.change_begins(directory_);
    }
    ~NamesChange() { caches_.change_ends(directory_); }
    NamesChange& operator=(NamesChange&&) = delete;

  private:
    KernelCaches& caches_;
    const fs::NodeId directory_;
};

// The attributes of a directory that was removed while a program has it as working directory, if
// `error` means that (known_directories.h).
[[nodiscard]] std::optional<fs::Attributes> removed_directory(Server& server, fs::NodeId node,
                                                              const Error& error);
// For a call about a name in `directory`. In such a directory no name exists, and none can be made.
Task<Error> error_in(Server& server, const Call& call, fs::NodeId directory, Error error);
template <class T>
Task<Result<T>> named_in(Server& server, const Call& call, fs::NodeId directory, Result<T> result) {
    if (result) co_return result;
    co_return fail(co_await error_in(server, call, directory, result.error()));
}

void reply_error(fuse_req_t request, const Error& error) noexcept;
void reply(fuse_req_t request, const Result<>& result) noexcept;
// Replies with the node of a name in the directory. The kernel gets one more reference to it.
void reply_entry(fuse_req_t request, const UserCall& user, fs::NodeId directory,
                 std::string_view name, const Result<fs::Attributes>& result);
void reply_attributes(fuse_req_t request, const UserCall& user,
                      const Result<fs::Attributes>& result);
// To FUSE_STATX.
void reply_statx(fuse_req_t request, const UserCall& user, const fs::Attributes& attributes);
[[nodiscard]] fuse_entry_param to_entry(Server& server, const UserCall& user, fs::NodeId directory,
                                        std::string_view name, const fs::Attributes& attributes);

// The parts of the table, one per file.
void add_name_operations(fuse_lowlevel_ops& table) noexcept;       // names.cc
void add_attribute_operations(fuse_lowlevel_ops& table) noexcept;  // attributes.cc
void add_file_operations(fuse_lowlevel_ops& table) noexcept;       // files.cc
void add_directory_operations(fuse_lowlevel_ops& table) noexcept;  // directories.cc
void add_lock_operations(fuse_lowlevel_ops& table) noexcept;       // locks.cc

}  // namespace ros2s::fuse
