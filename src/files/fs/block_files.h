// BlockFiles: a cache (object/blocks.h) as a directory of files. A file is a block, and its name is
// the block's key (block_names.h).
//
// A file is created, written and closed. Its bytes are kept in memory until then. The close puts
// the block: it appears whole, and close() returns the result. Closing a file whose block is there
// succeeds if the block is the same, and is `exists` otherwise. Nothing changes a block afterwards.
// After a write that failed, the close puts nothing and returns that error. Neither does a close
// whose call is stopped: the writer has gone.
//
// Writes may come in any order, but those behind a gap must not overlap. A block has no gaps: the
// close of a file that has one is `invalid`.
//
// Errors also: over_cap (the budget has no room), stale (the block was removed while its file was
// open), no_memory (too much is written and not closed), too_large (a block), unsupported (other
// changes).
//
// Invariants
// - One request looks up, reads or removes up to names_together_max blocks.
// - A block is returned only if it matches the checksum of its key and bytes, as far as it is read
//   whole. A corrupt block is removed, and is not_found.
//
// Used on the core on which it was opened.
#pragma once
#include <map>
#include <memory>
#include <set>
#include <unordered_map>

#include "block_names.h"
#include "operation_slots.h"
#include "readdir_cookies.h"
#include "records.h"
#include "ros2s/fs/dfs.h"
#include "ros2s/fs/file_system.h"
#include "ros2s/object/blocks.h"
#include "ros2s/runtime/slices.h"

namespace ros2s::fs {

class BlockFiles final : public FileSystem {
  public:
    // Of all files that are being written, for a mount's own quota.
    static constexpr uint64_t unfinished_bytes_max = uint64_t{512} << 20;

    // Errors: those of fetch.
    [[nodiscard]] static Task<Result<std::unique_ptr<FileSystem>>> open(
        const Call& call, object::ObjectStore& store, object::ContainerId container,
        Reactor& reactor, DfsOptions options);

    BlockFiles(object::ObjectStore& store, object::ContainerId container, Reactor& reactor,
               DfsOptions options, const InodeRecord& root);

    Task<> close_all() override;

    Task<Result<Attributes>> lookup(const Call&, NodeId parent, std::string_view name) override;
    Task<std::vector<Result<Attributes>>> lookup_many(
        const Call&, NodeId parent, std::span<const std::string_view> names) override;
    Task<Result<>> unlink(const Call&, NodeId parent, std::string_view name) override;
    Task<std::vector<Result<>>> unlink_many(const Call&, NodeId parent,
                                            std::span<const std::string_view> names) override;
    Task<Result<Attributes>> get_attributes(const Call&, NodeId node) override;
    Task<Result<Attributes>> set_attributes(const Call&, NodeId node,
                                            const SetAttributes& changes) override;
    Task<Result<Opened>> open(const Call&, NodeId node, OpenFlags flags) override;
    Task<Result<Opened>> create(const Call&, NodeId parent, std::string_view name, mode_t mode,
                                OpenFlags flags, Owner owner) override;
    Task<Result<>> close(const Call&, FileHandle handle) override;
    Task<Result<std::vector<DirectoryEntry>>> readdir(const Call&, FileHandle handle,
                                                      uint64_t cookie, size_t limit) override;
    Task<Result<FileSystemSpace>> space(const Call&) override;
    void forget(NodeId node, uint64_t count) override;

    Task<Result<uint64_t>> pread(const Call&, FileHandle handle, Window into,
                                 uint64_t offset) override;
    Task<Result<uint64_t>> pwrite(const Call&, FileHandle handle, Window from,
                                  uint64_t offset) override;
    Task<Result<>> fsync(const Call&, FileHandle handle) override;
    Task<Result<uint64_t>> seek(const Call&, FileHandle handle, uint64_t offset,
                                SeekFor what) override;
    Result<PathReport> path_report(FileHandle handle) const override;
    Task<Result<>> read_many(const Call&, NodeId directory, std::span<ReadManyItem> items) override;
    Task<Result<>> blocks(const Call&, BlockWork work, std::span<BlockItem> items,
                          Duration pinned_for) override;

    // ---- what a block cannot do
    Task<Result<Attributes>> mkdir(const Call&, NodeId, std::string_view, mode_t, Owner) override;
    Task<Result<Attributes>> mknod(const Call&, NodeId, std::string_view, mode_t, dev_t,
                                   Owner) override;
    Task<Result<Attributes>> symlink(const Call&, NodeId, std::string_view, std::string_view,
                                     Owner) override;
    Task<Result<Attributes>> link(const Call&, NodeId, NodeId, std::string_view) override;
    Task<Result<>> rmdir(const Call&, NodeId, std::string_view) override;
    Task<Result<>> rename(const Call&, NodeId, std::string_view, NodeId, std::string_view,
                          RenameFlags) override;
    Task<Result<std::string>> readlink(const Call&, NodeId) override;
    Task<Result<std::string>> get_xattr(const Call&, NodeId, std::string_view) override;
    Task<Result<>> set_xattr(const Call&, NodeId, std::string_view, ConstBytes, SetXattr) override;
    Task<Result<>> remove_xattr(const Call&, NodeId, std::string_view) override;
    Task<Result<std::vector<std::string>>> list_xattrs(const Call&, NodeId) override;
    Task<Result<>> punch_hole(const Call&, FileHandle, uint64_t, uint64_t) override;

  private:
    struct Node {
        std::string key;
        uint64_t looked_up = 0;
        uint64_t opened = 0;
        std::set<FileHandle> writers;  // handles with which it is being written
    };
    struct Open {
        NodeId node{};
        std::string key;
        bool is_directory = false;
        OpenFlags flags;
        uint64_t length = 0;                               // of the block
        object::Epoch epoch{};                             // of its head
        bool is_new = false;                               // it is being written
        std::vector<std::byte> written;                    // so far
        std::map<uint64_t, std::vector<std::byte>> ahead;  // by offset: behind a gap
        Quota::Share room;                                 // for both
        uint32_t writes = 0;                               // in progress
        Result<> intact;  // the error of the first write that failed
        std::unique_ptr<ReaddirCookies> cookies;
        uint64_t reads = 0, read_bytes = 0;
    };
    struct FoundHead {
        object::BlockHead head;
        object::Epoch epoch{};
    };
    using Keys = std::vector<Result<std::string>>;

    [[nodiscard]] std::shared_ptr<Open> find(FileHandle handle) const;
    [[nodiscard]] NodeId node_of(std::string_view key) const;
    Node& keep(NodeId node, std::string_view key);
    void drop_unused(NodeId node);
    [[nodiscard]] Attributes root_attributes() const;
    [[nodiscard]] Attributes attributes_of(NodeId node, uint64_t length) const;
    [[nodiscard]] FileHandle add(std::shared_ptr<Open> file);
    // One request. A name's result is its error.
    Task<std::vector<Result<FoundHead>>> find_heads(const Call& call, const Keys& keys);
    Task<Result<FoundHead>> find_head(const Call& call, const std::string& key);
    // Compares the bytes, and keeps them.
    Task<Result<>> write(const Call& call, FileHandle handle, Open& file, ConstBytes from,
                         uint64_t offset);
    [[nodiscard]] Result<> add_room(const Call& call, Quota::Share& room, uint64_t bytes);
    [[nodiscard]] Result<> add_written(const Call& call, Open& file, ConstBytes from,
                                       uint64_t offset);
    [[nodiscard]] Result<> add_ahead(const Call& call, Open& file, ConstBytes from,
                                     uint64_t offset);
    static void join_ahead(Open& file);
    // So far, with what is behind gaps.
    [[nodiscard]] static uint64_t length_of(const Open& file);
    Task<Result<>> put(const Call& call, const std::string& key, ConstBytes bytes,
                       const object::Checksums& checksums);
    Task<> put_blocks(const Call& call, std::span<BlockItem> items);
    static Task<> put_block(BlockFiles& self, const Call& call, BlockItem& item);
    // Sets the status of the items that have none: not_found.
    Task<Result<>> find_blocks(const Call& call, std::span<BlockItem> items,
                               const object::Akey& akey);
    Task<Result<>> pin_blocks(const Call& call, std::span<BlockItem> items, Duration pinned_for);
    Task<Result<>> unpin(const Call& call, std::span<const std::string> keys);
    Task<Result<>> remove_blocks(const Call& call, std::span<BlockItem> items);
    Task<Result<object::Commit>> put_once(const Call& call, const std::string& key,
                                          ConstBytes bytes, const object::Checksums& checksums,
                                          const object::BlockHead& head);
    Task<Result<>> punch(const Call& call, std::span<const std::string> keys);
    Task<Result<>> read_group(const Call& call, std::span<ReadManyItem> items);

    // Of one file. A write that is not held up by others leaves no gap.
    static constexpr size_t pieces_ahead_max = 256;
    // Of the last request to the store, which ends the pins.
    static constexpr Duration close_within = std::chrono::seconds(2);

    object::ObjectStore& store_;
    object::ContainerId container_;
    Reactor& reactor_;
    DfsOptions options_;
    InodeRecord root_;
    OperationSlots slots_;
    SliceTurns summing_;
    // A tenant alone gets half.
    Quota own_unfinished_{{.in_all = 2 * unfinished_bytes_max}};
    Quota& unfinished_;
    ListingMemory own_listings_;
    ListingMemory& listings_;
    const uint64_t secret_;  // node ids of another mount have no meaning in this one
    std::unordered_map<uint64_t, Node> nodes_;
    std::map<FileHandle, std::shared_ptr<Open>> open_;
    uint64_t last_handle_ = 0;
    bool has_pinned_ = false;
};

}  // namespace ros2s::fs
