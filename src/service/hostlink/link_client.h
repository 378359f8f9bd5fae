// LinkClient: the host's side of the host link. It is a FileSystem whose operations are requests
// over an rpc channel to a LinkServer.
//
// Owned by the composing code. Reactor, channel and locator outlive it. Used on the channel's core.
// close_all() before destruction.
//
// When the server restarts, the mount moves. reopen_all() then opens all files again at the new
// location, and calls wait for it. A file that no longer exists is `stale`.
//
// Invariants
// - Data that was read is compared with the server's checksum at its destination, and refused
//   (`corrupt`) if it differs. Data that is written is compared behind the server, in the store's
//   engine, or in the server if the file system takes no checksums.
// - An update has an update name that names it uniquely. The channel repeats it after a lost
//   connection, and the server answers a repeated one without doing it again.
// - The server counts references from lookups. forget() collects dropped ones, and a later request
//   sends many at a time. The end of the mount drops the rest.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ros2s/base/log.h"
#include "ros2s/fs/file_system.h"
#include "ros2s/fs/lock_wait.h"
#include "ros2s/hostlink/host_changes.h"
#include "ros2s/hostlink/wire.h"
#include "ros2s/rpc/channel.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/slices.h"
#include "ros2s/runtime/update_slots.h"
#include "ros2s/session/mount_location.h"

namespace ros2s::hostlink {

struct NamesBody;

class LinkClient final : public fs::FileSystem {
  public:
    struct Options {
        Uuid client;  // the session's client instance, which names updates
        // The user of calls that have no caller: this process's.
        fs::UserClaim user{};
        // The part of the path behind the link, for path_report(): "dpu at …".
        std::string behind;
        // The time that a call waits for its file to be opened again.
        Duration patience = std::chrono::seconds(30);
        // The time that close_all() waits for the server, and the time limit of each request that
        // no call waits for.
        static constexpr Duration close_within = std::chrono::seconds(5);
        // The mount lends leases.
        bool takes_leases = false;
        // The number of collected references from forget() that are sent.
        size_t forgotten_together = 256;
        Log log{};
    };
    // Its updates use the slots [0, update_slots) of the client instance.
    static constexpr uint32_t update_slots = 256;
    LinkClient(Reactor& reactor, rpc::Channel& channel, session::MountLocator& locator,
               Options options);
    ~LinkClient() override;
    LinkClient& operator=(LinkClient&&) = delete;

    using Call = ros2s::Call;
    using NodeId = fs::NodeId;
    using AttributesTask = Task<Result<fs::Attributes>>;

    [[nodiscard]] fs::LeaseSet* leases() override {
        return options_.takes_leases ? &leases_ : nullptr;
    }
    [[nodiscard]] bool is_deferred() const override { return locator_.is_deferred(); }
    Task<> close_all() override;
    // Opens all files at the mount's current location that are not open there. Repeats until
    // stopped. If a file cannot be opened, its calls fail with the reason. Call it after each move,
    // unless it still runs: it ends only when nothing has moved meanwhile.
    Task<> reopen_all(const Call& call);
    // A file that the server opened for this client by other means, at the mount's location.
    [[nodiscard]] fs::FileHandle adopt(fs::FileHandle there, NodeId node, fs::OpenFlags flags);

    AttributesTask lookup(const Call&, NodeId parent, std::string_view name) override;
    AttributesTask get_attributes(const Call&, NodeId node) override;
    Task<Result<std::vector<fs::DirectoryEntry>>> readdir(const Call&, fs::FileHandle handle,
                                                          uint64_t cookie, size_t limit) override;
    Task<Result<uint64_t>> pread(const Call&, fs::FileHandle handle, fs::Window into,
                                 uint64_t offset) override;
    Task<Result<uint64_t>> pwrite(const Call&, fs::FileHandle handle, fs::Window from,
                                  uint64_t offset) override;
    Task<Result<>> fsync(const Call&, fs::FileHandle handle) override;
    Task<Result<>> allocate(const Call&, fs::FileHandle handle, uint64_t offset, uint64_t length,
                            bool keeps_size) override;
    Task<Result<>> punch_hole(const Call&, fs::FileHandle handle, uint64_t offset,
                              uint64_t length) override;
    Task<Result<uint64_t>> seek(const Call&, fs::FileHandle handle, uint64_t offset,
                                fs::SeekFor what) override;
    Task<Result<>> read_many(const Call&, NodeId directory,
                             std::span<fs::ReadManyItem> items) override;
    Task<Result<>> blocks(const Call&, fs::BlockWork work, std::span<fs::BlockItem> items,
                          Duration pinned_for) override;
    Task<Result<std::optional<object::Lock>>> lock(const Call&, fs::FileHandle handle,
                                                   const object::Lock& lock,
                                                   fs::LockHow how) override;
    Result<fs::PathReport> path_report(fs::FileHandle handle) const override;
    Task<Result<>> hold(const Call&, fs::FileHandle handle) override;

    Task<Result<fs::Opened>> open(const Call&, NodeId node, fs::OpenFlags flags) override;
    Task<Result<fs::Opened>> create(const Call&, NodeId parent, std::string_view name, mode_t mode,
                                    fs::OpenFlags flags, fs::Owner owner) override;
    Task<Result<fs::Opened>> open_path(const Call&, std::string_view path,
                                       fs::PathOpen how) override;
    // Waits for the server only if writes through the handle were not synced: a directory behind
    // the DPU may report lost ones only here.
    Task<Result<>> close(const Call&, fs::FileHandle handle) override;

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
    Task<Result<fs::Walked>> walk(const Call&, std::string_view path, fs::LastLink last) override;
    Task<std::vector<Result<fs::Attributes>>> look_up_names(
        const Call&, NodeId parent, std::span<const std::string_view> names) override;
    Task<std::vector<Result<fs::Attributes>>> lookup_many(
        const Call&, NodeId parent, std::span<const std::string_view> names) override;
    Task<std::vector<Result<>>> create_many(const Call&, NodeId parent,
                                            std::span<const std::string_view> names, mode_t mode,
                                            fs::Owner owner) override;
    Task<std::vector<Result<>>> unlink_many(const Call&, NodeId parent,
                                            std::span<const std::string_view> names) override;
    Task<Result<std::vector<fs::ListedEntry>>> readdir_many(const Call&, NodeId node,
                                                            fs::FileHandle handle, uint64_t cookie,
                                                            size_t limit) override;
    AttributesTask set_attributes(const Call&, NodeId node,
                                  const fs::SetAttributes& changes) override;
    Task<Result<std::string>> get_xattr(const Call&, NodeId node, std::string_view name) override;
    Task<Result<>> set_xattr(const Call&, NodeId node, std::string_view name, ConstBytes value,
                             fs::SetXattr how) override;
    Task<Result<>> remove_xattr(const Call&, NodeId node, std::string_view name) override;
    Task<Result<std::vector<std::string>>> list_xattrs(const Call&, NodeId node) override;
    Task<Result<fs::FileSystemSpace>> space(const Call&) override;
    void forget(NodeId node, uint64_t count) override;

  private:
    struct LockOwner {
        object::LockSpace space{};
        uint64_t number = 0;
        friend auto operator<=>(const LockOwner&, const LockOwner&) = default;
    };
    struct Open {
        NodeId node{};
        fs::OpenFlags flags;
        fs::UserClaim user;            // for whom it was opened
        session::MountLocation place;  // where the file is open; none: opened under a lease
        bool reopening = false;
        fs::FileHandle there{};                 // the server's handle
        std::optional<Error> lost;              // why it cannot be open anywhere any more
        std::vector<fs::DirectoryEntry> given;  // the last entries that readdir returned
        uint64_t cookie_base = 0;               // cookies up to this are from before a reopening
        uint64_t cookie_most = 0;
        bool unsynced = false;    // written since it was opened or synced
        bool tells_loss = false;  // its next fsync or close fails
        // Those that have set locks through this handle. The server's locks end with the server.
        std::vector<LockOwner> lock_owners;
        fs::PathReport report;
    };
    // For a request: the mount, and the server's handle of the file.
    struct ServerHandle {
        session::MountLocation place;
        fs::FileHandle handle{};
    };
    // Sends a request with the body of `encode(where)`. If the mount has moved, sends it again.
    template <class Encode>
    Task<Result<>> ask(const Call& call, fs::FileHandle handle, rpc::CallRequest request,
                       rpc::ReplyReader& reader, Encode encode);
    // Without a handle: only the mount. Errors: stale, cancelled, deadline, disconnected.
    Task<Result<ServerHandle>> where(const Call& call, fs::FileHandle handle);
    // A file that was opened at a location; the handle is the server's.
    struct OpenedAtServer {
        fs::Opened opened;
        session::MountLocation place;
    };
    Task<Result<OpenedAtServer>> open_node(const Call& call, NodeId node, fs::OpenFlags flags);
    Task<Result<>> close_there(const Call& call, session::MountLocation place,
                               fs::FileHandle there);
    void close_later(ServerHandle at);
    static Task<> close_behind(LinkClient& self, ServerHandle at);
    [[nodiscard]] bool is_closing() const { return closes_until_ < Time::max(); }
    [[nodiscard]] fs::Opened keep(const Call& call, const OpenedAtServer& there,
                                  fs::OpenFlags flags);
    [[nodiscard]] static bool is_leased(const Open& file) {
        return file.place == session::MountLocation{};
    }
    [[nodiscard]] fs::Caller user_of(const Call& call) const;
    // Opens the file at the mount's current location, unless another call is doing so. Repeats
    // until the file is open or lost, or the call ends. Without the right (denied, read_only) the
    // file is not lost: its next call tries again.
    Task<Result<>> reopen(const Call& call, fs::FileHandle handle);
    Task<Result<>> open_again(const Call& call, fs::FileHandle handle);
    Task<Result<uint64_t>> update(const Call& call, Method method, fs::FileHandle handle,
                                  FileBody file, ConstBytes payload,
                                  std::span<const uint32_t> checksums);
    Task<Result<std::optional<object::Lock>>> lock_once(const Call& call, fs::FileHandle handle,
                                                        const object::Lock& lock, fs::LockHow how);
    Task<Result<std::optional<object::Lock>>> ask_lock(const Call& call, fs::FileHandle handle,
                                                       const object::Lock& lock, fs::LockHow how);
    struct NodeLocks;
    class NodeLocksUse;
    [[nodiscard]] bool is_uncertain(NodeId node, LockOwner owner) const;
    void set_uncertain(NodeLocks& locks, fs::FileHandle handle, NodeId node,
                       const object::Lock& lock);
    Task<Result<>> restore_locks(const Call& call, NodeId node, NodeLocks& locks);
    static Task<> restore_in_time(LinkClient& self, NodeId node);
    void note_owner(Open& file, LockOwner owner) const;
    void set_own(NodeId node, const object::Lock& lock);
    void end_refused_upgrade(NodeId node, object::Lock lock,
                             const Result<std::optional<object::Lock>>& done);
    [[nodiscard]] bool has_lost_lock(const Open& file) const;
    void end_locks(fs::FileHandle handle, const Open& file, bool are_lost);
    Task<Result<uint64_t>> read_part(const Call& call, fs::FileHandle handle, Bytes into,
                                     uint64_t offset);
    // A request about names: sends the body with the mount's number. Returns where it was done.
    template <class Body>
    Task<Result<session::MountLocation>> send(const Call& call, rpc::CallRequest request, Body body,
                                              rpc::ReplyReader& reader);
    // One that may be done twice, and one that is done once. `place`: where it was done.
    template <class Reply, class Body>
    Task<Result<Reply>> find(const Call& call, Method method, Body body);
    template <class Reply, class Body>
    Task<Result<Reply>> change(const Call& call, Method method, Body body,
                               session::MountLocation* place = nullptr);
    // The leases with which a reply came, of a request that was sent in this era.
    void take(const Call& call, uint64_t era, const session::MountLocation& place,
              std::span<const Leased> leases);
    class ServerLeases;
    static Task<> listen(LinkClient& self);
    Task<Result<session::LeaseNews>> hear(const Call& call, session::MountLocation place,
                                          session::Listening listening);
    static Task<> send_forgotten(LinkClient& self, std::vector<Forgotten> nodes);
    using Entries = std::vector<fs::DirectoryEntry>;
    // The entries that readdir() is about to return.
    void remember(fs::FileHandle handle, const Entries& entries);
    Task<Result<Entries>> list(const Call& call, ServerHandle at, uint64_t cookie, size_t limit);
    // The changes of many names: a result for each.
    Task<std::vector<Result<>>> change_many(const Call& call, Method method, NamesBody body);
    Task<Result<Entries>> list_behind(const Call& call, ServerHandle at, std::string name,
                                      size_t limit);
    Task<Result<>> read_batch(const Call& call, NodeId directory,
                              std::span<fs::ReadManyItem> items);
    [[nodiscard]] std::span<fs::ReadManyItem> next_batch(std::span<fs::ReadManyItem> items) const;
    Task<Result<>> send_blocks(const Call& call, fs::BlockWork work, std::span<fs::BlockItem> items,
                               Duration pinned_for);
    Result<Open*> opened(fs::FileHandle handle);
    void acknowledged(const session::MountLocation& place);
    // Asks the server whether changes of this host may be lost, and notes it.
    Task<Result<>> ask_for_losses(const Call& call);
    static Task<> watch_changes(LinkClient& self);
    void note_losses();
    [[nodiscard]] bool tells_loss(fs::FileHandle handle);

    Reactor& reactor_;
    rpc::Channel& channel_;
    session::MountLocator& locator_;
    const Options options_;
    std::map<fs::FileHandle, Open> open_;
    std::map<std::pair<NodeId, LockOwner>, std::vector<object::Lock>> locked_;
    // Requests about the locks of a node go one after the other.
    struct NodeLocks {
        explicit NodeLocks(Reactor& reactor) : turn(reactor, 1) {}
        Semaphore turn;
        // What the server may have done, or not.
        std::vector<std::pair<fs::FileHandle, object::Lock>> uncertain;
        bool restores = false;
        uint64_t unlocks = 0;  // so many ended without the turn
        size_t uses = 0;
    };
    std::map<NodeId, NodeLocks> node_locks_;
    fs::LockWaits lock_waits_{reactor_};
    std::set<std::pair<NodeId, LockOwner>> lost_;  // those that have lost locks
    uint64_t last_handle_ = 0;
    UpdateSlots slots_;
    std::vector<Forgotten> forgotten_;
    HostChanges changes_;
    bool watches_changes_ = false;
    bool is_loss_untold_ = false;
    fs::LeaseSet leases_;
    session::MountLocation leased_at_;  // where their era has begun
    StopSource closing_;
    Time closes_until_ = Time::max();  // in close_all()
    // Requests that no call waits for.
    Nursery forgetting_;
    Nursery closers_;
    Nursery listening_;
    Nursery watching_;
    std::vector<ServerHandle> unclosed_;  // handles that wait for a closer; at most the server's
    SliceTurns summing_;
};

}  // namespace ros2s::hostlink
