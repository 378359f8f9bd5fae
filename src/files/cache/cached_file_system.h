// CachedFileSystem: a FileSystem over one with leases (fs/leases.h). It keeps what replies say of
// nodes and names, and answers from it while the leases that came with the replies are held.
//
//     node ──────────────► attributes, the target of a symbolic link      under the node's lease
//     (directory, name) ─► a node, or that there is none                  under the directory's
//
// A look-up uses both. A file or directory whose attributes are kept is opened for reading without
// a request; the first call that needs it below opens it there.
//
// Owned by the composing code; the reactor and the file system below outlive it. Used on that one's
// core. close_all() before destruction.
//
// Invariants
// - A fact is kept only if its reply came with a lease that is held when the reply is there, and is
//   used only while that lease is held. Call::leases gets the leases of what is returned.
// - Its own changes do not end its leases. Each change drops what it touches, and no reply is kept
//   that was under way when the change began or ended (own_changes.h).
// - A directory that this client has made, or listed to the end under one lease, is complete:
//   a name that is not kept does not exist. It stops being so with a change of which the outcome is
//   not kept: of many names, of two at once, or when a name makes room for others.
// - A complete directory is listed without a request. A handle shows the names that there were when
//   it began at the first one.
// - With a caller, a name is used only if the kept mode of the directory permits the caller to
//   search it, and a file is opened without a request only if its mode permits to read it.
//   Otherwise, and for access lists, the file system below is asked. Users must have the same
//   numbers below as here.
// - References (forget()) are exact: below has one for each of the callers', less those of answers
//   from the cache, and one for each node that is kept by name.
// - A file that is open only here is opened below before others, or its own changes, may take its
//   name or the right to read it.
#pragma once
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "ros2s/base/metrics.h"
#include "ros2s/cache/listed_names.h"
#include "ros2s/cache/own_changes.h"
#include "ros2s/cache/recent.h"
#include "ros2s/fs/caller.h"
#include "ros2s/fs/file_system.h"
#include "ros2s/runtime/sync.h"

namespace ros2s::cache {

class CachedFileSystem final : public fs::FileSystem, private fs::LeaseObserver {
  public:
    struct Options {
        size_t nodes_max = size_t{1} << 17;
        size_t names_max = size_t{1} << 17;
        // The user of calls that have no caller, if the file system below checks the rights of one.
        std::optional<fs::UserClaim> user{};
        // Below, user 0 acts as nobody, and nobody is in group 0.
        bool squashes_root = false;
        // The time that a lost lease waits for its files to be opened below.
        Duration opens_within = std::chrono::seconds(1);
    };
    struct Metrics {
        Counter hits;    // look-ups, attributes, listings and targets that needed no request
        Counter misses;  // that needed one
        Counter opens;   // files that were opened without a request
        Counter opened;  // of these, those that were opened below later
    };
    CachedFileSystem(Reactor& reactor, fs::FileSystem& below, Options options);
    CachedFileSystem(Reactor& reactor, fs::FileSystem& below)
        : CachedFileSystem(reactor, below, Options{}) {}
    ~CachedFileSystem() override;
    CachedFileSystem& operator=(CachedFileSystem&&) = delete;

    using Call = ros2s::Call;
    using FileHandle = fs::FileHandle;
    using NodeId = fs::NodeId;
    using Window = fs::Window;
    using Attributes = fs::Attributes;
    using AttributesTask = Task<Result<Attributes>>;
    using OpenedTask = Task<Result<fs::Opened>>;
    using LockTask = Task<Result<std::optional<object::Lock>>>;
    using Names = std::span<const std::string_view>;

    [[nodiscard]] fs::LeaseSet* leases() override { return leases_; }
    [[nodiscard]] const Metrics& metrics() const { return metrics_; }
    // What is kept.
    [[nodiscard]] size_t nodes() const { return nodes_.size(); }
    [[nodiscard]] size_t names() const { return names_.size(); }

    // ---- names
    AttributesTask lookup(const Call&, NodeId parent, std::string_view name) override;
    Task<std::vector<Result<Attributes>>> lookup_many(const Call&, NodeId parent,
                                                      Names names) override;
    Task<std::vector<Result<Attributes>>> look_up_names(const Call&, NodeId parent,
                                                        Names names) override;
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
    Task<Result<bool>> was_done(const Call& call) override { return below_.was_done(call); }
    Task<std::vector<Result<>>> create_many(const Call&, NodeId parent, Names names, mode_t mode,
                                            fs::Owner owner) override;
    Task<std::vector<Result<>>> unlink_many(const Call&, NodeId parent, Names names) override;
    Task<Result<std::vector<fs::ListedEntry>>> readdir_many(const Call&, NodeId node,
                                                            FileHandle handle, uint64_t cookie,
                                                            size_t limit) override;
    void forget(NodeId node, uint64_t count) override;

    // ---- attributes
    AttributesTask get_attributes(const Call&, NodeId node) override;
    AttributesTask set_attributes(const Call&, NodeId node,
                                  const fs::SetAttributes& changes) override;
    // Only absence is kept.
    Task<Result<std::string>> get_xattr(const Call& call, NodeId node,
                                        std::string_view name) override;
    Task<Result<>> set_xattr(const Call&, NodeId node, std::string_view name, ConstBytes value,
                             fs::SetXattr how) override;
    Task<Result<>> remove_xattr(const Call&, NodeId node, std::string_view name) override;
    Task<Result<std::vector<std::string>>> list_xattrs(const Call& call, NodeId node) override {
        return below_.list_xattrs(call, node);
    }
    Task<Result<fs::FileSystemSpace>> space(const Call& call) override {
        return below_.space(call);
    }

    // ---- files
    OpenedTask open(const Call&, NodeId node, fs::OpenFlags flags) override;
    OpenedTask create(const Call&, NodeId parent, std::string_view name, mode_t mode,
                      fs::OpenFlags flags, fs::Owner owner) override;
    Task<Result<>> close(const Call&, FileHandle handle) override;
    Task<Result<std::vector<fs::DirectoryEntry>>> readdir(const Call&, FileHandle handle,
                                                          uint64_t cookie, size_t limit) override;
    Task<Result<uint64_t>> pread(const Call&, FileHandle handle, Window into,
                                 uint64_t offset) override;
    Task<Result<uint64_t>> pwrite(const Call&, FileHandle handle, Window from,
                                  uint64_t offset) override;
    Task<Result<>> fsync(const Call&, FileHandle handle) override;
    [[nodiscard]] bool is_deferred() const override { return below_.is_deferred(); }
    Task<Result<>> punch_hole(const Call&, FileHandle handle, uint64_t offset,
                              uint64_t length) override;
    Task<Result<>> allocate(const Call&, FileHandle handle, uint64_t offset, uint64_t length,
                            bool keeps_size) override;
    Task<Result<uint64_t>> seek(const Call&, FileHandle handle, uint64_t offset,
                                fs::SeekFor what) override;
    LockTask lock(const Call&, FileHandle handle, const object::Lock& lock,
                  fs::LockHow how) override;
    Result<fs::PathReport> path_report(FileHandle handle) const override;
    Task<Result<>> read_many(const Call& call, NodeId directory,
                             std::span<fs::ReadManyItem> items) override {
        return below_.read_many(call, directory, items);
    }
    Task<Result<>> blocks(const Call& call, fs::BlockWork work, std::span<fs::BlockItem> items,
                          Duration pinned_for) override {
        return below_.blocks(call, work, items, pinned_for);
    }
    // Drops what is kept, and closes all files below.
    Task<> close_all() override;

  protected:
    Task<std::vector<Result<Attributes>>> look_up_way(const Call&, NodeId parent,
                                                      Names names) override;
    Task<Result<>> may_search(const Call&, NodeId directory) override;

  private:
    using Moment = OwnChanges::Moment;
    using Change = OwnChanges::Change;

    // The names of a directory. Those of all that exist are counted.
    class Listing {
      public:
        Listing(std::vector<fs::DirectoryEntry> entries, size_t& count)
            : entries_(std::move(entries)), count_(count) {
            count_ += entries_.size();
        }
        Listing& operator=(Listing&&) = delete;
        ~Listing() { count_ -= entries_.size(); }
        [[nodiscard]] std::vector<fs::DirectoryEntry> page(uint64_t cookie, size_t limit) const;

      private:
        const std::vector<fs::DirectoryEntry> entries_;  // the cookies are 1, 2, …
        size_t& count_;
    };
    using ListingPointer = std::shared_ptr<const Listing>;

    // What is kept of a node, under one lease. Never of one without a name: its end is not seen.
    struct Node {
        NodeId node{};
        uint64_t lease = 0;
        uint64_t number = 0;         // of this entry
        bool is_referenced = false;  // below, by this entry
        bool has_rights = false;     // type, mode and owner
        bool has_attributes = false;
        bool is_complete = false;  // a directory that has no name but those that are kept
        uint64_t evicted = 0;      // of its names
        std::weak_ptr<const Listing> listing{};
        Moment kept = 0;  // the attributes
        Attributes attributes{};
        std::string target;  // of a symbolic link; empty: not kept
        // Extended attributes that it does not have. Its flags tell about access lists.
        std::vector<std::string> absent_xattrs;
        [[nodiscard]] uint64_t key() const { return node.value; }
    };
    struct NameKey {
        NodeId directory{};
        std::string_view name;
        friend auto operator<=>(const NameKey&, const NameKey&) = default;
    };
    // A name of a directory, kept under the lease of the directory's entry.
    struct Name {
        NodeId directory{};
        std::string name;
        uint64_t entry = 0;  // the directory's
        NodeId node{};       // 0: there is no such name
        mode_t type = 0;     // of the node; 0: not known
        [[nodiscard]] NameKey key() const { return {directory, name}; }
    };
    // Files that are open without the file system below knowing it, at most.
    static constexpr size_t unopened_max = size_t{1} << 14;
    // A larger file is opened below by its first read: it is read often, and that is quicker.
    static constexpr uint64_t leased_bytes_max = uint64_t{256} << 10;
    // The time for which a change with an unknown outcome may still be done.
    static constexpr Duration unknown_for = std::chrono::seconds(30);
    // A file or directory that was opened without a request, for this caller.
    struct CachedOpen {
        explicit CachedOpen(Reactor& reactor) : opening(reactor, 1) {}
        NodeId node{};
        fs::OpenFlags flags{};
        uint64_t tenant = 0;
        std::optional<fs::Caller> caller{};
        std::vector<uint32_t> groups{};
        // leased: open below as long as the lease is held, without a request (OpenFlags::leased).
        enum class State : uint8_t { unopened, leased, open, lost };
        State state = State::unopened;
        uint64_t lease = 0;
        uint32_t leased_reads = 0;
        FileHandle below{};  // if it is leased or open
        Error error{};       // if it is lost
        Semaphore opening;   // below: one call at a time
        // Of a directory: what its handle lists; null: what the file system below lists. Then the
        // names that were read one after the other are kept.
        ListingPointer listing{};
        struct Walk {
            uint64_t entry = 0;  // the directory's; 0: none
            uint64_t evicted = 0;
            Moment begun = 0;
            uint64_t cookie = 0;  // of the last name
            size_t names = 0;
        };
        Walk walk{};
    };
    using CachedOpenPointer = std::shared_ptr<CachedOpen>;
    // A file that is read more often under a lease is opened below: then a read costs less there.
    static constexpr uint32_t leased_reads_max = 16;
    static constexpr size_t absent_xattrs_max = 4;
    static constexpr uint64_t cached_open_bit = uint64_t{1} << 62;

    // A call to the file system below whose reply may be kept. It passes the leases on to the
    // caller.
    class Request {
      public:
        Request(CachedFileSystem& files, const Call& call);
        Request& operator=(Request&&) = delete;
        ~Request();
        [[nodiscard]] const Call& call() const { return call_; }
        // The reply is that of this change, which has ended.
        void of(const Change& change) { change_ = &change; }
        [[nodiscard]] bool is_newest(NodeId node) const;
        [[nodiscard]] bool is_newest(NodeId directory, std::string_view name) const;
        // The lease that covers what the reply says of the node: it came with the reply, or was
        // held all the time. 0: there is none.
        [[nodiscard]] uint64_t lease_of(NodeId node);
        // When this change has changed the directory; 0: that is not known.
        [[nodiscard]] WallTime changed(NodeId directory) const;

      private:
        CachedFileSystem& files_;
        std::vector<Leased>* const wanted_;
        std::vector<Leased> leases_, by_node_;
        Call call_;
        const Moment since_;
        const uint64_t entries_;  // the last one when it was made
        const Change* change_ = nullptr;
    };

    // ---- what is kept
    // Null: nothing is kept, or the lease is not held any more.
    Node* held(NodeId node);
    // The same, with attributes that are true now.
    Node* known(NodeId node);
    [[nodiscard]] bool permits(const Call& call, const Node& node, uint32_t wanted) const;
    [[nodiscard]] const fs::Caller* user_of(const Call& call) const {
        return call.caller != nullptr ? call.caller : user_ ? &*user_ : nullptr;
    }
    static void cover(const Call& call, const Node& node) {
        if (call.leases != nullptr) call.leases->push_back({node.node.value, node.lease});
    }
    // `is_whole`: with attributes; otherwise with type, mode and owner. Counts as looked up.
    std::optional<Result<Attributes>> find(const Call& call, NodeId parent, std::string_view name,
                                           bool is_whole);
    // The node that a name of a directory that is kept leads to: 0 if there is none. Nothing: it is
    // not known.
    std::optional<NodeId> named(const Node& directory, std::string_view name);
    // A look-up of the name would need no request.
    [[nodiscard]] bool is_looked_up(NodeId directory, std::string_view name);
    Node& entry(NodeId node, uint64_t lease);
    // Null: it is not kept.
    Node* keep(Request& request, const Attributes& node, bool is_whole);
    // False: it is not kept.
    bool keep_name(Request& request, NodeId parent, std::string_view name, NodeId node,
                   mode_t type);
    // Of a reply that counts as a look-up.
    void keep_found(Request& request, NodeId parent, std::string_view name,
                    const Result<Attributes>& found, bool is_whole);
    [[nodiscard]] static bool lacks_xattr(const Node& node, std::string_view name);
    void drop(NodeId node);
    // A reference of the cache is not needed any more.
    void release(NodeId node);

    // ---- own changes
    template <class T>
    [[nodiscard]] static bool is_certain(const Result<T>& done) {
        return done || !may_run_on(done.error().code);
    }
    template <class T>
    [[nodiscard]] static bool is_certain(const std::vector<Result<T>>& done) {
        return std::ranges::all_of(done, [](const auto& each) { return is_certain(each); });
    }
    // The node that a name leads to: 0 if there is none.
    struct Old {
        bool is_known = false;
        NodeId node{};
        mode_t type = 0;     // 0: not known
        uint64_t entry = 0;  // the directory's, from which it is known
    };
    // The directory's lease has been held since.
    [[nodiscard]] bool is_still_known(NodeId parent, const Old& old) {
        const Node* const directory = held(parent);
        return old.is_known && directory != nullptr && directory->number == old.entry;
    }
    Old old_of(NodeId parent, std::string_view name);
    // What is kept of a directory before a change of its names.
    struct Directory {
        NodeId node{};
        uint64_t entry = 0;  // 0: nothing is
        uint64_t evicted = 0;
        bool is_known = false, is_complete = false;
    };
    Directory directory_of(NodeId node);
    // The change is done. If it was the only one it is known what the directory has now.
    void renew(Request& request, const Directory& before, std::string_view name);
    // A new directory is empty.
    void keep_empty(Request& request, NodeId made);
    void touch(Change& change, NodeId node);
    void touch(Change& change, NodeId parent, std::string_view name);
    // The node that a name leads to.
    void touch(Change& change, const Old& old);
    // Opens files below that are open only here, before a change that may prevent it: those of a
    // node, or all if it is not known.
    Task<Result<>> open_first(const Call& call, Old old);
    template <class Work>
    auto change_node(NodeId node, Work work) -> decltype(work());
    template <class Work>
    auto change_rights(const Call& call, NodeId node, Work work) -> decltype(work(call));
    template <class Work>
    AttributesTask make(const Call& call, NodeId parent, std::string_view name, Work work);
    Task<Result<>> remove(const Call& call, NodeId parent, std::string_view name,
                          bool is_directory);

    // ---- names
    // Names that one request looks up, beside the one that is missing.
    static constexpr size_t looked_up_ahead = 63;
    // Also names that are listed behind it, if they are looked up one after the other.
    AttributesTask look_up_missing(const Call& call, NodeId parent, std::string_view name);
    Task<Result<std::vector<fs::DirectoryEntry>>> list_names(const Call& call, FileHandle handle,
                                                             uint64_t cookie, size_t limit);
    // `is_whole`: the last one, as of find().
    Task<std::vector<Result<Attributes>>> look_up_chain(const Call& call, NodeId parent,
                                                        Names names, bool is_whole);
    Task<> ask_for_rights(const Call&, NodeId directory, std::string_view name);
    AttributesTask change_attributes(const Call& call, NodeId node,
                                     const fs::SetAttributes& changes);
    using ListedTask = Task<Result<std::vector<fs::ListedEntry>>>;
    ListedTask list_many(const Call& call, FileHandle handle, uint64_t cookie, size_t limit);
    ListedTask list_below(const Call& call, NodeId node, FileHandle handle, uint64_t cookie,
                          size_t limit);
    // What the handle lists from this cookie on. Null: what the file system below does.
    const Listing* listing_of(CachedOpen& file, uint64_t cookie);
    ListingPointer make_listing(Node& directory);
    // A request that lists names begins, and has this reply.
    void begin_page(CachedOpen& file, uint64_t cookie);
    void keep_page(Request& request, CachedOpen& file, uint64_t cookie,
                   std::span<const fs::DirectoryEntry> entries);

    // ---- files
    [[nodiscard]] static bool only_reads(fs::OpenFlags flags) {
        return flags.read && !flags.write && !flags.append && !flags.truncate && !flags.execute;
    }
    FileHandle open_here(const Call& call, NodeId node, fs::OpenFlags flags);
    // Calls `work` with the handle of the file system below.
    template <class Work>
    auto with(const Call& call, FileHandle handle, Work work) -> decltype(work(handle));
    template <class Work>
    auto with_cached_open(const Call& call, CachedOpenPointer file, Work work)
        -> decltype(work(FileHandle{}));
    template <class Work>
    auto change_file(const Call& call, FileHandle handle, Work work) -> decltype(work(handle));
    // by_lease: it may need no request.
    enum class Opening : uint8_t { by_lease, whole };
    Task<Result<FileHandle>> open_below(const Call& call, CachedOpenPointer file, Opening how);
    Task<Result<FileHandle>> hold_below(const Call& call, CachedOpen& file);
    Task<Result<uint64_t>> read_cached_open(const Call& call, CachedOpenPointer file, Window into,
                                            uint64_t offset);
    [[nodiscard]] NodeId node_of(FileHandle handle) const;
    void note_lock(FileHandle handle, const object::Lock& lock);
    [[nodiscard]] bool may_have_lock(NodeId node, const object::Lock& lock) const;
    LockTask set_lock(const Call& call, FileHandle handle, object::Lock lock, fs::LockHow how);
    LockTask unlock(const Call& call, FileHandle handle, object::Lock lock, fs::LockHow how);
    // The handle is closed: so end the locks that were set through it.
    void end_locks(NodeId node, FileHandle handle);
    static Task<> open_one(CachedFileSystem& self, Call call, CachedOpenPointer file, Opening how,
                           Result<>& first);
    // Returns the first error after which a file may still be opened.
    Task<Result<>> open_all(const Call& call, std::vector<CachedOpenPointer> files, Opening how);
    Task<Result<>> close_cached_open(const Call& call, CachedOpenPointer file);
    [[nodiscard]] std::vector<CachedOpenPointer> unopened(NodeId node) const;
    [[nodiscard]] std::vector<CachedOpenPointer> unopened() const;
    void erase_unopened(const CachedOpenPointer& file);

    Task<> lost(std::span<const Leased> leases) override;
    Task<> lost_all() override;
    Task<> open_lost(std::vector<CachedOpenPointer> files);

    Reactor& reactor_;
    fs::FileSystem& below_;
    const Options options_;
    fs::LeaseSet* const leases_;
    std::optional<fs::Caller> user_;
    Metrics metrics_;
    OwnChanges changes_;
    Recent<uint64_t, Node, Hashed> nodes_;
    Recent<NameKey, Name, Ordered> names_;
    ListedNames listed_;
    size_t listing_names_ = 0;  // of all Listings
    uint64_t last_entry_ = 0;
    // References that the callers have, and the file system below did not give. One that is kept,
    // or one of the caller's, holds the node there.
    std::unordered_map<uint64_t, uint64_t> given_;
    std::unordered_map<uint64_t, CachedOpenPointer> cached_opens_;  // by handle
    std::multimap<uint64_t, CachedOpenPointer> unopened_;  // of these, by node, unopened or leased
    struct OpenBelow {
        NodeId node{};
        bool writes = false;
    };
    std::unordered_map<uint64_t, OpenBelow> opened_;  // by handle
    // Who has locked which nodes, and through which handle last. any_locked_: each may be locked.
    using LockOwner = std::pair<object::LockSpace, uint64_t>;
    static constexpr size_t locks_max = size_t{1} << 16;
    struct Locked {
        FileHandle handle{};
        uint64_t number = 0;  // of the last call
    };
    std::map<NodeId, std::map<LockOwner, Locked>> locked_;
    size_t locks_ = 0;
    uint64_t last_lock_ = 0;
    bool any_locked_ = false;
    uint64_t last_cached_open_ = 0;
};

template <class Work>
auto CachedFileSystem::change_node(NodeId node, Work work) -> decltype(work()) {
    Change change(changes_);
    touch(change, node);
    change.sent();
    auto done = co_await work();
    change.end(is_certain(done));
    co_return done;
}

// It may take the right to use the node, or to search it.
template <class Work>
auto CachedFileSystem::change_rights(const Call& call, NodeId node, Work work)
    -> decltype(work(call)) {
    Request request(*this, call);
    Change change(changes_);
    touch(change, node);
    drop(node);
    if (const auto opened = co_await open_first(call, {true, node}); !opened) {
        co_return fail(opened.error());
    }
    change.sent();
    auto done = co_await work(request.call());
    change.end(is_certain(done));
    request.of(change);
    if constexpr (std::is_same_v<decltype(done), Result<Attributes>>) {
        if (done) keep(request, *done, true);
    }
    co_return done;
}

}  // namespace ros2s::cache
