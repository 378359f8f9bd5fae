// KernelRing: the interface between OsReactor and a Ring back end, in addition to Ring.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "ready_queue.h"
#include "ros2s/runtime/os_reactor.h"
#include "ros2s/runtime/ring.h"
#include "ros2s/runtime/time.h"
#include "waker.h"

namespace ros2s {

class KernelRing : public Ring {
  public:
    // Binds the ring to the calling thread; called each time the reactor begins to run.
    virtual void enter_thread() noexcept = 0;
    // Posts the waiters of completed operations, a limited number. Returns true if there were any.
    // `now`: when the turn began. `polling`: the loop has no other work.
    virtual bool reap(Time now, bool polling) noexcept = 0;
    // Submits operations that submit() kept back. With `sync_in_loop` the first call keeps an
    // fdatasync that is the only transfer, so that sync_here() can follow.
    virtual void flush() noexcept = 0;
    [[nodiscard]] virtual bool keeps_sync() const noexcept { return false; }
    // Executes that fdatasync on this thread, after it has submitted the rest. keeps_sync() must
    // be true.
    virtual void sync_here() noexcept {}
    // Passes that fdatasync to the kernel, if there is one.
    virtual void sync_elsewhere() noexcept {}
    // Sleeps until an operation completes, the waker notifies, or the time is over (nullopt: no
    // limit). May return early. The sleep must have been announced to the waker.
    virtual void wait(std::optional<Duration> limit) noexcept = 0;
};

// Operations that wait in user space, first in, first out, linked through Operation::next.
class OperationQueue {
  public:
    [[nodiscard]] bool empty() const noexcept { return first_ == nullptr; }
    void push(Ring::Operation& operation) noexcept {
        operation.next = nullptr;
        (last_ != nullptr ? last_->next : first_) = &operation;
        last_ = &operation;
    }
    Ring::Operation& pop() noexcept {
        Ring::Operation& operation = *first_;
        first_ = operation.next;
        if (first_ == nullptr) last_ = nullptr;
        return operation;
    }
    // Returns false if it is not in the queue.
    bool remove(Ring::Operation& operation) noexcept {
        Ring::Operation* before = nullptr;
        for (auto* each = first_; each != nullptr; before = each, each = each->next) {
            if (each != &operation) continue;
            (before != nullptr ? before->next : first_) = each->next;
            if (last_ == each) last_ = before;
            return true;
        }
        return false;
    }

  private:
    Ring::Operation* first_ = nullptr;
    Ring::Operation* last_ = nullptr;
};

// `why` gets the kind of ring, or the reason why none is available, for ring_reason().
[[nodiscard]] Result<std::unique_ptr<KernelRing>> make_uring_ring(ReadyQueue& ready, Waker& waker,
                                                                  const OsReactorOptions& options,
                                                                  std::string& why);
// Errors: those of ThreadPool::start(), reported.
[[nodiscard]] Result<std::unique_ptr<KernelRing>> make_thread_ring(ReadyQueue& ready, Waker& waker,
                                                                   const OsReactorOptions& options,
                                                                   Report& report);

}  // namespace ros2s
