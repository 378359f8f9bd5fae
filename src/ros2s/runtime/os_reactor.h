// OsReactor: the Reactor of a real process: a loop on one thread over io_uring (or threads, where
// io_uring is not to be had). It polls with sched_yield for a while after there was work and then
// sleeps at one point, in the ring's wait; an idle reactor costs nothing.
//
// One turn of the loop, each step bounded:
//   mailbox (other threads) → ring completions → due timers → pollers → what was ready → submit
//
// Either run on the calling thread (run()), or start() its own thread, as libros2store does inside
// somebody else's process. Callers on other threads use run_blocking() (run_blocking.h).
//
// Invariants
// - It is destroyed after it stopped, with no operation in flight and after every thread that may
//   post to it has ended or been joined.
// - In a forked child it is dead: see fork.h.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "ros2s/base/metrics.h"
#include "ros2s/runtime/reactor.h"
#include "ros2s/runtime/ring.h"

namespace ros2s {

enum class RingChoice : uint8_t {
    automatic,  // io_uring, or threads where the kernel refuses it; ring_reason() says why
    io_uring,   // or creation fails
    threads,
};

struct OsReactorOptions {
    RingChoice ring = RingChoice::automatic;
    uint32_t ring_entries = 512;  // operations in the kernel at once; more wait in user space
    uint32_t ring_threads = 4;    // of RingChoice::threads
    // SQEs are handed over in groups of at most this many, and at once while few operations are
    // in the kernel. Larger groups let a device with a single queue drain while the loop computes.
    uint32_t submit_group = 4;
    // How long to poll after the last work before sleeping. More than 200 µs gains nothing.
    Duration poll_for = std::chrono::microseconds(100);
    std::string thread_name = "ros2store";
};

struct OsReactorCounters {
    Counter resumed, remote_posts, sleeps;
    Counter polls_contended;  // yields that went to a process that computes
};

class OsReactor final : public Reactor {
  public:
    // Errors: unsupported or denied (io_uring was demanded and refused), no_memory.
    [[nodiscard]] static Result<std::unique_ptr<OsReactor>> create(OsReactorOptions options,
                                                                   Report& report);
    ~OsReactor() override;  // stops and joins its own thread
    OsReactor(const OsReactor&) = delete;
    OsReactor& operator=(const OsReactor&) = delete;

    // Runs the loop on a thread of its own. Errors: no_memory, those of thread creation.
    [[nodiscard]] Result<> start(Report& report);
    // Runs the loop on the calling thread until stop(). Always the same thread.
    void run();
    // Runs the task, and everything else meanwhile, on the calling thread until the task is done.
    template <class T>
    T run(Task<T> task) {
        std::optional<T> result;
        run_void(store(std::move(task), result));
        return std::move(*result);
    }
    void run(Task<> task) { run_void(std::move(task)); }
    // From any thread, also before run(), and for good. The loop ends after its present turn.
    void stop() noexcept;
    // Waits for the own thread to end after stop().
    void join();

    // "io_uring (single issuer, deferred task run)", or "threads: io_uring_setup failed (…): …".
    [[nodiscard]] const std::string& ring_reason() const noexcept;
    [[nodiscard]] const OsReactorOptions& options() const noexcept;
    [[nodiscard]] const OsReactorCounters& counters() const noexcept;
    // From any thread: this is a copy in a forked child, and no loop runs behind it.
    [[nodiscard]] bool in_forked_child() const noexcept;
    // For run_blocking(): a caller may poll for its answer while few others do.
    [[nodiscard]] bool begin_caller_poll() noexcept;
    void end_caller_poll() noexcept;

    Time now() const noexcept override;
    WallTime wall_time() const noexcept override;
    Random& random() noexcept override;
    const Secrets& secrets() const noexcept override;
    bool is_current() const noexcept override;
    void post(std::coroutine_handle<> handle) noexcept override;
    void post_remote(RemotePost& post) noexcept override;
    void wake() noexcept override;
    void arm(Timer& timer) noexcept override;
    void disarm(Timer& timer) noexcept override;
    void attach(Poller& poller) override;
    void detach(Poller& poller) noexcept override;
    Ring* ring() noexcept override;

  private:
    struct Loop;
    explicit OsReactor(std::unique_ptr<Loop> loop);
    template <class T>
    static Task<> store(Task<T> task, std::optional<T>& result) {
        result.emplace(co_await std::move(task));
    }
    void run_void(Task<> task);
    std::unique_ptr<Loop> loop_;
};

}  // namespace ros2s
