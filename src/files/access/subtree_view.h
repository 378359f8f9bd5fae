// SubtreeView: a FileSystem that shows some directories of another one, and nothing else of it.
// A DPU has one for each mount of a host that has rights on subtrees only.
//
//     / ── datasets ── imagenet ── …     shown: the directories on the way, with these names only
//          (shown)     (granted)         granted: the nodes of the file system below
//
// Paths are those of the container, so absolute targets of symbolic links lead where they should,
// or nowhere. The directories on the way are the view's own: they have numbers and attributes of
// the view, and nothing of the real ones can be seen.
//
// Owned by the mount; the file system below outlives it. Used on its core.
//
// Errors also: stale (the node is not in a granted directory), read_only (it may only be read).
//
// Invariants
// - The number of a node gives no right by itself. Before each use, the directories above the node
//   are followed up to a granted one. The file system below must have them: lookup(node, "..").
// - Each step was true at some time in the last second: a look-up of this mount found it
//   (SeenParents), or it is requested now. The same holds for the path of the granted directory, in
//   which symbolic links are not followed. If others move a node out of a subtree, or replace a
//   directory of the path, the view notices it after a second.
// - What is open stays usable. Rights are checked at open.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "ros2s/access/files_below.h"
#include "ros2s/access/seen_nodes.h"
#include "ros2s/access/subtree.h"
#include "ros2s/runtime/reactor.h"

namespace ros2s::access {

class SubtreeView final : public FilesBelow {
  public:
    // A node deeper below its granted directory is `stale`: looking above it takes too long.
    static constexpr int levels_max = 1024;

    // `container`: for people. Errors, with a sentence: not_found (none of the directories exists),
    // not_directory, unsupported (the file system does not keep the parents of nodes).
    [[nodiscard]] static Task<Result<std::unique_ptr<SubtreeView>>> open(
        const Call& call, Reactor& reactor, fs::FileSystem& inner, std::vector<Subtree> subtrees,
        std::string container, Report& report);

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
    Task<Result<std::string>> readlink(const Call&, NodeId node) override;
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
    Task<Result<std::vector<std::string>>> list_xattrs(const Call&, NodeId node) override;
    OpenedTask open(const Call&, NodeId node, fs::OpenFlags flags) override;
    OpenedTask create(const Call&, NodeId parent, std::string_view name, mode_t mode,
                      fs::OpenFlags flags, fs::Owner owner) override;
    Task<Result<>> close(const Call&, FileHandle handle) override;
    Task<Result<std::vector<fs::DirectoryEntry>>> readdir(const Call&, FileHandle handle,
                                                          uint64_t cookie, size_t limit) override;
    void forget(NodeId node, uint64_t count) override;

    // Closes nothing of the file system below, which others use.
    Task<> close_all() override { co_return; }
    Task<Result<>> fsync(const Call& call, FileHandle handle) override;
    Task<Result<>> read_many(const Call&, NodeId directory,
                             std::span<fs::ReadManyItem> items) override;

  protected:
    Task<Result<>> may_search(const Call&, NodeId directory) override;

  private:
    // A granted directory.
    struct Area {
        std::vector<std::string> names;  // its path
        bool writable = false;
        std::optional<size_t> above{};  // of shown_; none: it lies in another area, or is the root
        fs::Attributes root{};          // when it was looked up; node 0: it did not exist
        Time checked{};
    };
    // A directory on the way to one.
    struct Child {
        bool is_area = false;
        size_t index = 0;  // of areas_, or of shown_
    };
    struct Shown {
        NodeId node{};
        size_t above = 0;  // of shown_; the root's is itself
        std::map<std::string, Child, std::less<>> children;
    };
    // An open file or directory of the file system below.
    struct Open {
        NodeId node{};
        bool writes = false;
        bool is_directory = false;
    };
    struct OpenCount {
        uint32_t all = 0, writing = 0;
    };

    SubtreeView(Reactor& reactor, fs::FileSystem& inner) : FilesBelow(inner), reactor_(reactor) {}
    void add(Subtree subtree);
    Task<Result<>> check_areas(const Call& call, std::string container, Report& report);

    [[nodiscard]] const Shown* shown_of(NodeId node) const;
    [[nodiscard]] fs::Attributes attributes_of(const Shown& shown) const;
    // `again`: even if it was looked up in the last second. Errors: not_found, not_directory (also
    // a symbolic link), those of look-ups.
    Task<Result<NodeId>> root_of(const Call& call, Area& area, bool again = false);
    // The granted directory that has the node. Errors: stale.
    Task<Result<Area*>> area_of(const Call& call, NodeId node);
    // Errors: stale, read_only.
    Task<Result<>> require_writable(const Call& call, NodeId node);
    // A node that the view's user may look at: as above, or it is open here.
    Task<Result<>> require_readable(const Call& call, NodeId node);
    AttributesTask look_up_shown(const Call& call, const Shown& shown, std::string_view name);
    Task<std::vector<Result<fs::Attributes>>> look_up_inside(
        const Call& call, NodeId parent, std::span<const std::string_view> names);
    // A look-up that began at `asked` has found the node.
    Task<> see(const Call& call, Time asked, NodeId parent, std::string_view name, NodeId node);
    AttributesTask added(const Call& call, Time asked, NodeId parent, std::string_view name,
                         Result<fs::Attributes> node);
    Result<fs::Opened> keep(Result<fs::Opened> opened, bool writes);

    [[nodiscard]] bool is_listing(FileHandle handle) const {
        return (handle.value & listing_bit) != 0 && listings_.contains(handle);
    }
    // With random bits: the file system below finds no file by such a handle.
    static constexpr uint64_t listing_bit = uint64_t{1} << 63;

    Reactor& reactor_;
    // Not shared with other mounts: a file may have names here and there.
    SeenParents parents_{1024};
    WallTime made_{};
    std::vector<Area> areas_;
    std::vector<Shown> shown_;  // the root first; empty if the root is granted
    std::map<NodeId, size_t> shown_by_node_;
    std::map<FileHandle, size_t> listings_;  // of shown_
    std::map<FileHandle, Open> open_;
    std::map<NodeId, OpenCount> open_nodes_;
};

}  // namespace ros2s::access
