// Server: one mounted file system: the libfuse session, and the loop that takes the kernel's
// requests from /dev/fuse and runs each as a coroutine on the reactor that owns the FileSystem.
// There is no other thread: the reactor polls the descriptor beside its disk I/O.
//
//     kernel ──/dev/fuse──► receive ──► operation (coroutine, in the nursery) ──► FileSystem
//        ▲                                   │
//        └────────── fuse_reply_* ◄──────────┘
//
// Thread rule: everything on the reactor's core, but mount() and unmount(), which block and are
// called before and after the loop.
//
// Invariants
// - At most Options::requests_max requests are in hand; the next one is not read before one of
//   them is answered.
// - Every request is answered exactly once, by the coroutine that owns it.
// - unmount() comes after serve() is done.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>

#include "buffers.h"
#include "fuse_api.h"
#include "poll_wait.h"
#include "ros2s/base/log.h"
#include "ros2s/fs/file_system.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/stop.h"
#include "ros2s/runtime/sync.h"
#include "write_handles.h"

namespace ros2s::fuse {

// Who else may change the file system while it is mounted; decides what the kernel may keep.
enum class Sharing : uint8_t {
    // Every change passes this mount (an embedded pool has one owner): names, attributes and file
    // pages stay in the kernel's caches until it drops them itself.
    exclusive,
    // Others write too: nothing is kept beyond the request that fetched it, reads and writes go
    // past
    // the page cache, and file locks are refused, because others would not see them.
    shared,
};

struct ServerOptions {
    std::string mount_point;  // absolute
    std::string source;       // what `mount` and `df` show as the device
    Sharing sharing = Sharing::shared;
    bool caching = true;  // false: an exclusive mount, too, keeps nothing
    bool read_only = false;
    bool allow_other = false;
    size_t requests_max = 128;
    // What is told of the pool to who asks (api/mount_trace.h); empty: nothing.
    std::function<std::string()> status{};
    Log log{};
};

class Server {
  public:
    Server(fs::FileSystem& file_system, Reactor& reactor, ServerOptions options);
    ~Server();
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;

    // From here on the mount point is there and requests queue in the kernel.
    // Errors: denied, busy, io; the report says what to do.
    [[nodiscard]] Result<> mount(Report& report);
    // Answers requests until the file system is unmounted or stop() was called; returns when the
    // last request in hand is answered.
    Task<> serve();
    // Ends serve() once all that the kernel has queued is answered, or after 60 s where it does not
    // cease. What comes later fails in the callers with ENOTCONN.
    //
    // The kernel's sync of a mount like this one returns when the writes are queued, not when they
    // are answered, so that a server that ended at once would lose them.
    void stop() noexcept;
    // Whenever a burst of work is over, gives back the memory that it took. Until `stop` is asked.
    Task<> give_memory_back_at_rest(StopToken stop);
    [[nodiscard]] uint64_t requests_taken() const noexcept { return requests_taken_; }
    // After serve(): false when those 60 s were over.
    [[nodiscard]] bool answered_all() const noexcept { return answered_all_; }
    // co_await ready(): until the kernel has shaken hands, so that the mount answers. Also passes
    // when serve() ended before that.
    [[nodiscard]] Event& ready() noexcept { return ready_; }
    // Takes the mount point away if it is still there. Files that are open in it fail from now on.
    void unmount() noexcept;

    // ---- for the operations (operations.cc)
    [[nodiscard]] fs::FileSystem& file_system() noexcept { return file_system_; }
    [[nodiscard]] Reactor& reactor() noexcept { return reactor_; }
    [[nodiscard]] const ServerOptions& options() const noexcept { return options_; }
    [[nodiscard]] ReadBuffers& read_buffers() noexcept { return read_buffers_; }
    [[nodiscard]] WriteHandles& write_handles() noexcept { return write_handles_; }
    // Says which file, and where in it, where the error is `corrupt`: the caller learns EIO alone.
    void note_failure(fs::NodeId node, const Error& error);
    // Says that a time was cut to what can be kept, in seconds since 1970.
    void note_cut_time(fs::NodeId node, int64_t seconds);
    // The request that is being dispatched goes on as this task. At most once a request.
    void run(Task<> task);
    // The memory that the request being dispatched lies in: the caller keeps its payload alive.
    [[nodiscard]] ReceiveBuffer take_receive_buffer() noexcept { return std::move(current_); }
    void give_receive_buffer(ReceiveBuffer buffer) { receive_buffers_.give(std::move(buffer)); }
    void connected(fuse_conn_info& connection) noexcept;
    // The kernel may keep names, attributes and pages.
    [[nodiscard]] bool caches() const noexcept {
        return options_.sharing == Sharing::exclusive && options_.caching;
    }
    [[nodiscard]] double cache_seconds() const noexcept;
    // Files past the page cache can be mapped for sharing (Linux 6.6). Where not, mmap(2) with
    // MAP_SHARED says ENODEV.
    [[nodiscard]] bool maps_shared() const noexcept { return caches() || can_map_uncached_; }
    // Directories whose set-group-id bit makes what is created in them inherit their group. The
    // kernel leaves that to the file system and does not send the parent's mode along, but every
    // directory's attributes have passed here before something is created in it.
    void note_attributes(const fs::Attributes& attributes);
    [[nodiscard]] std::optional<gid_t> inherited_group(fs::NodeId parent) const;

  private:
    enum class Received : uint8_t { request, nothing, again, end };
    static ssize_t write_to_kernel(int descriptor, iovec* parts, int count, void* server) noexcept;
    Received receive();
    void dispatch();
    Task<> run_and_release(Task<> task);

    fs::FileSystem& file_system_;
    Reactor& reactor_;
    ServerOptions options_;
    uint64_t requests_taken_ = 0;
    fuse_session* session_ = nullptr;
    bool mounted_ = false;
    bool shaking_hands_ = false;  // the next thing that libfuse sends is its answer to FUSE_INIT
    bool can_map_uncached_ = false;

    Event ready_;
    Semaphore slots_;
    Nursery nursery_;
    Spares<ReceiveBuffer> receive_buffers_;
    ReadBuffers read_buffers_;
    WriteHandles write_handles_;
    ReceiveBuffer current_;  // the request being dispatched, unless its task took it
    size_t current_bytes_ = 0;
    bool current_runs_ = false;         // its task was started and holds the slot
    std::optional<PollWait> requests_;  // from mount() on
    std::optional<Time> stop_by_;
    uint32_t corrupt_ = 0;  // reads and writes that met corrupt bytes
    uint32_t cut_times_ = 0;
    bool answered_all_ = true;
    std::unordered_map<uint64_t, gid_t> set_group_id_directories_;
};

}  // namespace ros2s::fuse
