// Server: one mounted file system: the libfuse session, and the loop that takes the kernel's
// requests from /dev/fuse and runs each as a coroutine on the reactor that owns the FileSystem.
// The reactor polls the descriptor beside its disk I/O. Other threads only drop pages.
//
//     kernel ──/dev/fuse──► receive ──► operation (coroutine, in the nursery) ──► FileSystem
//        ▲                                   │
//        └────────── fuse_reply_* ◄──────────┘
//
// Thread rule: everything on the reactor's core, but mount() and unmount(), which block and are
// called before and after the loop.
//
// Invariants
// - At most Options::requests_max requests are in progress, beside those of killed programs. The
//   next one is not read before one of them is answered.
// - Every request is answered once, by the coroutine that owns it. If its program is killed, the
//   mount answers before, and the kernel refuses the coroutine's answer.
// - unmount() comes after serve() is done.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "borrowed_files.h"
#include "buffers.h"
#include "cached_pages.h"
#include "fuse_api.h"
#include "kernel_caches.h"
#include "known_directories.h"
#include "page_reads.h"
#include "poll_wait.h"
#include "ros2s/base/log.h"
#include "ros2s/base/quota.h"
#include "ros2s/fs/file_system.h"
#include "ros2s/runtime/blocking.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/stop.h"
#include "ros2s/runtime/sync.h"
#include "running_requests.h"
#include "second_creates.h"
#include "write_handles.h"

struct fuse_in_header;

namespace ros2s::fuse {

// States whether others may change the file system while it is mounted, and so what the kernel may
// cache.
enum class Sharing : uint8_t {
    // Every change passes this mount (an embedded pool has one owner): names, attributes and file
    // pages stay in the kernel's caches until it drops them itself.
    none,
    // Others write, too: names, attributes and pages are kept under leases (kernel_caches.h). Reads
    // without a lease, and handles that write, bypass the page cache. The file system has the
    // locks.
    shared,
};

struct ServerOptions {
    std::string mount_point;  // absolute
    std::string source;       // what `mount` and `df` show as the device
    int device = -1;          // of /dev/fuse, if it is mounted already (RootMount); the server's
    Sharing sharing = Sharing::shared;
    bool caching = true;  // false: the kernel keeps nothing
    // An exclusive mount: the kernel keeps writes, too, until close or fsync. Only with
    // Sharing::none and `caching`. It then has the size and the times of each file that it knows.
    bool exclusive = false;
    bool read_only = false;
    bool allow_other = false;
    bool no_exec = false;
    bool asks_for_groups = false;  // the file system checks permissions for its callers
    bool access_lists = false;     // it has them (fs/acl.h)
    size_t requests_max = 128;
    uint64_t cached_pages_bytes_max = 64 << 20;  // copies of the kernel's pages (cached_pages.h)
    // Facts about the pool for programs that request them (api/mount_trace.h); empty: none.
    std::function<std::string()> status{};
    // What is acknowledged and not durable yet, as fs/unsynced.h; empty: the file system says it.
    std::function<std::string()> unsynced{};
    Log log{};
};

class Server {
  public:
    Server(fs::FileSystem& file_system, Reactor& reactor, BlockingPool& blocking,
           ServerOptions options);
    ~Server();
    Server& operator=(Server&&) = delete;

    // From here on the mount point exists and requests queue in the kernel. Errors: denied, busy,
    // io; the report has the remedy.
    [[nodiscard]] Result<> mount(Report& report);
    // Answers requests until the file system is unmounted or stop() was called. Returns when the
    // last request in progress is answered.
    Task<> serve();
    // Ends serve() when all requests that the kernel has queued are answered, or after 60 s if more
    // keep coming. Later requests fail in their programs with ENOTCONN.
    //
    // The kernel's sync of a mount like this returns when the writes are queued, not when they are
    // answered. A server that ended at once would lose them.
    void stop() noexcept;
    // Gives back memory after each burst of work, until `stop` is requested.
    Task<> give_memory_back_at_rest(StopToken stop);
    // Makes the kernel drop pages that may be old (page_reads.h), until `stop` is requested.
    Task<> drop_old_pages(StopToken stop);
    [[nodiscard]] uint64_t requests_taken() const noexcept { return requests_taken_; }
    // After serve(): false if the 60 s ran out.
    [[nodiscard]] bool answered_all() const noexcept { return answered_all_; }
    // co_await ready(): until the kernel has initialised the mount, so that it answers. Also
    // returns when serve() ended before that.
    [[nodiscard]] Event& ready() noexcept { return ready_; }
    // Unmounts if the file system is still mounted. Open files fail from then on.
    void unmount() noexcept;

    // ---- for the operations (operations.cc)
    [[nodiscard]] fs::FileSystem& file_system() noexcept { return file_system_; }
    [[nodiscard]] Reactor& reactor() noexcept { return reactor_; }
    [[nodiscard]] const ServerOptions& options() const noexcept { return options_; }
    [[nodiscard]] ReadBuffers& read_buffers() noexcept { return read_buffers_; }
    [[nodiscard]] WriteHandles& write_handles() noexcept { return write_handles_; }
    [[nodiscard]] CachedPages& cached_pages() noexcept { return cached_pages_; }
    [[nodiscard]] PageReads& page_reads() noexcept { return page_reads_; }
    [[nodiscard]] BorrowedFiles& borrowed_files() noexcept { return borrowed_files_; }
    [[nodiscard]] BlockingPool& blocking() noexcept { return blocking_; }
    // Of /dev/fuse, for notifications.
    [[nodiscard]] int kernel_descriptor() const noexcept;
    [[nodiscard]] SecondCreates& second_creates() noexcept { return second_creates_; }
    // Logs the file, and the position in it, if the error is `corrupt`: the program only gets EIO.
    void note_failure(fs::NodeId node, const Error& error);
    // Logs that a time was cut to the range that can be stored. Both are seconds since 1970.
    void note_cut_time(fs::NodeId node, int64_t set, int64_t kept);
    // Continues the request that is being dispatched in this task. At most once a request.
    void run(Task<> task);
    // The same for a request that waits for other programs, without its slot. `waits_end`: the
    // mount ends.
    [[nodiscard]] bool has_room_to_wait() const noexcept {
        return !stop_by_ && waits_.running() < waits_max;
    }
    void wait(Task<> task);
    // For a call that may wait for ever. The user's calls leave room for those of others, and all
    // of them for requests that end soon. Errors: which limit is reached.
    [[nodiscard]] auto take_endless_wait(uid_t user) {
        return endless_waits_.take({.tenant = user});
    }
    [[nodiscard]] StopToken waits_end() noexcept { return waits_end_.token(); }
    // The memory of the request that is being dispatched: the caller keeps its payload alive.
    [[nodiscard]] ReceiveBuffer take_receive_buffer() noexcept { return std::move(current_); }
    void give_receive_buffer(ReceiveBuffer buffer) { receive_buffers_.give(std::move(buffer)); }
    void connected(fuse_conn_info& connection) noexcept;
    // The kernel may keep names, attributes and pages.
    [[nodiscard]] bool caches() const noexcept {
        return options_.sharing == Sharing::none && options_.caching;
    }
    // The kernel may keep writes.
    [[nodiscard]] bool is_exclusive() const noexcept { return options_.exclusive; }
    [[nodiscard]] KernelCaches& kernel_caches() noexcept { return kernel_caches_; }
    // Threads that make the kernel drop pages or names, and those that wait for their turn. The
    // kernel may wait there for replies of this process.
    [[nodiscard]] size_t& kernel_drops() noexcept { return kernel_drops_; }
    // The caller keeps leases for the kernel.
    [[nodiscard]] bool takes_leases() const noexcept { return kernel_caches_.is_used(); }
    // How long the kernel may keep what a reply with these leases says.
    [[nodiscard]] CacheTimes cache_times(KernelCaches::Reply reply,
                                         std::span<const Leased> leases) {
        if (caches()) return KernelCaches::always;
        if (const auto changed = directories_.changed(reply.directory)) {
            reply.unchanged = reactor_.wall_time() - *changed;
        }
        CacheTimes times = kernel_caches_.times(reply, leases);
        if (is_written(reply.node)) times.attributes = 0;
        return times;
    }
    // The lease under which the kernel may keep pages of the file; 0: it may not.
    [[nodiscard]] uint64_t page_lease(fs::NodeId node) const noexcept {
        return is_written(node) || !maps_shared() ? 0 : kernel_caches_.lease_of(node);
    }
    // True if files that bypass the page cache can be mapped shared (Linux 6.6). Otherwise mmap(2)
    // with MAP_SHARED fails with ENODEV.
    [[nodiscard]] bool maps_shared() const noexcept;
    // One more handle of the file, or one less. `mappable`: a program can map the file with it to
    // store to it.
    struct HandleKind {
        bool writes = false, mappable = false, paged = false;
    };
    void note_handle(fs::NodeId node, HandleKind kind, int more) {
        const auto found = handles_.try_emplace(node.value).first;
        found->second.all += more;
        if (kind.writes) found->second.writing += more;
        if (kind.mappable) found->second.mappable += more;
        found->second.paged |= kind.paged;
        if (found->second.all == 0) handles_.erase(found);
    }
    // Handles of files that are append-only, where the kernel caches and has the offsets.
    void note_append_only(fs::FileHandle handle) { append_only_.insert(handle.value); }
    void forget_append_only(fs::FileHandle handle) { append_only_.erase(handle.value); }
    [[nodiscard]] bool is_append_only(fs::FileHandle handle) const {
        return append_only_.contains(handle.value);
    }
    // A program here may change the file: the kernel does not notice the end of each such change.
    [[nodiscard]] bool is_written(fs::NodeId node) const {
        const auto found = handles_.find(node.value);
        return found != handles_.end() && found->second.writing > 0;
    }
    // Programs may read it through the page cache with read(2).
    [[nodiscard]] bool is_paged(fs::NodeId node) const {
        const auto found = handles_.find(node.value);
        return found != handles_.end() && found->second.paged;
    }
    [[nodiscard]] bool is_open(fs::NodeId node) const { return handles_.contains(node.value); }
    [[nodiscard]] bool is_mappable(fs::NodeId node) const {
        const auto found = handles_.find(node.value);
        return found != handles_.end() && found->second.mappable > 0;
    }
    // The supplementary groups of the request's program, if they are needed or the file system
    // checks permissions. They are read from /proc, at most once a second for each program.
    [[nodiscard]] std::vector<uint32_t> groups_of(fuse_req_t request, bool needed);
    // The current request creates a file without a name (FUSE_TMPFILE).
    [[nodiscard]] bool creates_nameless() const noexcept;
    // The current request asks for the time of creation, too (FUSE_STATX).
    [[nodiscard]] bool asks_for_birth_time() const noexcept;
    // True if a change by the program that made the current request clears set-id bits (it lacks
    // CAP_FSETID). Only root may keep them.
    [[nodiscard]] bool clears_set_ids() const noexcept;
    [[nodiscard]] KnownDirectories& directories() noexcept { return directories_; }
    // Attributes that the kernel gets, `by_name` in reply to a look-up. Keeps the directories whose
    // set-group-id bit makes new nodes inherit their group: the kernel leaves that to the file
    // system and does not send the parent's mode. The attributes of every directory pass here
    // before a node is created in it. Keeps the files that have set-id bits, too, and which
    // access lists nodes have. `acl_changes`: when the attributes were requested.
    void note_attributes(const fs::Attributes& attributes, bool by_name, uint64_t acl_changes);
    // The kernel got attributes of the node lately, and it had no such access list or capabilities
    // then. The kernel asks for lists when it has got new attributes, and `ls` for capabilities.
    // Under leases the file system knows the answer.
    [[nodiscard]] bool lacks_attribute(fs::NodeId node, std::string_view name) const;
    // A program here may have changed one of these of the node.
    void acl_changed(fs::NodeId node) noexcept {
        ++acl_changes_;
        acl_flags_.erase(node.value);
    }
    [[nodiscard]] uint64_t acl_changes() const noexcept { return acl_changes_; }
    // The current request sets an access list, and the user may not keep S_ISGID.
    [[nodiscard]] bool clears_set_group() const noexcept {
        return (setxattr_flags_ & clear_set_group) != 0;
    }
    // For the kernel, the file has set-id bits.
    [[nodiscard]] bool has_set_ids(fs::NodeId node) const {
        return set_id_files_.contains(node.value);
    }
    // The kernel requests the attributes of a file that lost set-id bits, if it keeps others.
    void set_ids_may_be_gone(fs::NodeId node) noexcept;
    // The kernel looks the node up again before it uses it.
    void forget(fs::NodeId node, uint64_t count);
    [[nodiscard]] std::optional<gid_t> inherited_group(fs::NodeId parent) const;

  private:
    enum class Received : uint8_t { request, nothing, again, end };
    static constexpr uint32_t clear_set_group = 1;  // FUSE_SETXATTR_ACL_KILL_SGID
    static ssize_t write_to_kernel(int descriptor, iovec* parts, int count, void* server) noexcept;
    [[nodiscard]] ConstBytes current_request() const noexcept;
    Received receive();
    void dispatch();
    // Of requests that libfuse does not know: it then sees a request with the same beginning.
    void translate() noexcept;
    void shorten_setxattr(fuse_in_header& header) noexcept;
    Task<> run_and_release(Task<> task, RunningRequests::Request request);
    // The program of a request got a signal.
    void interrupted(uint64_t unique);
    Task<> answer_killed_programs();
    // The program ends. Its request gives its slot back: at the end of the process the kernel sends
    // more, which cannot be interrupted.
    void answer_for_killed(uint64_t unique);
    Task<> look_at_mapped(std::vector<PageReads::Read> reads);
    // Interrupts are not read while all slots are taken. Until `stop` is requested.
    Task<> look_when_full(StopToken stop);

    fs::FileSystem& file_system_;
    Reactor& reactor_;
    BlockingPool& blocking_;
    ServerOptions options_;
    uint64_t requests_taken_ = 0;
    fuse_session* session_ = nullptr;
    bool mounted_ = false;
    bool shaking_hands_ = false;  // libfuse's next reply is the one to FUSE_INIT
    uint64_t flags_past_libfuse_ = 0;

    Event ready_;
    Semaphore slots_;
    // Requests of killed programs that go on without a slot.
    static constexpr size_t left_behind_max = 128;
    size_t left_behind_ = 0;
    Nursery nursery_;
    RunningRequests running_requests_;
    Nursery killed_looks_;  // one, while programs have got signals
    static constexpr size_t waits_max = 8192;
    Quota endless_waits_{{.in_all = waits_max / 2}};
    Nursery waits_;
    StopSource waits_end_;
    Spares<ReceiveBuffer> receive_buffers_;
    ReadBuffers read_buffers_;
    WriteHandles write_handles_;
    CachedPages cached_pages_;  // used if the kernel's pages are bypassed
    PageReads page_reads_;      // used if others change the file system
    size_t kernel_drops_ = 0;
    KernelCaches kernel_caches_;  // likewise
    BorrowedFiles borrowed_files_;
    KnownDirectories directories_;
    SecondCreates second_creates_;
    struct Handles {
        int64_t all = 0, writing = 0, mappable = 0;
        bool paged = false;  // one of them used the page cache
    };
    std::unordered_map<uint64_t, Handles> handles_;  // by node
    std::unordered_set<uint64_t> append_only_;       // handles
    ReceiveBuffer current_;  // the request being dispatched, unless its task took it
    size_t current_bytes_ = 0;
    uint32_t current_opcode_ = 0;  // as the kernel sent it
    RunningRequests::Request current_identity_;
    uint32_t setxattr_flags_ = 0;
    bool current_runs_ = false;         // its task was started and holds the slot
    std::optional<PollWait> requests_;  // from mount() on
    std::optional<Time> stop_by_;
    uint32_t corrupt_ = 0;  // reads and writes that found corrupt bytes
    uint32_t cut_times_ = 0;
    bool answered_all_ = true;
    std::unordered_map<uint64_t, gid_t> set_group_id_directories_;
    std::unordered_set<uint64_t> set_id_files_;
    struct AclFlags {
        uint32_t flags = 0;  // fs::node_flags
        Time at{};
    };
    std::unordered_map<uint64_t, AclFlags> acl_flags_;  // by node; at most acl_flags_max
    uint64_t acl_changes_ = 0;
    struct Groups {
        Time read_at{};
        std::vector<uint32_t> groups;
    };
    std::unordered_map<pid_t, Groups> groups_;  // by program; at most groups_max
};

}  // namespace ros2s::fuse
