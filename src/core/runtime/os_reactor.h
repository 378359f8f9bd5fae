// OsReactor: the Reactor of a real process: a loop over io_uring, or over threads if io_uring is
// not available. Without work it first polls with sched_yield, if polling found work in recent
// waits (poll_habit.h). Then it sleeps in the ring's wait, its only place to sleep (but see
// `sync_in_loop`). An idle reactor
// uses no processor time.
//
// One turn of the loop; each step is bounded:
//   mailbox (other threads) → ring completions → due timers → pollers → ready handles → submit
//
// Either call run() on the calling thread, or let start() create a thread. Other threads use
// run_blocking() (run_blocking.h). Inside an application (`callers_lead`) a thread that waits for a
// result runs the loop itself, see class Lead; the reactor's own thread runs it when none does.
//
// Invariants
// - It is destroyed after it has stopped, with no operation in flight, and after every thread that
//   may post to it has ended or been joined.
// - In a forked child it must not be used: see fork.h.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "ros2s/base/metrics.h"
#include "ros2s/runtime/reactor.h"
#include "ros2s/runtime/ring.h"

namespace ros2s {

enum class RingChoice : uint8_t {
    automatic,  // io_uring, or threads if the kernel refuses it; ring_reason() returns why
    io_uring,   // io_uring; otherwise creation fails
    threads,
};

struct OsReactorOptions {
    RingChoice ring = RingChoice::automatic;
    uint32_t ring_entries = 512;  // transfers in the kernel at once; further ones wait in user
                                  // space
    // SQEs are submitted at the end of a turn, and within it in groups of this many. With larger
    // groups, a device with a single queue becomes idle while the loop computes.
    uint32_t submit_group = 8;
    // The longest time that a wait polls before it sleeps. Zero: never polls.
    static constexpr Duration poll_for_default = std::chrono::microseconds(250);
    Duration poll_for = poll_for_default;
    // Threads that wait for a result run the loop. Only with start().
    bool callers_lead = false;
    // The loop's thread executes an fdatasync that it would otherwise only wait for, without time
    // limit and with no other caller near. This saves two wake-ups, but the loop stands still for
    // as long as the device takes, so it is not for servers. Only with io_uring.
    bool sync_in_loop = false;
    std::string thread_name = "ros2store";
};

struct OsReactorCounters {
    Counter resumed, remote_posts, sleeps;
    Counter polls_contended;  // yields after which another process used a whole time slice
};

class OsReactor final : public Reactor {
  public:
    // Errors: unsupported or denied (io_uring was required and is refused), no_memory.
    [[nodiscard]] static Result<std::unique_ptr<OsReactor>> create(OsReactorOptions options,
                                                                   Report& report);
    ~OsReactor() override;  // stops and joins its own thread
    OsReactor& operator=(OsReactor&&) = delete;

    // Runs the loop on a thread of its own. Errors: no_memory, those of thread creation.
    [[nodiscard]] Result<> start(Report& report);
    // Runs the loop on the calling thread until stop(). Always the same thread.
    void run();
    // Runs the task on the calling thread, and all other work of the reactor, until the task is
    // done.
    template <class T>
    T run(Task<T> task) {
        std::optional<T> result;
        run_void(store(std::move(task), result));
        return std::move(*result);
    }
    void run(Task<> task) { run_void(std::move(task)); }
    // May be called from any thread, also before run(). It is final. The loop ends after the
    // current turn.
    void stop() noexcept;
    // Waits for the reactor's own thread to end after stop().
    void join();

    // "io_uring (single issuer, deferred task run)", or "threads: io_uring_setup failed (…): …".
    [[nodiscard]] const std::string& ring_reason() const noexcept;
    [[nodiscard]] const OsReactorOptions& options() const noexcept;
    [[nodiscard]] const OsReactorCounters& counters() const noexcept;
    // How many turns have begun. On its core.
    [[nodiscard]] uint64_t turns() const noexcept;
    // May be called from any thread. True in a forked child, where no loop runs.
    [[nodiscard]] bool in_forked_child() const noexcept;
    // May be called from any thread, after work was made visible as for wake(). With callers_lead,
    // runs the loop for up to two turns on the calling thread, without sleeping. If another thread
    // runs the loop, wakes that thread instead.
    void advance() noexcept;
    // Like advance(), but does not run the loop here: it wakes the thread that sleeps in the loop.
    // If no thread runs the loop, the next caller that leads does the work; if none comes, the
    // reactor's own thread does it within a millisecond.
    void announce() noexcept;

    Time now() const noexcept override;
    Time turn_time() const noexcept override;
    WallTime wall_time() const noexcept override;
    Random& random() noexcept override;
    const Secrets& secrets() const noexcept override;
    bool is_current() const noexcept override;
    void post(std::coroutine_handle<> handle) noexcept override;
    void post_remote(RemotePost& post) noexcept override;
    void wake() noexcept override;
    void relax() noexcept override;
    void arm(Timer& timer) noexcept override;
    void disarm(Timer& timer) noexcept override;
    void attach(Poller& poller) override;
    void detach(Poller& poller) noexcept override;
    Ring* ring() noexcept override;

  private:
    friend class Lead;
    friend class Follow;
    struct Loop;
    explicit OsReactor(std::unique_ptr<Loop> loop);
    void stand_in();
    template <class T>
    static Task<> store(Task<T> task, std::optional<T>& result) {
        result.emplace(co_await std::move(task));
    }
    void run_void(Task<> task);
    std::unique_ptr<Loop> loop_;
};

// While it lives the calling thread runs the reactor's loop:
//
//     if (Lead lead(reactor); lead) {
//         while (!done()) lead.turn();  // what done() looks at changes in turns only
//     } else {
//         Follow follow(reactor);       // another thread runs the loop
//         ... sleep until woken for done() ...
//     }
//
// False if another thread runs the loop, or without callers_lead.
class Lead {
  public:
    // A caller whose request will probably end in one turn leads even if callers overlap.
    enum class Expects : uint8_t { turns, one_turn };
    explicit Lead(OsReactor& reactor, Expects expected = Expects::turns) noexcept;
    ~Lead();
    Lead& operator=(Lead&&) = delete;
    [[nodiscard]] explicit operator bool() const noexcept { return leads_; }
    // Sleeps until `until` at most if there is nothing to do.
    void turn(Time until = Time::max()) noexcept;

  private:
    friend class OsReactor;
    Lead(OsReactor& reactor, bool leads) noexcept;
    OsReactor& reactor_;
    const void* before_ = nullptr;
    bool leads_;
};

// While a Follow exists, another thread runs the loop, and the caller sleeps until it is woken.
class Follow {
  public:
    explicit Follow(OsReactor& reactor) noexcept;
    ~Follow();
    Follow& operator=(Follow&&) = delete;

  private:
    OsReactor& reactor_;
};

}  // namespace ros2s
