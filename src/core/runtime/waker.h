// Waker: how other threads end a reactor's sleep. It uses an eventfd that is written only if the
// reactor has announced that it sleeps. Waking a busy core therefore costs one load.
//
//     reactor                          another thread
//     going_to_sleep()  flag = 1       makes work visible
//     looks for work                   notify(): flag? clear it, write the eventfd
//     none: waits on descriptor()
// All four steps are sequentially consistent, so one of the two sees the other.
#pragma once
#include <atomic>
#include <memory>

#include "ros2s/base/result.h"

namespace ros2s {

class Waker {
  public:
    [[nodiscard]] static Result<std::unique_ptr<Waker>> create(Report& report);
    explicit Waker(int descriptor) noexcept : descriptor_(descriptor) {}
    Waker& operator=(Waker&&) = delete;
    ~Waker();

    [[nodiscard]] int descriptor() const noexcept { return descriptor_; }
    // From any thread.
    void notify() noexcept {
        if (sleeping_.load(std::memory_order_seq_cst) &&
            sleeping_.exchange(false, std::memory_order_seq_cst)) {
            write_event();
        }
    }
    // Sleeps, or is about to.
    [[nodiscard]] bool is_asleep() const noexcept {
        return sleeping_.load(std::memory_order_relaxed);
    }
    void going_to_sleep() noexcept { sleeping_.store(true, std::memory_order_seq_cst); }
    void awake() noexcept { sleeping_.store(false, std::memory_order_relaxed); }
    // Empties the eventfd after it has woken its reader.
    void drain() noexcept;

  private:
    void write_event() noexcept;
    int descriptor_;
    std::atomic<bool> sleeping_ = false;
};

}  // namespace ros2s
