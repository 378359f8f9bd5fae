// CheckedFileSystem: a FileSystem that checks permission bits and access lists (fs/acl.h) for the
// user of each call (Call::caller), as Linux does: search on directories, read and write at open,
// the sticky bit, who may change modes, lists, owners and times, and the set-group-id bit. A call
// without a caller is the program's own and is not checked.
//
//     host's claim ─ session ─► Call::caller ─► CheckedFileSystem ─► Dfs | LocalDirectory
//
// Owned by the composing code; used on the file system's core. It owns the file system under it.
//
// Errors also: denied, with EACCES (permission bits) or EPERM (only the owner or root).
//
// Invariants
// - Reads and writes are not checked: the rights were checked when the file was opened.
// - A check uses what look-ups and changes returned in the last second, or under a lease that is
//   still held, or else requests the node's
//   attributes. The next check sees a change made through this file system. A change by another DPU
//   or a direct client may take a second.
// - The owner of a new node is its caller. Only root may name another one.
// - walk(), open_path() and readdir_many() are the Namespace's, which call the functions here.
//   Functions that only the file system below has are not used, because they check nothing.
#pragma once
#include <map>
#include <memory>
#include <tuple>

#include "ros2s/access/files_below.h"
#include "ros2s/access/seen_nodes.h"
#include "ros2s/fs/caller.h"
#include "ros2s/runtime/reactor.h"

namespace ros2s::access {

class CheckedFileSystem final : public FilesBelow {
  public:
    // `below`: what the inner one uses; it is released after it.
    CheckedFileSystem(Reactor& reactor, std::unique_ptr<fs::FileSystem> inner,
                      std::shared_ptr<void> below = {})
        : FilesBelow(*inner),
          reactor_(reactor),
          below_(std::move(below)),
          owned_(std::move(inner)) {}

    [[nodiscard]] fs::LeaseSet* leases() override { return inner_.leases(); }
    AttributesTask lookup(const Call&, NodeId parent, std::string_view name) override;
    Task<std::vector<Result<fs::Attributes>>> look_up_names(
        const Call&, NodeId parent, std::span<const std::string_view> names) override;
    AttributesTask mkdir(const Call&, NodeId parent, std::string_view name, mode_t mode,
                         fs::Owner owner) override;
    AttributesTask mknod(const Call&, NodeId parent, std::string_view name, mode_t mode,
                         dev_t device, fs::Owner owner) override;
    AttributesTask symlink(const Call&, NodeId parent, std::string_view name,
                           std::string_view target, fs::Owner owner) override;
    AttributesTask link(const Call&, NodeId node, NodeId parent, std::string_view name) override;
    Task<Result<>> unlink(const Call&, NodeId parent, std::string_view name) override;
    Task<Result<>> rmdir(const Call&, NodeId parent, std::string_view name) override;
    Task<Result<>> rename(const Call&, NodeId parent, std::string_view name, NodeId new_parent,
                          std::string_view new_name, RenameFlags flags) override;
    Task<Result<std::string>> readlink(const Call& call, NodeId node) override {
        return inner_.readlink(call, node);
    }
    Task<std::vector<Result<fs::Attributes>>> lookup_many(
        const Call&, NodeId parent, std::span<const std::string_view> names) override;
    Task<std::vector<Result<>>> create_many(const Call&, NodeId parent,
                                            std::span<const std::string_view> names, mode_t mode,
                                            fs::Owner owner) override;
    Task<std::vector<Result<>>> unlink_many(const Call&, NodeId parent,
                                            std::span<const std::string_view> names) override;
    AttributesTask get_attributes(const Call&, NodeId node) override;
    AttributesTask set_attributes(const Call&, NodeId node,
                                  const fs::SetAttributes& changes) override;
    Task<Result<std::string>> get_xattr(const Call&, NodeId node, std::string_view name) override;
    Task<Result<>> set_xattr(const Call&, NodeId node, std::string_view name, ConstBytes value,
                             fs::SetXattr how) override;
    Task<Result<>> remove_xattr(const Call&, NodeId node, std::string_view name) override;
    Task<Result<std::vector<std::string>>> list_xattrs(const Call& call, NodeId node) override {
        return inner_.list_xattrs(call, node);
    }
    OpenedTask open(const Call&, NodeId node, fs::OpenFlags flags) override;
    OpenedTask create(const Call&, NodeId parent, std::string_view name, mode_t mode,
                      fs::OpenFlags flags, fs::Owner owner) override;
    Task<Result<>> close(const Call&, fs::FileHandle handle) override;
    Task<Result<std::vector<fs::DirectoryEntry>>> readdir(const Call& call, fs::FileHandle handle,
                                                          uint64_t cookie, size_t limit) override {
        return inner_.readdir(call, handle, cookie, limit);
    }
    void forget(NodeId node, uint64_t count) override { inner_.forget(node, count); }
    Task<Result<>> hold(const Call& call, FileHandle handle) override {
        return inner_.hold(call, handle);
    }
    Task<> close_all() override { return inner_.close_all(); }
    Task<Result<>> read_many(const Call&, NodeId directory,
                             std::span<fs::ReadManyItem> items) override;
    Task<Result<>> blocks(const Call&, fs::BlockWork work, std::span<fs::BlockItem> items,
                          Duration pinned_for) override;

  protected:
    Task<Result<>> may_search(const Call&, NodeId directory) override;

  private:
    // An open file by which its user may change the size of the node.
    using Writer = std::tuple<NodeId, uint64_t, uint32_t>;  // node, holder, uid

    // `since`: changes_ before the result was requested.
    template <class T>
    Result<T> seen(const Call& call, uint64_t since, Result<T> result);
    void see(const Call& call, const fs::Attributes& node);
    // What was seen lately, or is leased.
    [[nodiscard]] std::optional<Rights> known(NodeId node);
    void changed_rights(NodeId node, bool may_be_done_later);
    // With the node's access list, if it has one.
    Task<Result<Rights>> rights_of(const Call& call, NodeId node);
    // The rights of these attributes, which were just returned. Errors: EACCES.
    Task<Result<>> require(const Call& call, fs::Attributes node, uint32_t wanted);
    // Errors also: not_directory.
    Task<Result<>> require_in(const Call& call, NodeId directory, uint32_t wanted);
    // The right to add or remove names. `first`: exists or not_found, which Linux returns before a
    // missing right to write.
    Task<Result<>> require_change(const Call& call, NodeId directory, std::string_view name,
                                  Code first);
    // Errors also: exists.
    Task<Result<>> check_absent(const Call& call, NodeId parent, std::string_view name);
    // For a new node in the directory; changes its owner, and its mode as Linux does. Errors also:
    // exists.
    Task<Result<>> check_new(const Call& call, NodeId parent, std::string_view name, mode_t& mode,
                             fs::Owner& owner);
    // The right to remove this name, or to replace it.
    Task<Result<>> check_removal(const Call& call, NodeId parent, std::string_view name);
    Task<Result<>> check_sticky(const Call& call, NodeId parent, std::string_view name);
    Task<Result<>> check_move(const Call& call, NodeId parent, std::string_view name);
    // The owner of what an ordinary caller makes in the directory.
    Task<Result<fs::Owner>> owner_in(const Call& call, NodeId directory, fs::Owner wanted);
    Task<Result<>> check_rename(const Call& call, NodeId parent, std::string_view name,
                                NodeId new_parent, std::string_view new_name, RenameFlags flags);
    Task<Result<>> unless_done(const Call& call, Result<> refusal);
    Task<Result<fs::SetAttributes>> checked_changes(const Call& call, NodeId node,
                                                    fs::SetAttributes changes);
    Task<Result<>> check_xattr(const Call& call, NodeId node, std::string_view name, bool changes);
    // Checks, after the file was opened, that its user may read or write it. If not, it is closed.
    OpenedTask checked(const Call& call, fs::OpenFlags flags, Result<fs::Opened> opened);
    // Errors also: stale (the name has changed meanwhile).
    OpenedTask create_or_open(const Call& call, NodeId parent, std::string_view name, mode_t mode,
                              fs::OpenFlags flags, fs::Owner owner);
    void keep(const Call& call, const fs::Opened& opened, fs::OpenFlags flags);

    Reactor& reactor_;
    std::shared_ptr<void> below_;
    std::unique_ptr<fs::FileSystem> owned_;
    SeenNodes seen_{4096};
    uint64_t changes_ = 0;  // of attributes, begun and ended
    Time unsure_until_{};   // no lease covers rights that were seen before
    std::map<fs::FileHandle, Writer> writers_;
    std::map<Writer, uint32_t> writes_;  // how many of writers_
};

}  // namespace ros2s::access
