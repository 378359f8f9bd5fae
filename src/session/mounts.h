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
// - Bounded per session: mounts, handles, nodes.
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

// One session's use of one file system. Reached through a MountUse.
class Mount {
  public:
    // Which session opened a handle, of all mounts of one file system.
    using Holders = std::map<fs::FileHandle, const Session*>;
    struct Owner {
        SessionTable& sessions;
        const Session& session;
        Holders& holders;
    };
    Mount(Reactor& reactor, Owner owner, std::string shared_key, fs::FileSystem& file_system,
          bool read_only, uint32_t handles_max, uint32_t nodes_max)
        : owner_(owner),
          file_system_(file_system),
          key_(std::move(shared_key)),
          read_only_(read_only),
          handles_max_(handles_max),
          nodes_max_(nodes_max),
          idle_(reactor) {}

    [[nodiscard]] fs::FileSystem& file_system() const { return file_system_; }
    [[nodiscard]] bool read_only() const { return read_only_; }

    // Room for one more handle. Errors: busy.
    [[nodiscard]] Result<> check_room() const {
        if (handles_.size() >= handles_max_) return fail(Code::busy, handles_max_);
        return {};
    }
    void opened(fs::FileHandle handle) {
        handles_.insert(handle);
        owner_.holders[handle] = &owner_.session;
    }
    // Errors: stale (not one of this mount's).
    [[nodiscard]] Result<> check(fs::FileHandle handle) const {
        if (handles_.contains(handle)) return {};
        say_if_foreign(handle);
        return fail(Code::stale);
    }
    // The caller closes the handle now. Errors: stale.
    [[nodiscard]] Result<> closing(fs::FileHandle handle) {
        ROS2S_TRY(check(handle));
        handles_.erase(handle);
        owner_.holders.erase(handle);
        return {};
    }
    // A reference to the node goes to the client. Errors: busy (too many nodes; the file system has
    // its reference back).
    [[nodiscard]] Result<> refer(fs::NodeId node);
    // The client drops references; more than it has are ignored.
    void forget(fs::NodeId node, uint64_t count);

  private:
    friend class Mounts;
    friend class MountUse;
    void say_if_foreign(fs::FileHandle handle) const;
    Owner owner_;
    fs::FileSystem& file_system_;
    std::string key_;
    bool read_only_;
    uint32_t handles_max_;
    uint32_t nodes_max_;
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
    struct Options {
        uint32_t per_session_max = 64;
        uint32_t handles_max = 64 * 1024;  // per mount
        uint32_t nodes_max = 1 << 20;      // per mount
    };
    // Watches `sessions` while it lives. All outlive it.
    Mounts(Reactor& reactor, SessionTable& sessions, FileSystemSource& source, Options options);
    ~Mounts() override;  // after every session ended
    Mounts(const Mounts&) = delete;
    Mounts& operator=(const Mounts&) = delete;

    // Errors: busy (the session has too many), those of the source.
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
    struct Shared {
        std::unique_ptr<fs::FileSystem> file_system;
        uint32_t mounts = 0;
        Mount::Holders holders;
    };
    using Key = std::pair<SessionId, MountId>;
    Task<> close(Key key);
    Task<> release(std::string key);

    Reactor& reactor_;
    SessionTable& sessions_;
    FileSystemSource& source_;
    Options options_;
    uint64_t last_mount_;
    Semaphore changing_;   // opening and closing shared file systems takes turns
    std::string opening_;  // the key of what is being opened; empty: nothing
    std::map<std::string, Shared> shared_;
    std::map<Key, std::unique_ptr<Mount>> mounts_;
    std::map<MountId, const Session*> holders_;
};

}  // namespace ros2s::session
