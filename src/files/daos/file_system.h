// DaosFileSystem: FileSystem over libdfs, in a POSIX container of DAOS (daos_pool.h opens it).
//
// Operations that DAOS lacks are `unsupported`: hard links, FIFOs, sockets, devices, whiteouts, the
// sticky bit, files without a name, allocation, flags. An open file ends with its name (`stale`),
// because libdfs removes its content then. Access times are not kept.
//
// Where libdfs checks and acts in two steps, calls of one process exclude each other: names are
// locked for changes, and a directory for its removal. Changes by other clients of the container
// are not excluded.
//
// An update that was sent before is refused (`stale`), because there are no stored replies.
#pragma once
#include <array>

#include "connection.h"
#include "nodes.h"
#include "ros2s/fs/stat.h"

namespace ros2s::daos {

using fs::Attributes;
using fs::check_first;
using fs::FileHandle;
using fs::NodeId;
using fs::OpenFlags;
using fs::Owner;

// The value of an extended attribute. Errors also: too_large. Blocks.
[[nodiscard]] Result<std::string> read_xattr(const Libdfs& dfs, dfs_t* mount, dfs_obj_t* object,
                                             const std::string& name);

class DaosFileSystem final : public fs::FileSystem {
  public:
    // Blocks. Errors: those of DaosPool::open().
    [[nodiscard]] static Result<std::unique_ptr<DaosFileSystem>> mount(Connection& connection,
                                                                       const std::string& container,
                                                                       uint64_t tenant,
                                                                       Report& report);
    ~DaosFileSystem() override;
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
    Task<std::vector<Result<Attributes>>> lookup_many(
        const Call&, NodeId parent, std::span<const std::string_view> names) override;

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
    Task<Result<>> punch_hole(const Call&, FileHandle handle, uint64_t offset,
                              uint64_t length) override;
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
    struct OpenFile {
        OpenFile(Reactor& reactor, Node& of, OpenFlags open_flags)
            : node(of), flags(open_flags), reading_names(reactor, 1), idle(reactor) {}
        Node& node;  // this handle holds one of its uses
        OpenFlags flags;
        uint64_t reads = 0, read_bytes = 0, writes = 0, written_bytes = 0;
        Semaphore reading_names;
        // For a directory: its names when it was last read from the start. A cookie is the position
        // after a name.
        std::vector<std::string> names{};
        size_t names_bytes = 0;  // memory for them, of this share
        std::shared_ptr<NamesMemory::Share> share{};
        bool has_names = false;
        uint32_t in_flight = 0;
        Event idle;
    };
    // Semaphores that are held for the lifetime of this object.
    class Locks;
    // A name that a call reads or changes.
    struct Entry {
        NodeId directory{};
        std::string name;
    };

    DaosFileSystem(Connection& connection, std::string container, uint64_t tenant);
    // All below blocks, unless it is a task.
    Result<> unmount();
    [[nodiscard]] Result<FoundNode> found(dfs_obj_t* object) const;
    [[nodiscard]] Result<FoundNode> find(const Object& directory, const std::string& name) const;
    [[nodiscard]] Result<FoundNode> make(const Object& directory, const std::string& name,
                                         mode_t mode, const std::string& target, Owner owner) const;
    [[nodiscard]] Result<struct stat> change(const Object& object, fs::SetAttributes changes) const;
    [[nodiscard]] Result<> keep_first_byte(const Object& object, uint64_t size) const;
    [[nodiscard]] Result<> checked_xattr(const Object& object, int rc) const;
    [[nodiscard]] Result<> move(const Object& from, const std::string& name, const FoundNode& moved,
                                const Object& to, const std::string& new_name,
                                const std::optional<FoundNode>& there, RenameFlags flags) const;
    // Finds the node `before` after a move that began at `begun`, and its time of modification.
    Task<Result<FoundNode>> find_moved(const ThreadTurns::Permit& thread, const Object& directory,
                                       const std::string& name, const FoundNode& before,
                                       ChangeMark mark, WallTime begun);
    // `bytes`: the maximum memory for the names; afterwards the memory in use. Errors also:
    // no_memory.
    [[nodiscard]] Result<std::vector<std::string>> list(const Object& directory,
                                                        size_t& bytes) const;
    [[nodiscard]] Result<> read_path(const Object& directory, const std::string& path,
                                     const fs::Caller* caller, fs::ReadManyItem& item) const;

    // Holds a directory whose names are used. Errors: stale, not_directory, not_found (it was
    // removed).
    [[nodiscard]] Result<NodeUse> use_directory(NodeId id);
    // Runs `work(object)` on a helper thread, again if the node was moved meanwhile.
    template <class Work>
    auto with_object(const ThreadTurns::Permit& thread, NodeId id, Work work)
        -> Task<std::invoke_result_t<Work&, const Object&>>;
    template <class Work>
    auto with_object(const Call& call, NodeId id, Work work)
        -> Task<std::invoke_result_t<Work&, const Object&>> {
        ROS2S_CO_TRY_ASSIGN(const ThreadTurns::Permit thread, co_await connection_.enter(call));
        co_return co_await with_object(thread, id, std::move(work));
    }
    // Locks names, in a fixed order.
    Task<Locks> lock_names(std::vector<Entry> places);
    // Locks against the removal of a directory, or for the removal if `removes`.
    Task<> lock_entries(Locks& locks, NodeId directory, bool removes);
    // Locks against changes of the size of a file, or for such a change if `changes`. The change
    // depends on the size, and may read bytes and write them again.
    Task<> lock_size(Locks& locks, NodeId file, bool changes);
    [[nodiscard]] Task<Result<Attributes>> add(const Call& call, NodeId parent,
                                               std::string_view name, mode_t mode,
                                               std::string_view target, Owner owner);
    Task<Result<>> remove(const Call& call, NodeId parent, std::string_view name, bool directory);
    void removed(const FoundNode& found);
    Attributes add_node(FoundNode found, Node& parent, const std::string& name);
    [[nodiscard]] Result<OpenFile*> find_file(FileHandle handle) const;
    [[nodiscard]] Result<OpenFile*> find_open(FileHandle handle, bool writes) const;
    Task<Result<>> write(OpenFile& file, ConstBytes from, uint64_t offset);
    Task<Result<>> fill_names(const Call& call, OpenFile& file, uint64_t cookie);
    void drop_names(OpenFile& file);
    static Task<> lookup_one(DaosFileSystem& self, const Call& call, NodeId parent,
                             std::string_view name, Result<Attributes>& result);
    Task<> read_item(const Call& call, const Object& directory, fs::ReadManyItem& item);

    static constexpr size_t locks_ = 64;
    using LockStripes = std::array<std::unique_ptr<Semaphore>, locks_>;
    static constexpr size_t shares = size_t{1} << 20;  // more than calls at once

    Connection& connection_;
    const Libdfs& dfs_;
    const std::string container_;
    const uint64_t tenant_;  // for which it was opened
    daos_handle_t handle_{};
    dfs_t* mount_ = nullptr;
    Nodes nodes_;
    LockStripes names_;    // one permit each
    LockStripes entries_;  // `shares` each
    LockStripes sizes_;    // `shares` each
    Semaphore moving_directories_;
    std::map<uint64_t, std::unique_ptr<OpenFile>> files_;
    uint64_t next_handle_ = 1;  // never reused
};

class [[nodiscard]] DaosFileSystem::Locks {
  public:
    Locks() = default;
    Locks(Locks&&) noexcept = default;
    Locks& operator=(Locks&&) = delete;
    ~Locks() {
        for (const auto& [semaphore, amount] : held_) semaphore->release(amount);
    }
    void acquired(Semaphore& semaphore, size_t amount) { held_.emplace_back(&semaphore, amount); }

  private:
    std::vector<std::pair<Semaphore*, size_t>> held_;
};

template <class Work>
auto DaosFileSystem::with_object(const ThreadTurns::Permit& thread, NodeId id, Work work)
    -> Task<std::invoke_result_t<Work&, const Object&>> {
    constexpr int attempts_max = 16;
    for (int attempt = 0; attempt < attempts_max; ++attempt) {
        Node* node = nodes_.find(id);
        if (node == nullptr) co_return fail(Code::stale);
        const ObjectRef object = node->object;
        auto result = co_await connection_.run(thread, [&] { return work(*object); });
        if (result || result.error().code != Code::not_found) co_return result;
        // The node has another name now, or a rename of this process is about to record one.
        node = nodes_.find(id);
        if (node == nullptr || node->parent == nullptr) co_return fail(Code::stale);
        std::vector<Entry> places;
        places.push_back({.directory = node->parent->id, .name = node->name});
        {
            const Locks waited = co_await lock_names(std::move(places));
        }
        node = nodes_.find(id);
        if (node == nullptr || node->object == object) co_return fail(Code::stale);
    }
    co_return fail(Code::busy);
}

}  // namespace ros2s::daos
