// Mounts: the file systems that sessions use, and the handles and nodes of each session. Host link
// and control plane use the same mounts and handles: the control plane opens, the host link reads.
//
// The composing code's source opens containers. Sessions that mount one without leases share it.
// Everything that a session opened is closed when the session ends.
//
// Thread rule: used on the core on which the file systems were opened.
//
// Invariants
// - A handle is valid only in the mount that opened it, so a session cannot use another session's
//   handle.
// - Mount numbers are random: a number of an earlier process is not valid here.
// - References to nodes from lookups are counted and given back (FileSystem::forget).
// - Bounded: mounts per session; mounts, handles and nodes per tenant and in all; descriptors that
//   file systems hold for handles, per tenant and in all. A tenant's account may limit its handles
//   further. Lowering a limit closes nothing.
// - A container that is slow to open or close delays only sessions that mount this container.
// - A mount with subtrees reaches the container through a view of its own (access::SubtreeView).
// - A mount that lends leases has a file system of its own. The store then sees each client's
//   changes as those of another holder.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "ros2s/access/subtree.h"
#include "ros2s/base/quota.h"
#include "ros2s/fs/file_system.h"
#include "ros2s/rights/user_mapping.h"
#include "ros2s/session/mount_leases.h"
#include "ros2s/session/sessions.h"

namespace ros2s::session {

// The rights by which a source opens a container. Sessions with the same share a file system.
// Default: the server's own.
struct Authority {
    std::string tenant{};  // whose capabilities
    bool writes = false;
    // Of the tenant's record. A later one may give less.
    uint64_t generation = 0, revocations = 0;
    friend auto operator<=>(const Authority&, const Authority&) = default;
};

struct MountId {
    uint64_t value = 0;
    friend auto operator<=>(const MountId&, const MountId&) = default;
};

// A file system that mounts share, or that is one mount's own.
struct MountedContainer {
    std::string pool, container;
    Authority authority{};
    MountId own{};               // 0: shared
    bool defers = false;         // as fs::DfsOptions; only if it is one mount's own
    std::string exclusive_as{};  // the same
    [[nodiscard]] std::string place() const { return pool + "/" + container; }  // for people
    friend auto operator<=>(const MountedContainer&, const MountedContainer&) = default;
};

// Opens containers as file systems. Implemented by the composing code.
class FileSystemSource {
  public:
    virtual ~FileSystemSource() = default;
    // With leases, if it is one mount's own. Errors come with a sentence: not_found, bad_version, …
    virtual Task<Result<std::unique_ptr<fs::FileSystem>>> open(const Call& call,
                                                               const MountedContainer& which,
                                                               Report& report) = 0;
    // Not the default if the source uses its clients' rights.
    [[nodiscard]] virtual Authority authority_for(const Session& /*session*/,
                                                  bool /*read_only*/) const {
        return {};
    }
    // True if the file system holds descriptors of the process for open files.
    [[nodiscard]] virtual bool holds_descriptors(const std::string& /*pool*/,
                                                 const std::string& /*container*/) const {
        return false;
    }
    // True if the file system of the container has leases, which it can lend to a client of its
    // own.
    [[nodiscard]] virtual bool lends(const std::string& /*pool*/,
                                     const std::string& /*container*/) const {
        return false;
    }
    // For people: the storage of the container's files, its path, and guarantees that are weaker
    // than those of our own stores. Contains nothing that helps to reach the storage. Empty:
    // unknown.
    [[nodiscard]] virtual std::string storage(const std::string& /*pool*/,
                                              const std::string& /*container*/) const {
        return {};
    }
};

// For people: "home/alice, data"; empty: the whole container.
[[nodiscard]] std::string directories_of(const std::vector<access::Subtree>& subtrees);

struct MountBounds {
    uint32_t per_session_max = 64;     // mounts
    uint32_t handles_max = 64 * 1024;  // per mount
    uint32_t nodes_max = 1 << 20;      // per mount
    uint32_t nodes_sure = 64;          // guaranteed per mount
    struct Together {
        uint64_t mounts_max, handles_max, nodes_max;
        uint64_t descriptors_max;  // of FileSystemSource::holds_descriptors()
        uint64_t lending_max;      // mounts that lend leases; further ones lend none
    };
    Together tenant{1024, 64 * 1024, 1 << 20, 4096, 64};
    Together all{16 * 1024, 256 * 1024, 4 << 20, 8192, 128};
};

// Counted by tenant (Session::tenant), and within it by session: `mounts`, or by mount: the others.
struct MountQuotas {
    explicit MountQuotas(const MountBounds& bounds);
    Quota mounts, handles, nodes, descriptors, lending;
};

class Mount;

// Room for one handle while it is being opened.
class [[nodiscard]] HandleRoom {
  public:
    explicit HandleRoom(Mount& mount);
    HandleRoom(HandleRoom&& other) noexcept : mount_(std::exchange(other.mount_, nullptr)) {}
    HandleRoom(const HandleRoom&) = delete;
    HandleRoom& operator=(const HandleRoom&) = delete;
    HandleRoom& operator=(HandleRoom&&) = delete;
    ~HandleRoom();

  private:
    friend class Mount;
    Mount* mount_;
};

// One session's use of one file system. Reached through a MountUse.
class Mount {
  public:
    // For an open file and its node.
    static constexpr uint64_t descriptors_per_handle = 2;
    // The session of each handle, for all mounts of one file system.
    using Holders = std::map<fs::FileHandle, const Session*>;
    struct Owner {
        SessionTable& sessions;
        const Session& session;
        Holders& holders;
        const MountBounds& bounds;
        Quota::Share mount, handles, nodes, descriptors, lending;
        bool holds_descriptors;
        std::string directories;  // for people: those of its view
    };
    Mount(Reactor& reactor, Owner owner, MountedContainer shared, fs::FileSystem& file_system,
          std::unique_ptr<fs::FileSystem> view, bool read_only, rights::UserMapping users,
          std::unique_ptr<MountLeases> leases)
        : owner_(std::move(owner)),
          view_(std::move(view)),
          file_system_(view_ != nullptr ? *view_ : file_system),
          shared_(std::move(shared)),
          read_only_(read_only),
          users_(std::move(users)),
          leases_(std::move(leases)),
          idle_(reactor) {}

    [[nodiscard]] fs::FileSystem& file_system() const { return file_system_; }
    [[nodiscard]] bool read_only() const { return read_only_; }
    [[nodiscard]] const std::string& subject() const { return owner_.session.request.subject; }
    [[nodiscard]] const rights::UserMapping& users() const { return users_; }
    // Null: it lends none.
    [[nodiscard]] MountLeases* leases() const { return leases_.get(); }
    [[nodiscard]] bool is_lending() const { return leases_ != nullptr && leases_->is_lending(); }
    // For audit events about it, or about a node in it. Valid as long as the mount.
    [[nodiscard]] AuditObject object(fs::NodeId node = {}) const;
    // The user as whom the client acts, in the claim's memory. Errors: denied, with an audit line
    // for the request. The caller counts the request as refused.
    [[nodiscard]] Result<fs::Caller> caller_for(fs::UserClaim& claim) const;

    // Room for one more handle: in this mount, for its tenant, in all.
    // Errors: busy. `why`: gets the sentence if a limit of the tenant refused it.
    [[nodiscard]] Result<HandleRoom> reserve_handle(std::string* why = nullptr);
    // The handle takes over its room.
    void opened(fs::FileHandle handle, HandleRoom&& room);
    // Errors: stale (not a handle of this mount).
    [[nodiscard]] Result<> check(fs::FileHandle handle) const {
        if (handles_.contains(handle)) return {};
        say_if_foreign(handle);
        return fail(Code::stale);
    }
    [[nodiscard]] bool has(fs::FileHandle handle) const { return handles_.contains(handle); }
    // The caller closes the handle next. Errors: stale.
    [[nodiscard]] Result<> closing(fs::FileHandle handle);
    // The client gets a reference to the node. If there are too many nodes in this mount, for its
    // tenant, or in all, the mount drops a node that was not looked up recently. Our file systems
    // find such a node again by its number. In other file systems it is then `stale`, and the
    // client looks it up again.
    void refer(fs::NodeId node);
    // The client drops references. Excess ones are ignored.
    void forget(fs::NodeId node, uint64_t count);
    [[nodiscard]] size_t nodes() const { return nodes_.size(); }

  private:
    friend class Mounts;
    friend class HandleRoom;
    friend class InUse<Mount>;
    void say_if_foreign(fs::FileHandle handle) const;
    void add_handle();
    void subtract_handle();
    [[nodiscard]] bool is_full_of_nodes() const;
    void forget_one();
    struct Held {
        uint64_t count = 0;
        bool is_recent = true;  // looked up since hand_ last passed it
    };
    Owner owner_;
    std::unique_ptr<fs::FileSystem> view_;  // null: the whole container
    fs::FileSystem& file_system_;
    MountedContainer shared_;
    bool read_only_;
    rights::UserMapping users_;
    std::unique_ptr<MountLeases> leases_;
    std::set<fs::FileHandle> handles_;
    std::map<fs::NodeId, Held> nodes_;
    fs::NodeId hand_{};  // the next node to check when one must be dropped (clock algorithm)
    bool ending_ = false;
    uint32_t in_use_ = 0;
    Event idle_;  // woken when in_use_ becomes 0
};

inline HandleRoom::HandleRoom(Mount& mount) : mount_(&mount) { mount_->add_handle(); }
inline HandleRoom::~HandleRoom() {
    if (mount_ != nullptr) mount_->subtract_handle();
}

using MountUse = InUse<Mount>;

// What a mount may do in its container, and as whom.
struct MountScope {
    bool read_only = false;
    rights::UserMapping users{};
    std::vector<access::Subtree> subtrees{};  // empty: the whole container
    bool wants_leases = false;
    bool durable = false;        // each change, also if the container has durability=fsync
    std::string exclusive_as{};  // as fs::DfsOptions
    // Its client can decide as this side does what its users may do.
    [[nodiscard]] bool may_have_leases() const {
        return wants_leases && subtrees.empty() && users.keeps_numbers();
    }
};

class Mounts final : public SessionWatcher {
  public:
    using Options = MountBounds;
    // Watches `sessions`. All arguments outlive it.
    Mounts(Reactor& reactor, SessionTable& sessions, FileSystemSource& source, Options options);
    ~Mounts() override;  // call it after every session has ended
    Mounts& operator=(Mounts&&) = delete;

    // Errors: busy (the session, its tenant or all sessions have too many), unsupported (it cannot
    // be exclusive), those of the source and of SubtreeView::open().
    Task<Result<MountId>> mount(const Call& call, Session& session, const std::string& container,
                                MountScope scope, Report& report);
    // Closes everything that is open in it. Errors: stale.
    Task<Result<>> unmount(Session& session, MountId id);
    // Errors: stale.
    [[nodiscard]] Result<MountUse> find(const Session& session, MountId id) const;
    // The same for a caller that has another way: nothing is logged.
    [[nodiscard]] std::optional<MountUse> try_find(const Session& session, MountId id) const;
    // Null: it has no such mount. This does not count as use, and is valid until the next await.
    [[nodiscard]] const Mount* look(const Session& session, MountId id) const;

    // The mount's requests over the host link come with leases.
    [[nodiscard]] bool lends(SessionId session, MountId id) const {
        const auto found = mounts_.find({session, id});
        return found != mounts_.end() && found->second->leases() != nullptr;
    }

    // Its changes are durable only at fsync (fs::FileSystem::is_deferred()).
    [[nodiscard]] bool defers(SessionId session, MountId id) const {
        const auto found = mounts_.find({session, id});
        return found != mounts_.end() && found->second->file_system().is_deferred();
    }

    // See FileSystemSource.
    [[nodiscard]] std::string storage(const std::string& pool, const std::string& container) const {
        return source_.storage(pool, container);
    }

    // True if a session has the container mounted, or is mounting it.
    [[nodiscard]] bool in_use(const std::string& pool, const std::string& container) const;
    // ---- for operators: the mounts whose clients have leases. Valid until the next await.
    struct Lender {
        const Session& session;
        MountId id;
        const std::string& pool;
        const std::string& container;
        const MountLeases& leases;
    };
    [[nodiscard]] std::vector<Lender> lenders() const;
    // False: it has no leases.
    bool evict(MountId id);
    // The tenants that get no leases now, and until when.
    [[nodiscard]] std::vector<std::pair<uint64_t, Time>> barred() const {
        return answers_.barred(reactor_.now());
    }
    // Called when others have waited in vain for a client's answer.
    void on_silence(std::function<void(const Lender&, Duration waited)> call) {
        silent_ = std::move(call);
    }
    void visit_metrics(const MetricVisitor& visit) const;
    void visit_times(const HistogramVisitor& visit) const;

    // The containers that the session has mounted, one for each mount.
    [[nodiscard]] std::vector<std::string> containers_of(SessionId session) const;
    [[nodiscard]] std::vector<MountId> all_of(SessionId session) const;

    Task<> session_ending(Session& session) override;

  private:
    // A container that is mounted, being mounted or being closed.
    struct Shared {
        explicit Shared(Reactor& reactor) : turn(reactor, 1) {}
        Semaphore turn;      // for opening and closing it
        uint32_t users = 0;  // mounts, and callers that wait for a turn
        std::unique_ptr<fs::FileSystem> file_system;
        Mount::Holders holders;
    };
    using Key = std::pair<SessionId, MountId>;
    // Room for one more mount. Errors: busy.
    Result<Quota::Share> reserve_mount(const Session& session, Report& report);
    // Opens the container's file system if it is not open, and adds a user.
    Task<Result<>> enter(const Call& call, MountedContainer which, Report& report);
    // Removes a user. The last one closes the file system.
    Task<> leave(MountedContainer which);
    Task<> close(Key key);

    [[nodiscard]] MountId draw() const;
    [[nodiscard]] static Lender lender_of(const Mount& mount, MountId id);

    Reactor& reactor_;
    SessionTable& sessions_;
    FileSystemSource& source_;
    Options options_;
    MountQuotas quotas_;
    TenantAnswers answers_;
    std::function<void(const Lender&, Duration waited)> silent_;
    std::map<MountedContainer, Shared> shared_;
    std::map<Key, std::unique_ptr<Mount>> mounts_;
    std::map<MountId, const Session*> holders_;
};

}  // namespace ros2s::session
