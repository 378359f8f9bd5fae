// Leadership: which thread runs a reactor's loop (the leader/followers pattern). A caller that
// waits for a result leads: it runs the loop's turns itself, so that neither a request nor its
// result passes between threads. The reactor's own thread leads when no caller does.
//
//     a caller's thread                        the reactor's own thread
//     try_lead() ── true ─► turns, leave()     stand_in() ── true ─► turns until asked(), leave()
//                └─ false ─► follow(), sleep
//                            on its own futex, unfollow()
//
// If a caller stops leading, the own thread waits `grace` before it leads: callers usually return.
// Meanwhile no thread leads. If a thread follows, or calls, the own thread leads at once.
//
// Invariants
// - At most one thread leads; what it wrote is visible to the next one.
// - A thread that follows never waits without a leader: leave() publishes "none" and then looks
//   for followers, follow() counts itself and then looks for a leader, all sequentially consistent.
// - If two callers overlap, the own thread leads for both, even if no thread leads when one calls:
//   passing the lead back and forth would cost a wake-up for each request. A caller leads again
//   when `shared_for` has passed without overlap.
// - Callers whose requests end in one turn pass the lead to each other without sleeping.
//
// Any thread may call it, except stand_in(): only the own thread calls that.
#pragma once
#include <atomic>
#include <cstdint>

#include "ros2s/runtime/time.h"
#include "waker.h"

namespace ros2s {

class Leadership {
  public:
    explicit Leadership(Waker& waker) noexcept : waker_(waker) {}
    Leadership& operator=(Leadership&&) = delete;

    // Leads if no thread does; never waits.
    [[nodiscard]] bool try_lead() noexcept { return try_lead(caller); }
    // Like try_lead(). If the own thread leads, requests that it leaves and waits for its turn to
    // end.
    [[nodiscard]] bool lead() noexcept;
    // For a caller whose request will probably end in one turn. Like lead(), but also while other
    // callers sleep, and it waits for the turn of another such caller.
    [[nodiscard]] bool lead_briefly() noexcept;
    void leave() noexcept;

    // A caller that may not lead brackets its sleep with these.
    void follow() noexcept;
    void unfollow() noexcept { followers_.fetch_sub(1, std::memory_order_relaxed); }
    // If no thread leads, the own thread does so at once.
    void ensure() noexcept {
        if (leader_.load(std::memory_order_seq_cst) == none) call();
    }

    // Waits until the own thread is needed, and leads. Returns false after close().
    [[nodiscard]] bool stand_in() noexcept;
    // A caller leads, and no other one has been seen in the last `shared_for`.
    [[nodiscard]] bool is_alone() const noexcept;
    // For a thread that has brought work and does not wait.
    void pass_by() noexcept;
    // The own thread leads, and a caller wants to lead.
    [[nodiscard]] bool asked() const noexcept { return asked_.load(std::memory_order_relaxed); }
    void close() noexcept;

  private:
    enum Leader : uint32_t { none, caller, brief, own };
    [[nodiscard]] static bool is_caller(uint32_t leader) noexcept {
        return leader == caller || leader == brief;
    }
    [[nodiscard]] bool try_lead(Leader as) noexcept {
        uint32_t expected = none;
        return leader_.load(std::memory_order_relaxed) == none &&
               leader_.compare_exchange_strong(expected, as, std::memory_order_seq_cst);
    }
    void call() noexcept;
    [[nodiscard]] bool is_shared() noexcept;
    void share(Time now) noexcept;
    void ask() noexcept;

    Waker& waker_;
    std::atomic<uint32_t> leader_ = none;
    std::atomic<uint32_t> left_ = 0;  // how often a caller has left
    std::atomic<uint32_t> followers_ = 0;
    std::atomic<bool> asked_ = false;
    std::atomic<uint32_t> called_ = 1;  // a futex; at first the own thread leads
    std::atomic<bool> closed_ = false;
    std::atomic<Time> shared_until_{};   // or none
    std::atomic<Time> brief_refused_{};  // when a caller led
    std::atomic<Time> crowded_until_{};  // a caller that did not follow has seen a leader
};

}  // namespace ros2s
