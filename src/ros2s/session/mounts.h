// Mounts: the file systems that sessions work in, and what each session has open there. Host link
// and control plane work on the same mounts and handles: one opens, the other reads.
//
// A container is opened once and shared by the sessions that mount it; the composer's source knows
// how. What a session opened is closed when it ends, whichever way.
//
// Thread rule: used on the core that the file systems were opened on.
//
// Invariants
// - A handle works in the mount that opened it and in no other: a session cannot reach another's.
// - Numbers of mounts begin anywhere: what is asked of an earlier process's mount meets none here.
// - References to nodes that lookups gave out are counted and given back (FileSystem::forget).
// - Bounded: mounts per session; mounts, handles and nodes per tenant and in all; descriptors that
//   file systems hold for handles, per tenant and in all.
// - A container that takes its time to be opened or closed holds up those who mount the same one,
//   and nobody else.
#pragma once
#include <map>
#include <memory>
#include <set>
#include <string>

#include "ros2s/fs/file_system.h"
#include "ros2s/session/sessions.h"

namespace ros2s::session {

// Opens containers as file systems. The composer's.
class FileSystemSource {
  public:
    virtual ~FileSystemSource() = default;
    // Errors come with a sentence: not_found, bad_version, …
    virtual Task<Result<std::unique_ptr<fs::FileSystem>>> open(const Call& call,
                                                               const std::string& pool,
                                                               const std::string& container,
                                                               Report& report) = 0;
    // Its file system holds descriptors of the process for what is open in it.
    [[nodiscard]] virtual bool holds_descriptors(const std::string& /*pool*/,
                                                 const std::string& /*container*/) const {
        return false;
    }
    // For people: what keeps such a container's files, how it is reached, and what it promises
    // where that is less than our own stores do. Nothing that helps to reach it. Empty: nothing is
    // told.
    [[nodiscard]] virtual std::string keeper(const std::string& /*pool*/,
                                             const std::string& /*container*/) const {
        return {};
    }
};

struct MountId {
    uint64_t value = 0;
    friend auto operator<=>(const MountId&, const MountId&) = default;
};

struct MountBounds {
    uint32_t per_session_max = 64;     // mounts
    uint32_t handles_max = 64 * 1024;  // per mount
    uint32_t nodes_max = 1 << 20;      // per mount
    struct Together {
        uint64_t mounts_max, handles_max, nodes_max;
        uint64_t descriptors_max;  // of FileSystemSource::holds_descriptors()
    };
    Together tenant{1024, 64 * 1024, 4 << 20, 4096};
    Together all{16 * 1024, 256 * 1024, 16 << 20, 8192};
};

// What a tenant has in all its mounts, or all tenants have.
struct MountShare {
    uint64_t mounts = 0, handles = 0, nodes = 0, descriptors = 0;
};

// One session's use of one file system. Reached through a MountUse.
class Mount {
  public:
    // An open file, and the node that it is open at.
    static constexpr uint64_t descriptors_per_handle = 2;
    // Which session opened a handle, of all mounts of one file system.
    using Holders = std::map<fs::FileHandle, const Session*>;
    struct Owner {
        SessionTable& sessions;
        const Session& session;
        Holders& holders;
        MountShare& tenant;
        MountShare& all;
        const MountBounds& bounds;
        bool holds_descriptors;
    };
    Mount(Reactor& reactor, Owner owner, std::string shared_key, fs::FileSystem& file_system,
          bool read_only)
        : owner_(owner),
          file_system_(file_system),
          key_(std::move(shared_key)),
          read_only_(read_only),
          idle_(reactor) {}

    [[nodiscard]] fs::FileSystem& file_system() const { return file_system_; }
    [[nodiscard]] bool read_only() const { return read_only_; }

    // Room for one more handle: in this mount, for its tenant, in all. Errors: busy.
    [[nodiscard]] Result<> check_room() const;
    void opened(fs::FileHandle handle);
    // Errors: stale (not one of this mount's).
    [[nodiscard]] Result<> check(fs::FileHandle handle) const {
        if (handles_.contains(handle)) return {};
        say_if_foreign(handle);
        return fail(Code::stale);
    }
    // The caller closes the handle now. Errors: stale.
    [[nodiscard]] Result<> closing(fs::FileHandle handle);
    // A reference to the node goes to the client. Errors: busy (too many nodes, here, of its tenant
    // or in all; the file system has its reference back).
    [[nodiscard]] Result<> refer(fs::NodeId node);
    // The client drops references; more than it has are ignored.
    void forget(fs::NodeId node, uint64_t count);

  private:
    friend class Mounts;
    friend class MountUse;
    void say_if_foreign(fs::FileHandle handle) const;
    void count_handles(int64_t more);
    void count_nodes(int64_t more);
    Owner owner_;
    fs::FileSystem& file_system_;
    std::string key_;
    bool read_only_;
    std::set<fs::FileHandle> handles_;
    std::map<fs::NodeId, uint64_t> nodes_;
    bool ending_ = false;
    uint32_t in_use_ = 0;
    Event idle_;  // woken when in_use_ falls to 0
};

// A call that works in a mount; unmounting waits for it.
class [[nodiscard]] MountUse {
  public:
    explicit MountUse(Mount& mount) : mount_(&mount) { ++mount_->in_use_; }
    MountUse(MountUse&& other) noexcept : mount_(std::exchange(other.mount_, nullptr)) {}
    MountUse(const MountUse&) = delete;
    MountUse& operator=(const MountUse&) = delete;
    MountUse& operator=(MountUse&&) = delete;
    ~MountUse() {
        if (mount_ != nullptr && --mount_->in_use_ == 0) mount_->idle_.wake_all();
    }
    Mount* operator->() const { return mount_; }
    Mount& operator*() const { return *mount_; }

  private:
    Mount* mount_;
};

class Mounts final : public SessionWatcher {
  public:
    using Options = MountBounds;
    // Watches `sessions` while it lives. All outlive it.
    Mounts(Reactor& reactor, SessionTable& sessions, FileSystemSource& source, Options options);
    ~Mounts() override;  // after every session ended
    Mounts(const Mounts&) = delete;
    Mounts& operator=(const Mounts&) = delete;

    // Errors: busy (the session, its tenant or all have too many), those of the source.
    Task<Result<MountId>> mount(const Call& call, Session& session, const std::string& container,
                                bool read_only, Report& report);
    // Closes what is open in it. Errors: stale.
    Task<Result<>> unmount(Session& session, MountId id);
    // Errors: stale.
    [[nodiscard]] Result<MountUse> find(const Session& session, MountId id) const;

    // See FileSystemSource.
    [[nodiscard]] std::string keeper(const std::string& pool, const std::string& container) const {
        return source_.keeper(pool, container);
    }

    // Some session has the container mounted, or is about to.
    [[nodiscard]] bool in_use(const std::string& pool, const std::string& container) const;

    Task<> session_ending(Session& session) override;

  private:
    // A container that is mounted, or about to be, or being closed.
    struct Shared {
        explicit Shared(Reactor& reactor) : turn(reactor, 1) {}
        Semaphore turn;      // opening and closing it
        uint32_t users = 0;  // mounts, and who waits for a turn
        std::unique_ptr<fs::FileSystem> file_system;
        Mount::Holders holders;
    };
    using Key = std::pair<SessionId, MountId>;
    [[nodiscard]] Result<> check_room(const Session& session, Report& report) const;
    // Errors: deadline, cancelled.
    Task<Result<>> wait_for_turn(const Call& call, Semaphore& turn);
    // The container's file system, which is opened where it is not open; with one more user.
    Task<Result<>> enter(const Call& call, std::string key, std::string pool, std::string container,
                         Report& report);
    // One user less; with the last one it is closed.
    Task<> leave(std::string key);
    Task<> close(Key key);

    [[nodiscard]] MountId draw() const;

    Reactor& reactor_;
    SessionTable& sessions_;
    FileSystemSource& source_;
    Options options_;
    std::map<std::string, Shared> shared_;
    std::map<Key, std::unique_ptr<Mount>> mounts_;
    std::map<MountId, const Session*> holders_;
    std::map<std::string, MountShare> tenants_;  // by subject, of those who have mounts
    MountShare all_;
};

}  // namespace ros2s::session
