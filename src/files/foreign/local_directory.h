// LocalDirectory: the class behind open_local_directory(). Every system call that may block runs in
// a job of the blocking pool, or as an operation of the ring. The waiting frame owns everything
// that a job uses. Names and attributes that a local file system has in memory are read on the core
// (docs/decisions/0532).
#pragma once
#include <algorithm>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "local_nodes.h"
#include "open_local_directory.h"
#include "ros2s/fs/stat.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/ring.h"
#include "ros2s/runtime/sync.h"

namespace ros2s::foreign {

using fs::Attributes;
using fs::check_first;
using fs::FileHandle;
using fs::NodeId;
using fs::OpenFlags;
using fs::Owner;

// Status and fingerprint of an O_PATH descriptor. Blocks.
[[nodiscard]] Result<FoundNode> found_by(Descriptor path);
// The same for a descriptor that can be read or written.
[[nodiscard]] Result<FoundNode> found_by_descriptor(int file);

class LocalDirectory final : public fs::FileSystem {
  public:
    // `in_memory`: the file system of the root answers for its attributes without waiting.
    LocalDirectory(std::string path, FoundNode root, bool in_memory, Reactor& reactor,
                   BlockingPool& pool, LocalDirectoryOptions options, uint64_t tenant);
    ~LocalDirectory() override;
    Task<> close_all() override;

    Task<Result<Attributes>> lookup(const Call&, NodeId parent, std::string_view name) override;
    Task<Result<Attributes>> mkdir(const Call&, NodeId parent, std::string_view name, mode_t mode,
                                   Owner owner) override;
    Task<Result<Attributes>> mknod(const Call&, NodeId parent, std::string_view name, mode_t mode,
                                   dev_t device, Owner owner) override;
    Task<Result<Attributes>> symlink(const Call&, NodeId parent, std::string_view name,
                                     std::string_view target, Owner owner) override;
    Task<Result<Attributes>> link(const Call&, NodeId node, NodeId parent,
                                  std::string_view name) override;
    Task<Result<>> unlink(const Call&, NodeId parent, std::string_view name) override;
    Task<Result<>> rmdir(const Call&, NodeId parent, std::string_view name) override;
    Task<Result<>> rename(const Call&, NodeId parent, std::string_view name, NodeId new_parent,
                          std::string_view new_name, RenameFlags flags) override;
    Task<Result<std::string>> readlink(const Call&, NodeId node) override;
    Task<std::vector<Result<Attributes>>> look_up_names(
        const Call&, NodeId parent, std::span<const std::string_view> names) override;
    Task<std::vector<Result<Attributes>>> lookup_many(
        const Call&, NodeId parent, std::span<const std::string_view> names) override;
    Task<std::vector<Result<>>> create_many(const Call&, NodeId parent,
                                            std::span<const std::string_view> names, mode_t mode,
                                            Owner owner) override;
    Task<std::vector<Result<>>> unlink_many(const Call&, NodeId parent,
                                            std::span<const std::string_view> names) override;

    Task<Result<Attributes>> get_attributes(const Call&, NodeId node) override;
    Task<Result<Attributes>> set_attributes(const Call&, NodeId node,
                                            const fs::SetAttributes& changes) override;
    Task<Result<std::string>> get_xattr(const Call&, NodeId node, std::string_view name) override;
    Task<Result<>> set_xattr(const Call&, NodeId node, std::string_view name, ConstBytes value,
                             fs::SetXattr how) override;
    Task<Result<>> remove_xattr(const Call&, NodeId node, std::string_view name) override;
    Task<Result<std::vector<std::string>>> list_xattrs(const Call&, NodeId node) override;

    Task<Result<fs::Opened>> open(const Call&, NodeId node, OpenFlags flags) override;
    Task<Result<fs::Opened>> create(const Call&, NodeId parent, std::string_view name, mode_t mode,
                                    OpenFlags flags, Owner owner) override;
    Task<Result<>> close(const Call&, FileHandle handle) override;
    Task<Result<uint64_t>> pread(const Call&, FileHandle handle, fs::Window into,
                                 uint64_t offset) override;
    Task<Result<uint64_t>> pwrite(const Call&, FileHandle handle, fs::Window from,
                                  uint64_t offset) override;
    Task<Result<>> fsync(const Call&, FileHandle handle) override;
    [[nodiscard]] bool is_deferred() const override { return true; }  // by the kernel's caches
    Task<Result<>> punch_hole(const Call&, FileHandle handle, uint64_t offset,
                              uint64_t length) override;
    Task<Result<>> allocate(const Call&, FileHandle handle, uint64_t offset, uint64_t length,
                            bool keeps_size) override;
    Task<Result<uint64_t>> seek(const Call&, FileHandle handle, uint64_t offset,
                                fs::SeekFor what) override;
    Task<Result<std::vector<fs::DirectoryEntry>>> readdir(const Call&, FileHandle handle,
                                                          uint64_t cookie, size_t limit) override;
    Result<fs::PathReport> path_report(FileHandle handle) const override;
    Task<Result<>> read_many(const Call&, NodeId directory,
                             std::span<fs::ReadManyItem> items) override;
    Task<Result<fs::FileSystemSpace>> space(const Call&) override;
    void forget(NodeId node, uint64_t count) override { nodes_.forget(node, count); }

  private:
    struct Listed {
        std::string name;
        ino_t inode = 0;
        mode_t type = 0;
        uint64_t cookie = 0;
    };
    struct OpenFile {
        OpenFile(Reactor& reactor, LocalNode& of, Descriptor file, OpenFlags open_flags)
            : node(of),
              descriptor(std::move(file)),
              flags(open_flags),
              reading_names(reactor, 1),
              idle(reactor) {}
        LocalNode& node;  // this handle holds one of its uses
        Descriptor descriptor;
        OpenFlags flags;
        uint64_t reads = 0, read_bytes = 0, writes = 0, written_bytes = 0;
        // For directories: the descriptor's position is `listed_to`; `listed` has the names after
        // `served_to`.
        Semaphore reading_names;
        std::deque<Listed> listed;
        uint64_t served_to = 0;
        uint64_t listed_to = 0;
        uint32_t in_flight = 0;
        Event idle;
    };
    class KeptNames;

    // Opens a path below `parent`, in the same file system unless mounts may be entered. Symbolic
    // links are not followed; the last one may be opened itself (O_PATH).
    [[nodiscard]] Result<Descriptor> open_beneath(int parent, const std::string& name,
                                                  uint64_t flags, uint64_t resolve = 0) const;
    // The attributes of an open node of this device are read without waiting.
    [[nodiscard]] bool answers_at_once(dev_t device) const { return in_memory_ == device; }
    // Opens a name in a directory. Blocks.
    [[nodiscard]] Result<FoundNode> find(int parent, const std::string& name) const;
    // Opens a path below a directory of `device`, without blocking. None: use a thread.
    [[nodiscard]] std::optional<Result<FoundNode>> find_in_memory(int parent, dev_t device,
                                                                  const std::string& path) const;
    Task<Result<FoundNode>> find_name(const Call& call, const NodeUse& directory,
                                      const std::string& name);
    [[nodiscard]] Result<bool> give(const FoundNode& found, uid_t uid, gid_t gid) const;
    [[nodiscard]] Result<> give_owner_and_mode(int parent, FoundNode& found, mode_t mode,
                                               Owner owner) const;
    // Gives a new file its owner and mode; removes it if that fails. `found`: the file.
    [[nodiscard]] Result<FoundNode> adopt(int parent, const std::string& name,
                                          Result<FoundNode> found, mode_t mode, Owner owner) const;
    // Makes a file and opens it with `flags`; the result's descriptor is not O_PATH. Errors:
    // exists. Blocks.
    [[nodiscard]] Result<FoundNode> make_file(int parent, const std::string& name, mode_t mode,
                                              OpenFlags flags, Owner owner) const;
    // fallocate(2)
    Task<Result<>> change_range(const Call& call, FileHandle handle, int mode, uint64_t offset,
                                uint64_t length);
    [[nodiscard]] Result<Descriptor> make_nameless(int parent, mode_t mode, OpenFlags flags,
                                                   Owner owner, FoundNode& made) const;
    Task<Result<fs::Opened>> create_nameless(const Call& call, NodeId parent, std::string_view name,
                                             mode_t mode, OpenFlags flags, Owner owner);
    // With the time of creation, which fstat(2) does not return.
    [[nodiscard]] static Result<Attributes> get_now(NodeId id, int path);
    // The requested owner and mode, without anything that gives power over this machine.
    [[nodiscard]] Owner allowed(Owner owner) const;
    [[nodiscard]] mode_t allowed(mode_t type, mode_t mode) const;
    [[nodiscard]] Result<> check_attribute(std::string_view name) const;
    // Access lists, if others are served: the kernel evaluates them for this process only.
    [[nodiscard]] bool is_refused(std::string_view attribute) const;
    // Clears set-id bits of a file whose content changes: the kernel does not if the process is
    // root.
    [[nodiscard]] Result<> drop_set_id(int path) const;
    [[nodiscard]] Result<Descriptor> open_node(int path, mode_t type, OpenFlags flags) const;
    [[nodiscard]] Result<> change(int path, mode_t type, fs::SetAttributes changes) const;
    [[nodiscard]] static Result<std::vector<Listed>> list(int directory);
    // The right to search the directories in a relative path.
    [[nodiscard]] Result<> check_search(int directory, const std::string& path,
                                        const fs::Caller& caller) const;
    void read_one(int directory, const fs::Caller* caller, fs::ReadManyItem& item) const;
    // The result of `function`, which blocks, on a helper thread.
    template <class F>
    Task<std::invoke_result_t<F&>> on_thread(const Call& call, F function) {
        return run_in_turn(options_.turns, pool_, reactor_, call, std::move(function));
    }
    // The results of `function` for each name; a job has many names. On a network file system each
    // may take long, so that a job has fewer there.
    template <class T, class F>
    Task<> on_threads(const Call& call, std::span<const std::string> names,
                      std::span<Result<T>> results, const F& function) {
        const size_t together = in_memory_ ? names_of_a_job : names_of_a_slow_job;
        Nursery nursery(reactor_, fs::names_together_max);
        for (size_t at = 0; at < names.size(); at += together) {
            const size_t count = std::min(together, names.size() - at);
            co_await nursery.spawn(
                job(call, names.subspan(at, count), results.subspan(at, count), function));
        }
        co_await nursery.join();
    }
    template <class T, class F>
    Task<> job(const Call& call, std::span<const std::string> names, std::span<Result<T>> results,
               const F& function) {
        const auto ran = co_await on_thread(call, [&]() -> Result<> {
            for (size_t i = 0; i < names.size(); ++i) results[i] = function(names[i]);
            return {};
        });
        if (ran) co_return;
        for (Result<T>& result : results) result = fail(ran.error());
    }
    static constexpr size_t names_of_a_job = 32, names_of_a_slow_job = 8, names_of_a_path = 32;
    // The results of `change`(descriptor of the directory, name), which blocks, for each name.
    template <class F>
    Task<std::vector<Result<>>> change_many(const Call& call, const Result<NodeUse>& in,
                                            std::span<const std::string_view> names,
                                            const F& change);
    Task<> read_item(const Call& call, int directory, fs::ReadManyItem& item);
    void close_path(Descriptor path);
    Task<> close_removed();
    Task<> drop_unused_nodes();
    // For a file that was made: its maker has checked the room, and what others took meanwhile does
    // not matter.
    Attributes add(FoundNode found, LocalNode& parent, const std::string& name);
    // Errors: busy.
    [[nodiscard]] Result<Attributes> add_found(FoundNode found, LocalNode& parent,
                                               const std::string& name);
    // The node, with a descriptor. Errors: stale (no such node, or its name belongs to another
    // file).
    Task<Result<NodeUse>> use(const Call& call, NodeId id);
    Task<Result<>> open_again(const Call& call, LocalNode& node);
    // The same, for a directory whose names are used. Errors also: not_found (it was removed here).
    Task<Result<NodeUse>> use_above(const Call& call, NodeId id);
    // The same for a directory in which a name becomes a node. Errors: also name_too_long.
    Task<Result<NodeUse>> use_to_add(const Call& call, NodeId id);
    // The root's is 1. At most depth_max + 1.
    [[nodiscard]] size_t depth_of(const LocalNode& node) const;
    // Records that a file was moved to `name`.
    void moved(const struct stat& status, LocalNode& parent, const std::string& name);
    // After a rename that left a whiteout under the name.
    void give_whiteout(int parent, const std::string& name, Owner owner) const;
    [[nodiscard]] Result<fs::Opened> add_handle(LocalNode& node, Descriptor descriptor,
                                                const struct stat& status, OpenFlags flags);
    [[nodiscard]] OpenFile* find_file(FileHandle handle) const;
    Task<Result<size_t>> read_some(const Call& call, OpenFile& file, Bytes into, uint64_t offset);
    Task<Result<size_t>> write_some(const Call& call, OpenFile& file, ConstBytes from,
                                    uint64_t offset);
    Task<Result<>> fill_names(const Call& call, OpenFile& file, uint64_t cookie);

    std::string path_;
    Reactor& reactor_;
    BlockingPool& pool_;
    const LocalDirectoryOptions options_;
    const uint64_t tenant_;                 // for which it was opened
    const std::optional<dev_t> in_memory_;  // the root's device, if its file system answers at once
    Nursery closing_;                  // one close_removed(), while there is something to close
    std::vector<Descriptor> removed_;  // of removed files
    Nursery dropping_;                 // one drop_unused_nodes(), while there are any
    bool is_closed_ = false;
    LocalNodes nodes_;
    // Names that were read ahead for all open directories. Beyond the limit a directory is read
    // again from its position.
    static constexpr size_t kept_names_max = 64 * 1024;
    size_t kept_names_ = 0;
    std::map<uint64_t, std::unique_ptr<OpenFile>> files_;
    uint64_t next_handle_ = 1;  // never reused
};

// A call that reads names of a directory. The remaining names are kept afterwards, if there is
// room.
class [[nodiscard]] LocalDirectory::KeptNames {
  public:
    KeptNames(LocalDirectory& directory, OpenFile& file) : directory_(directory), file_(file) {
        directory_.kept_names_ -= file_.listed.size();
    }
    KeptNames& operator=(KeptNames&&) = delete;
    ~KeptNames() {
        if (directory_.kept_names_ + file_.listed.size() > kept_names_max) file_.listed = {};
        directory_.kept_names_ += file_.listed.size();
    }

  private:
    LocalDirectory& directory_;
    OpenFile& file_;
};

}  // namespace ros2s::foreign
