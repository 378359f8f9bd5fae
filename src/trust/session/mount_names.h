// MountNames: the names and handles of a mount, as its session may use them. The host link and the
// control plane both serve their clients through it, so rights, bounds and checks are the same on
// both.
//
// Made for one request. The mount and the report outlive it. Used on the mount's core.
//
// The functions have the meanings and errors of Namespace. Errors also: read_only (the mount is for
// reading), busy (too many handles or nodes), stale (a handle of another mount). A refusal by this
// class has a sentence in the report.
//
// Invariants
// - Once a client gets a node, the node counts as looked up. Once it gets a handle, the handle
//   counts as open.
// - A call that was stopped gives no node and no handle: no client would receive them.
// - A close always closes its handle, even if the call is stopped.
// - Owners, and users and groups in access lists, are the client's numbers outside this class, and
//   the container's numbers inside it (UserMapping). The call's caller has the container's numbers.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "ros2s/fs/acl.h"
#include "ros2s/fs/file_system.h"
#include "ros2s/session/mounts.h"

namespace ros2s::session {

// Errors: invalid, name_too_long, with a sentence about `field`.
[[nodiscard]] Result<> check_name(std::string_view field, std::string_view name, Report& report);
// Errors: invalid, with a sentence, for more than permission bits.
[[nodiscard]] Result<> check_permissions(uint32_t mode, Report& report);
// For mknod. Errors: invalid, with a sentence.
[[nodiscard]] Result<> check_node_mode(uint32_t mode, Report& report);

class MountNames final : public fs::Namespace {
  public:
    MountNames(Mount& mount, Report& report) : mount_(mount), report_(report) {}

    using NodeId = fs::NodeId;
    using AttributesTask = Task<Result<fs::Attributes>>;

    AttributesTask lookup(const Call& call, NodeId parent, std::string_view name) override;
    AttributesTask mkdir(const Call& call, NodeId parent, std::string_view name, mode_t mode,
                         fs::Owner owner) override;
    AttributesTask mknod(const Call& call, NodeId parent, std::string_view name, mode_t mode,
                         dev_t device, fs::Owner owner) override;
    AttributesTask symlink(const Call& call, NodeId parent, std::string_view name,
                           std::string_view target, fs::Owner owner) override;
    AttributesTask link(const Call& call, NodeId node, NodeId parent,
                        std::string_view name) override;
    Task<Result<>> unlink(const Call& call, NodeId parent, std::string_view name) override;
    Task<Result<>> rmdir(const Call& call, NodeId parent, std::string_view name) override;
    Task<Result<>> rename(const Call& call, NodeId parent, std::string_view name, NodeId new_parent,
                          std::string_view new_name, RenameFlags flags) override;
    Task<Result<std::string>> readlink(const Call& call, NodeId node) override {
        return fs().readlink(call, node);
    }
    Task<Result<fs::Walked>> walk(const Call& call, std::string_view path,
                                  fs::LastLink last) override;

    Task<std::vector<Result<fs::Attributes>>> look_up_names(
        const Call& call, NodeId parent, std::span<const std::string_view> names) override;
    Task<std::vector<Result<fs::Attributes>>> lookup_many(
        const Call& call, NodeId parent, std::span<const std::string_view> names) override;
    Task<std::vector<Result<>>> create_many(const Call& call, NodeId parent,
                                            std::span<const std::string_view> names, mode_t mode,
                                            fs::Owner owner) override;
    Task<std::vector<Result<>>> unlink_many(const Call& call, NodeId parent,
                                            std::span<const std::string_view> names) override;

    AttributesTask get_attributes(const Call& call, NodeId node) override;
    AttributesTask set_attributes(const Call& call, NodeId node,
                                  const fs::SetAttributes& changes) override;
    Task<Result<std::string>> get_xattr(const Call& call, NodeId node,
                                        std::string_view name) override;
    Task<Result<>> set_xattr(const Call& call, NodeId node, std::string_view name, ConstBytes value,
                             fs::SetXattr how) override;
    Task<Result<>> remove_xattr(const Call& call, NodeId node, std::string_view name) override;
    Task<Result<std::vector<std::string>>> list_xattrs(const Call& call, NodeId node) override {
        return fs().list_xattrs(call, node);
    }

    Task<Result<fs::Opened>> open(const Call& call, NodeId node, fs::OpenFlags flags) override;
    Task<Result<fs::Opened>> create(const Call& call, NodeId parent, std::string_view name,
                                    mode_t mode, fs::OpenFlags flags, fs::Owner owner) override;
    Task<Result<>> close(const Call& call, fs::FileHandle handle) override;
    Task<Result<std::vector<fs::DirectoryEntry>>> readdir(const Call& call, fs::FileHandle handle,
                                                          uint64_t cookie, size_t limit) override;
    Task<Result<fs::FileSystemSpace>> space(const Call& call) override { return fs().space(call); }
    void forget(NodeId node, uint64_t count) override { mount_.forget(node, count); }

  private:
    [[nodiscard]] fs::FileSystem& fs() const { return mount_.file_system(); }
    [[nodiscard]] Result<> check_may_change();
    [[nodiscard]] Result<> check_may_change(std::string_view name);
    [[nodiscard]] Result<HandleRoom> reserve_handle();
    // An owner that the client names, as the container stores it.
    [[nodiscard]] fs::Owner stored(fs::Owner owner) const;
    [[nodiscard]] Result<fs::Attributes> shown(Result<fs::Attributes> found) const;
    // Gives the node to the client. Errors: cancelled, busy; then the reference is released.
    Result<> give(const Call& call, NodeId node);
    Result<fs::Attributes> give(const Call& call, Result<fs::Attributes> found);
    // Gives the handle to the client, and the node of a new file. Errors as above; then the handle
    // is closed.
    Task<Result<fs::Opened>> give(const Call& call, Result<fs::Opened> opened, HandleRoom room,
                                  bool is_new);

    Mount& mount_;
    Report& report_;
};

}  // namespace ros2s::session
