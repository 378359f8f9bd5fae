// DfsMount: a mounted DFS. It is one class with functions in several files: dfs_mount.cc (format,
// mount, transactions), dfs_names.cc, dfs_rename.cc, dfs_removal.cc, dfs_attributes.cc,
// dfs_xattrs.cc, dfs_files.cc (open, close), dfs_pins.cc (lifetime of nodes), dfs_locks.cc,
// dfs_leases.cc (what may be kept),
// dfs_orphans.cc (nodes without a name), dfs_check.cc, dfs_io.cc, dfs_read_many.cc, dfs_many.cc,
// dfs_exactly_once.cc (repeated calls), dfs_exclusive.cc (exclusive mounts).
//
// An operation on names reads the records that it depends on, and builds one transaction on the
// condition that they have not changed. If a condition fails, it tries again. Conditions are added
// in a fixed order, so the index of a failed one identifies the change.
//
// Errors: a store's not_found for a node's records means that the node is gone. The result is
// `stale`. For names in a directory that is gone, it is not_found, as in Linux.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <unordered_map>

#include "acl.h"
#include "deferred_store.h"
#include "dfs.h"
#include "dfs_transaction.h"
#include "handle_table.h"
#include "listing.h"
#include "lock_wait.h"
#include "node_table.h"
#include "operation_slots.h"
#include "record_chain.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/trace.h"
#include "superblock.h"

namespace ros2s::fs {

using object::Commit;

struct DfsMetrics {
    Counter reads, read_bytes, writes, written_bytes, size_queries, conflicts, orphans_reaped,
        set_ids_cleared, changes_repeated, changes_lost;
};

class DfsMount final : public Dfs {
  public:
    DfsMount(object::ObjectStore& store, object::ContainerId container, Reactor& reactor,
             DfsOptions options, const Superblock& superblock);
    ~DfsMount() override;
    Task<> close_all() override;
    bool is_deferred() const override { return is_deferred_; }
    LeaseSet* leases() override { return takes_leases() ? &leases_ : nullptr; }
    Task<Result<Leaks>> check(const Call& call, bool free) override;
    void visit_metrics(const MetricVisitor& visit) const override;
    // Starts the background work of a mount. Errors: of reaping.
    Task<Result<>> begin(const Call& call);
    // A sentence with the name of the exclusive mount. `shown`: the container.
    static Task<std::string> who_has(const Call& call, object::ObjectStore& store,
                                     object::ContainerId container, std::string shown);
    // DfsOptions::exclusive_as. Before begin().
    Task<Result<>> take_container(const Call& call, Report& report);

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
    Task<Result<bool>> was_done(const Call&) override;

    Task<std::vector<Result<Attributes>>> lookup_many(
        const Call&, NodeId parent, std::span<const std::string_view> names) override;
    Task<std::vector<Result<>>> create_many(const Call&, NodeId parent,
                                            std::span<const std::string_view> names, mode_t mode,
                                            Owner owner) override;
    Task<std::vector<Result<>>> unlink_many(const Call&, NodeId parent,
                                            std::span<const std::string_view> names) override;

    Task<Result<Attributes>> get_attributes(const Call&, NodeId node) override;
    Task<Result<Attributes>> set_attributes(const Call&, NodeId node,
                                            const SetAttributes& changes) override;
    Task<Result<std::string>> get_xattr(const Call&, NodeId node, std::string_view name) override;
    Task<Result<>> set_xattr(const Call&, NodeId node, std::string_view name, ConstBytes value,
                             SetXattr how) override;
    Task<Result<>> remove_xattr(const Call&, NodeId node, std::string_view name) override;
    Task<Result<std::vector<std::string>>> list_xattrs(const Call&, NodeId node) override;

    Task<Result<Opened>> open(const Call&, NodeId node, OpenFlags flags) override;
    Task<Result<Opened>> create(const Call&, NodeId parent, std::string_view name, mode_t mode,
                                OpenFlags flags, Owner owner) override;
    Task<Result<>> close(const Call&, FileHandle handle) override;
    Task<Result<>> hold(const Call&, FileHandle handle) override;
    Task<Result<uint64_t>> pread(const Call&, FileHandle handle, Window into,
                                 uint64_t offset) override;
    std::optional<LocatedRead> locate(FileHandle handle, uint64_t offset, uint64_t length,
                                      FetchItem& item) override;
    bool finish_located(FileHandle handle, const FetchItem& item) override;
    Task<Result<uint64_t>> pwrite(const Call&, FileHandle handle, Window from,
                                  uint64_t offset) override;
    Task<Result<>> fsync(const Call&, FileHandle handle) override;
    Task<Result<>> punch_hole(const Call&, FileHandle handle, uint64_t offset,
                              uint64_t length) override;
    Task<Result<>> allocate(const Call&, FileHandle handle, uint64_t offset, uint64_t length,
                            bool keeps_size) override;
    Task<Result<uint64_t>> seek(const Call&, FileHandle handle, uint64_t offset,
                                SeekFor what) override;
    Task<Result<std::vector<DirectoryEntry>>> readdir(const Call&, FileHandle handle,
                                                      uint64_t cookie, size_t limit) override;
    Task<Result<std::optional<object::Lock>>> lock(const Call& call, FileHandle handle,
                                                   const object::Lock& lock, LockHow how) override;
    Result<PathReport> path_report(FileHandle handle) const override;
    Task<Result<>> read_many(const Call&, NodeId directory, std::span<ReadManyItem> items) override;
    Task<Result<FileSystemSpace>> space(const Call&) override;
    void forget(NodeId, uint64_t) override {}  // nothing is kept per lookup

  protected:
    // In one request, up to the limit of a chain.
    Task<std::vector<Result<Attributes>>> look_up_names(
        const Call& call, NodeId parent, std::span<const std::string_view> names) override;

  private:
    // The number of times that an operation starts again after conflicts.
    static constexpr int attempts_max = 256;
    // The number of times that holes are read again because the file has changed. After that, only
    // a change of its size counts.
    static constexpr int rereads_max = 8;

    struct Inode {
        InodeRecord record;
        Epoch epoch{};
    };
    struct Entry {
        EntryRecord record;
        Epoch epoch{};  // 0: there is no such name
        [[nodiscard]] bool exists() const { return epoch.value != 0; }
        [[nodiscard]] NodeId node() const { return {record.node}; }
    };
    struct ParentAndEntry {
        Inode parent;
        Entry entry;
    };
    struct InodeAndContents {
        Inode inode;
        QueryReply contents;
    };
    // A name, and the node that has it. Without the name, the node is `stale`.
    struct EntryAndNode {
        ParentAndEntry named;
        Result<InodeAndContents> node;
    };
    // A node to be added under a name.
    struct NewNode {
        std::string_view name;
        mode_t mode = 0;
        dev_t device = 0;
        std::string_view target;
        Owner owner;
        bool opens = false;     // pinned by the transaction that adds it, here and in the store
        bool nameless = false;  // an orphan from the beginning
        bool linkable = false;
        std::string access_acl, default_acl;  // that it inherits; empty: none
        NodeState* state = nullptr;           // afterwards, if it is pinned
        Entry existing;                       // afterwards, if the error is `exists`
    };
    // The removal of a name of a file or empty directory, and its effect on the node.
    struct Removal {
        NodeId node;
        Inode inode;
        bool last_name = false;  // it becomes an orphan
        InodeRecord left;        // the new record
        OrphanRecord orphan;
        uint64_t bytes = 0;             // of its contents
        size_t no_dkeys_condition = 0;  // directories: its index
    };

    // ---- dfs_mount.cc
    // Errors also: name_taken. If the name was the mount's own, every later update also fails with
    // it.
    Task<Result<Commit>> commit(const Call& call, OperationSlots::HeldSlot& slot);
    // The same for the reaper, which commit() calls if space is short.
    Task<Result<Commit>> commit_reaped(const Call& call, OperationSlots::HeldSlot& slot);
    // Of a failed update: repeats it if space was short and was made. Not inline: else its frame
    // becomes a part of the frame of each write, which is then too large to be pooled.
    [[gnu::noinline]] Task<Result<Commit>> failed(const Call& call, OperationSlots::HeldSlot& slot,
                                                  Result<Commit> done);
    Result<Commit> committed(OperationSlots::HeldSlot& slot, const Result<Commit>& done);
    // Commits the transaction that decides a call, under the call's name if it has one, so that the
    // store can answer a repetition at any mount. `part` distinguishes the transactions of a call.
    // The result of a `replayed` transaction comes from an earlier execution. Errors also:
    // too_large (a part that has no name).
    Task<Result<Commit>> commit_named(const Call& call, OperationSlots::HeldSlot& slot,
                                      uint32_t part = 0);
    // The result of an earlier execution of a repeated call. Empty: it was not done.
    Task<Result<std::optional<Commit>>> done_before(const Call& call, uint32_t part = 0);
    // Turns a failure into success if its only cause is that an earlier execution has done the
    // call.
    Task<Result<>> unless_done(const Call& call, Result<> outcome);
    // The same for calls that remove a name.
    Task<Result<>> unless_removed(const Call& call, Result<> outcome);
    // Waits and returns true if the error is a conflict: try again.
    Task<bool> conflicted(const Error& error, int attempt);
    Task<Result<NodeId>> next_node(const Call& call);
    Task<Result<>> lease_nodes(const Call& call);
    [[nodiscard]] int64_t now_ns() const { return to_ns(reactor_.wall_time()); }

    // ---- dfs_names.cc
    // Errors: not_found (the directory is gone), not_directory.
    Task<Result<ParentAndEntry>> find(const Call& call, NodeId parent, std::string_view name);
    // The same, and the node. If it was removed between the two reads, it is `stale`.
    Task<Result<EntryAndNode>> find_node(const Call& call, NodeId parent, std::string_view name);
    // Keeps the record of a directory that a look-up has read. A creation in it then reads nothing:
    // the conditions of its transaction check that the record has not changed and that the name is
    // free.
    void remember(NodeId directory, const Inode& inode);
    [[nodiscard]] static Result<ParentAndEntry> named_of(const RecordChain& chain,
                                                         const ChainName& name);
    [[nodiscard]] static Result<EntryAndNode> found_in(const RecordChain& chain,
                                                       const ChainName& name,
                                                       const ChainWhole& node);
    // The nodes of names that were fetched, each in the node of the one before. The last result is
    // `stale` if its node was removed meanwhile.
    [[nodiscard]] std::vector<Result<Attributes>> nodes_in(const RecordChain& chain, NodeId parent,
                                                           std::span<const ChainName> names,
                                                           const ChainWhole& last);
    [[nodiscard]] InodeRecord new_inode(NodeId directory, const InodeRecord& parent, mode_t mode,
                                        Owner owner) const;
    // Errors also: no_attribute, stale (the directory's record is older than the store's).
    Task<Result<>> inherit_acl(const Call& call, NodeId directory, InodeRecord& record,
                               NewNode& wanted);
    // Puts a new node under a name. Errors also: exists, condition_failed never.
    Task<Result<Attributes>> add_node(const Call& call, NodeId parent, NewNode& wanted);
    Task<Result<Attributes>> add_new_node(const Call& call, NodeId parent, NewNode& wanted);
    // Commits on the condition that the parent's record has this epoch, and the name is free.
    Task<Result<Commit>> commit_new_node(const Call& call, NodeId parent, Epoch epoch, NodeId node,
                                         const InodeRecord& record, NewNode& wanted);
    // The node that an earlier execution of this call added under a name. Errors: stale if the
    // name has changed since.
    Task<Result<Attributes>> node_added_at(const Call& call, NodeId parent, std::string_view name,
                                           Epoch epoch);
    Task<Result<Attributes>> add_link(const Call& call, NodeId node, NodeId parent,
                                      std::string_view name);

    // ---- dfs_removal.cc
    // add_removal adds the effects of losing one name on the node, but not the removal of the name
    // itself. finish_removal follows if the transaction was committed.
    [[nodiscard]] Removal plan_removal(NodeId parent, const Entry& entry,
                                       const InodeAndContents& node) const;
    static void add_removal(OperationSlots::HeldSlot& slot, Removal& removal);
    Task<> finish_removal(const Call& call, const Removal& removal);
    Task<Result<>> remove_name(const Call& call, NodeId parent, std::string_view name,
                               bool directory);
    // Punches chunks from the end until at most one transaction's worth remains from `first` on.
    Task<Result<>> punch_chunks(const Call& call, NodeId node, uint64_t first);

    // ---- dfs_pins.cc
    // The node's state, once no removal of it is in progress. Give it back with unpin().
    Task<std::reference_wrapper<NodeState>> pin(NodeId node);
    // Releases a pin. With the last one the store's pin ends, and an orphan is removed if it is
    // due.
    Task<> unpin(NodeState& state);
    static Task<> unpin_later(DfsMount& self, NodeState& state);
    // Pins the node in the store, so that no other mount punches it. Errors: stale (it is gone).
    Task<Result<InodeAndContents>> hold(const Call& call, NodeState& state);
    // Called after a read of the contents: the data is valid if the file still exists, even if the
    // store has lost pins. Errors: stale.
    Task<Result<>> check_held(const Call& call, NodeState& state);
    // An update of an open file's contents; its first condition is `pinned`. Errors also: stale
    // (the file is gone).
    Task<Result<Commit>> commit_held(const Call& call, OperationSlots::HeldSlot& slot,
                                     NodeState& state, uint32_t part = 0);
    static Task<> hold_again(DfsMount& self);

    // ---- dfs_leases.cc
    [[nodiscard]] bool takes_leases() const {
        return options_.takes_leases && store_.features().leases;
    }
    [[nodiscard]] bool wants_update_leases(const Call& call) const {
        return call.leases != nullptr && takes_leases() && store_.features().update_leases;
    }
    static Task<Result<>> refuse(Code code) { co_return fail(code); }
    [[gnu::noinline]] Task<Result<>> fetch_leased(const Call& call, RecordChain& chain);
    // It came with a reply to a request that was sent in the era. 0: none did.
    void take_lease(const Call& call, uint64_t era, const Leased& lease);
    // The lease of a directory that is held before a change of its names; no number: none.
    [[nodiscard]] Leased lease_of(const Call& call, NodeId directory) const;
    // The transaction has changed a name of the directory (Leased::changed).
    void note_changed(const Call& call, Leased before, const Result<Commit>& done);
    class StoreLeases;
    // Tells the store that this holder ends.
    Task<> leave_store();
    static Task<> listen(DfsMount& self);

    // ---- dfs_exclusive.cc
    [[nodiscard]] bool is_exclusive() const { return !options_.exclusive_as.empty(); }
    Task<Result<std::optional<object::Lock>>> ask_container(const Call& call, object::LockMode mode,
                                                            object::LockRequest::How how);
    // On the condition that the container is still locked. Errors also: io (it was lost).
    [[gnu::noinline]] Task<Result<Commit>> commit_exclusive(const Call& call,
                                                            OperationSlots::HeldSlot& slot);
    // In a new era. Errors: io (another one may have used it meanwhile; for ever).
    Task<Result<>> claim_container(const Call& call);
    Task<> release_container();

    // ---- dfs_locks.cc
    using LockResult = Result<std::optional<object::Lock>>;
    // Without waiting. Errors also: busy (the store awaits other mounts).
    Task<LockResult> lock_once(const Call& call, FileHandle handle, const object::Lock& lock,
                               LockHow how);
    Task<LockResult> lock_file(const Call& call, OpenFile& file, const object::Lock& lock,
                               LockHow how);
    // Of this mount.
    Task<LockResult> set_lock(const Call& call, NodeState& state, const object::Lock& lock,
                              bool waits = false);
    Task<LockResult> ask_lock(const Call& call, NodeId node, const object::Lock& lock,
                              object::LockRequest::How how, bool waits = false);
    // These are called in the turn of the node's locks.
    Task<Result<>> restore_locks(const Call& call, NodeState& state);
    Task<Result<>> lose_locks(const Call& call, NodeState& state, LockOwner owner);
    void restore_later(NodeState& state);
    static Task<> restore_in_time(DfsMount& self, NodeState& state);
    Task<> release_locks(OpenFile& file);
    // Two that are called where files are read and written. Inlined, they would make those frames
    // larger than the pool's (frame_pool.h).
    // In a new era. A lock that the store does not grant again is lost.
    [[gnu::noinline]] Task<Result<>> claim_locks(const Call& call, NodeState& state);
    // For a handle through which locks were set. Errors: io (one is lost).
    [[gnu::noinline]] Task<Result<>> check_locks(const Call& call, const OpenFile& file);
    [[nodiscard]] static bool has_lost_lock(const OpenFile& file);

    // ---- dfs_orphans.cc
    struct Orphan {
        NodeId node{};
        uint64_t bytes = 0;
        bool is_listed = false;  // not one that this mount removed
    };
    // The time until which a node that lost its name then is spared.
    [[nodiscard]] Time spared_until(const InodeRecord& record) const;
    // Removes it at that time, unless a call or an open file here uses it. Then its last unpin()
    // does this.
    void add_orphan(Orphan orphan, Time until);
    // Removes those that are spared until `until` or less. Errors: of the store. The orphans that
    // it has not removed are left to the next sweep.
    Task<Result<>> reap_until(const Call& call, Time until);
    Task<Result<>> reap(const Call& call, std::span<const NodeId> orphans);
    // The caller is the only one, and nobody here uses the nodes.
    Task<Result<>> punch_orphans(const Call& call, std::span<const NodeId> nodes);
    Task<Result<>> punch_together(const Call& call, std::vector<NodeId> nodes);
    Task<Result<Commit>> punch_at_once(const Call& call, std::span<const NodeId> nodes);
    Task<Result<>> punch_in_steps(const Call& call, NodeId node);
    // Reads the container's list of orphans, and removes those that are due, or all.
    enum class Which : uint8_t { due, all };
    Task<Result<>> reap_listed(const Call& call, Which which);
    Task<Result<std::vector<Time>>> times_of(const Call& call, std::span<const NodeId> orphans);
    // Called if space is short: removes all orphans. True: some were removed.
    Task<bool> make_room(const Call& call);
    Task<bool> is_space_short(const Call& call);
    // The epoch of the last orphan's record; 0: there is none.
    Task<Result<uint64_t>> last_orphan(const Call& call);
    static Task<> reap_after_grace(DfsMount& self);
    void reap_now();
    static Task<> reap_what_is_due(DfsMount& self);
    void reap_later();
    static Task<> reap_in_time(DfsMount& self);
    void sweep_later();
    static Task<> sweep(DfsMount& self);

    // ---- dfs_check.cc
    // The number of keys in the directory that are not entries. `free`: removes them.
    Task<Result<uint64_t>> check_entries(const Call& call, NodeId directory, bool free);
    Task<Result<bool>> has_keys(const Call& call, NodeId node);
    Task<Result<>> free_leak(const Call& call, NodeId node);

    // ---- dfs_rename.cc
    struct Renaming;
    struct Moved;
    // Errors also: condition_failed after a conflict.
    Task<Result<>> rename_once(const Call& call, Renaming& renaming);
    Task<Result<>> rename_replace(const Call& call, Renaming& renaming);
    Task<Result<>> rename_exchange(const Call& call, Renaming& renaming);
    // Errors: loop if `moved` is `new_parent` or above it.
    Task<Result<>> check_no_loop(const Call& call, NodeId moved, NodeId new_parent);
    Task<Result<>> plan_moves(const Call& call, Renaming& renaming);
    Task<Result<>> find_both(const Call& call, Renaming& renaming);
    static void add_moves(OperationSlots::HeldSlot& slot, Renaming& renaming);

    // ---- dfs_attributes.cc
    Task<Result<Inode>> fetch_inode(const Call& call, NodeId node);
    // The same, with the facts about its contents.
    Task<Result<InodeAndContents>> fetch_whole(const Call& call, NodeId node);
    [[nodiscard]] static Result<InodeAndContents> whole_of(const RecordChain& chain,
                                                           const ChainWhole& node);
    // The same, also for a directory that was removed while it is open here; it then has no link.
    Task<Result<InodeAndContents>> fetch_known(const Call& call, NodeId node);
    // With leases, if the caller keeps what is returned.
    Task<Result<>> fetch(const Call& call, RecordChain& chain) {
        if (call.leases != nullptr && takes_leases()) return fetch_leased(call, chain);
        return store_.fetch_chain(call, container_, holder_, chain.items(), chain.links());
    }
    Task<Result<QueryReply>> query_contents(const Call& call, NodeId node, mode_t mode);
    // Of this container.
    Task<Result<std::vector<object::ListEntry>>> next_page(const Call& call, Listing& listing) {
        return fs::next_page(call, store_, container_, listing);
    }
    // Each is a part of a named call.
    Task<Result<>> set_size(const Call& call, NodeId node, uint64_t size, uint32_t part);
    // Returns the attributes after the change; nothing if it was done before, or the node is gone.
    Task<Result<std::optional<Attributes>>> change_inode(const Call& call, NodeId node,
                                                         const SetAttributes& changes,
                                                         uint32_t part);
    // Adds to a transaction that programs must know this feature from then on. `superblock` must
    // exist until it is committed.
    Task<Result<>> require_feature(const Call& call, OperationSlots::HeldSlot& slot,
                                   uint32_t feature, FoundSuperblock& superblock);
    // And file capabilities. Without `which`: those that a write by the call's user clears.
    Task<Result<>> clear_set_ids(const Call& call, NodeState& state, std::optional<SetIds> which);
    Task<Result<>> clear_set_ids_of(const Call& call, NodeId node, std::optional<SetIds> which);
    // Marks `record` as changed now, given the current state of the contents.
    void stamp_changed(InodeRecord& record, const QueryReply& contents) const;

    // ---- dfs_xattrs.cc
    // Limits for one node. Its attributes are removed with it in one transaction, which the
    // engine's memory must hold: at most 16 MiB. Their names fit into xattr_list_bytes_max.
    static constexpr size_t xattrs_max = 256;
    Task<Result<std::vector<std::string>>> list_names(const Call& call, NodeId node);
    Task<Result<>> check_room_for_xattr(const Call& call, NodeId node, const std::string& name);
    // `condition` on the attribute: absent fails with exists, exists with no_attribute.
    Task<Result<>> change_xattr(const Call& call, NodeId node,
                                std::optional<Condition::Kind> condition,
                                const Operation& operation);
    // Errors also: no_attribute.
    Task<Result<Acl>> fetch_acl(const Call& call, NodeId node, std::string_view name);
    // Without `list`, it is removed.
    Task<Result<>> change_acl(const Call& call, NodeId node, std::string_view name,
                              std::optional<Acl> list, SetXattr how);
    // The right of the call's caller. Errors: EACCES.
    Task<Result<>> check_access(const Call& call, NodeId node, const InodeRecord& record,
                                uint32_t wanted);

    // ---- dfs_files.cc
    // The names after `cookie`, which the handle gave out; 0: the first ones.
    Task<Result<std::vector<DirectoryEntry>>> read_names(const Call& call, OpenFile& file,
                                                         uint64_t cookie, size_t limit);
    Task<Result<Opened>> create_nameless(const Call& call, NodeId parent, mode_t mode,
                                         OpenFlags flags, Owner owner);
    Task<Result<Opened>> open_pinned(const Call& call, NodeState& state, OpenFlags flags);
    Result<Opened> open_leased(const Call& call, NodeState& state, OpenFlags flags);
    // Makes all that was acknowledged durable. Errors also: io (some of it is lost).
    Task<Result<>> sync(const Call& call);
    // Once for each file that was open at a loss: io.
    [[nodiscard]] Result<> tell_loss(OpenFile& file);
    void log_loss(const DeferredStore::Loss& loss);
    // Once, until it is known again.
    void log_unsure(const Error& error);
    // The handle gets the node's pin. Errors: no_memory (too many handles).
    Result<Opened> add_handle(const Call& call, NodeState& state, OpenFlags flags,
                              const Attributes& attributes);

    // ---- dfs_io.cc
    // With `crc`: of bytes that are forwarded; it is continued.
    Task<Result<uint64_t>> read_chunks(const Call& call, OpenFile& file, Window into,
                                       uint64_t offset, uint32_t* crc);
    // Items that are read once more are replaced.
    Task<Result<uint64_t>> finish_short_read(const Call& call, OpenFile& file, Window into,
                                             uint64_t offset, std::span<FetchItem> items);
    // `checksums`: of the call, if it has them.
    Task<Result<>> write_chunk(const Call& call, NodeState& state, Window from, uint64_t offset,
                               object::Checksums* checksums);
    Task<Result<uint64_t>> write_chunks(const Call& call, NodeState& state, Window from,
                                        uint64_t offset, std::span<const uint32_t> checksums);
    // A change of a range of an open file, in steps.
    struct RangeChange {
        enum class Kind : uint8_t { punch, allocate, allocate_inside } kind{};
        uint64_t offset = 0, length = 0;
    };
    Task<Result<>> change_range(const Call& call, FileHandle handle, RangeChange change);
    Task<Result<>> punch_range(const Call& call, NodeState& state, uint64_t offset,
                               uint64_t length);
    Task<Result<>> allocate_range(const Call& call, NodeState& state, RangeChange change);
    // Writes what the file has at `offset` again, in one chunk; `piece` is memory for it. With
    // `last`, the file's last chunk, the size must not change. Errors also: condition_failed.
    Task<Result<>> allocate_piece(const Call& call, NodeState& state, uint64_t offset, Bytes piece,
                                  std::optional<Dkey> last);
    // Errors also: condition_failed (`last` is not there).
    Task<Result<>> punch_whole_chunks(const Call& call, NodeState& state, uint64_t begin,
                                      uint64_t end, Dkey last);
    Task<Result<uint64_t>> append_chunks(const Call& call, NodeState& state, Window from);
    [[nodiscard]] FetchItem data_item(NodeId node, Window into, uint64_t offset) const;
    // A chunk that does not exist is a hole, not an error.
    [[nodiscard]] Result<> read_status(const FetchItem& item) const;
    [[nodiscard]] Operation data_operation(NodeId node, Window from, uint64_t offset) const;
    // The part of [offset, offset + length) that is in offset's chunk.
    [[nodiscard]] uint64_t within_chunk(uint64_t offset, uint64_t length) const {
        return std::min(length, chunk_bytes_ - offset % chunk_bytes_);
    }

    // ---- dfs_many.cc
    struct ManyNames;
    struct ManyRemovals;
    static Task<> look_up_group(DfsMount& self, const Call& call, NodeId parent,
                                std::span<const std::string_view> names,
                                std::span<Result<Attributes>> results);
    // `results`: of the names from `begin` on.
    static Task<> unlink_group(DfsMount& self, const Call& call, NodeId parent,
                               std::span<const std::string_view> all, size_t begin,
                               std::span<Result<>> results);
    // Does all names in one transaction. False: this is not possible, and nothing was done.
    Task<Result<bool>> create_together(const Call& call, NodeId parent,
                                       std::span<const std::string_view> names, mode_t mode,
                                       Owner owner);
    Task<Result<bool>> unlink_together(const Call& call, NodeId parent,
                                       std::span<const std::string_view> names, uint32_t part);

    // ---- dfs_read_many.cc
    struct ManyFile;
    struct ManyFetch;
    // The caller passes what it reads on, with its checksums.
    [[nodiscard]] bool is_forwarded(const Call& call) const;
    Task<Result<>> read_group(const Call& call, NodeId directory, std::span<ReadManyItem> items);
    Task<Result<>> resolve_many(const Call& call, std::span<ManyFile> files);
    void take_contents(ManyFile& file, const QueryReply& contents) const;
    Task<> query_many(const Call& call, std::span<ManyFile* const> files);
    // Repeats reads until the bytes of each file, also in holes, are from one moment.
    Task<Result<>> fetch_many(const Call& call, std::span<ManyFile> files);
    Task<Result<>> fetch_contents(const Call& call, std::span<ManyFile* const> files);
    Task<Result<>> flush_many(const Call& call, ManyFetch& batch);

    const bool is_deferred_;
    OperationSlots slots_;
    uint64_t loss_told_ = 0;  // DeferredStore::losses() that a file's users know of
    bool is_unsure_told_ = false;
    // Empty: nobody's changes of the container are deferred.
    std::optional<DeferredStore> deferred_;
    object::ObjectStore& store_;
    object::ContainerId container_;
    Reactor& reactor_;
    DfsOptions options_;
    uint64_t chunk_bytes_;
    const uint32_t punch_chunks_max_;  // of one transaction
    NodeTable nodes_;
    ListingMemory own_listings_;
    ListingMemory& listings_;
    HandleTable handles_;
    Semaphore node_lease_;         // one caller at a time leases ids
    Semaphore directory_renames_;  // reduces conflicts on the container-wide key
    // Also files that lose their name now: the store has forgotten who had them pinned.
    [[nodiscard]] bool spares_all() const { return leaves_orphans() || spared_upto_ == UINT64_MAX; }
    [[nodiscard]] bool leaves_orphans() const {
        return options_.leaves_orphans != nullptr && *options_.leaves_orphans;
    }
    // Until this time clients of an earlier mount may have orphans open that this mount does not
    // have open.
    Time grace_until_{};
    uint64_t spared_upto_ = 0;  // till then orphans up to this epoch are not removed
    // Another client's request was done under a name of this mount: no more updates.
    bool stopped_ = false;
    bool is_container_locked_ = false;
    Semaphore claims_container_{reactor_, 1};
    const object::Holder holder_;
    bool is_holder_ = false;  // the store knows it
    LeaseSet leases_;
    static constexpr size_t orphans_max = size_t{1} << 16;
    std::multimap<Time, Orphan> orphans_;  // by spared_until()
    uint64_t orphan_bytes_ = 0;
    Semaphore reaper_;        // one caller at a time reaps, and has the reserved slot
    bool reaps_ = false;      // reap_in_time() runs
    bool reaps_now_ = false;  // reap_what_is_due() runs
    Semaphore room_maker_;    // one caller at a time is in make_room()
    Time listed_for_room_{};  // the last time
    bool sweeps_ = false;     // sweep() runs
    bool sweep_due_ = false;  // sweep() must run once more
    Time unpin_until_ = Time::max();
    StopSource closing_;
    Nursery reaping_;
    LockWaits lock_waits_{reactor_};
    Nursery unpinning_;  // of nodes whose last handle is closed
    static constexpr size_t directories_max = 4096;
    std::unordered_map<uint64_t, Inode> directories_;  // see remember()
    uint64_t next_node_ = 0;
    uint64_t next_node_end_ = 0;
    DfsMetrics metrics_;
};

}  // namespace ros2s::fs
