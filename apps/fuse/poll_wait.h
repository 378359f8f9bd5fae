// Waits for a descriptor to become readable, on the reactor's ring. One wait at a time; it can be
// cancelled.
#pragma once
#include <poll.h>

#include "ros2s/runtime/reactor.h"
#include "ros2s/runtime/ring.h"

namespace ros2s::fuse {

class PollWait {
  public:
    PollWait(Reactor& reactor, int descriptor) noexcept
        : ring_(*reactor.ring()), descriptor_(descriptor) {}

    // co_await wait.readable(): returns when there is data, the other end hung up, or cancel() was
    // called, before or meanwhile.
    [[nodiscard]] auto readable() noexcept {
        struct Awaiter {
            PollWait& wait;
            bool await_ready() const noexcept { return wait.cancelled_; }
            void await_suspend(std::coroutine_handle<> handle) const noexcept {
                wait.operation_ = {.opcode = Ring::Opcode::poll,
                                   .fd = wait.descriptor_,
                                   .length = POLLIN,
                                   .waiter = handle};
                wait.waiting_ = true;
                wait.ring_.submit(wait.operation_);
            }
            void await_resume() const noexcept { wait.waiting_ = false; }
        };
        return Awaiter{*this};
    }
    void cancel() noexcept {
        cancelled_ = true;
        if (waiting_) ring_.cancel_poll(operation_);
    }
    [[nodiscard]] bool cancelled() const noexcept { return cancelled_; }

  private:
    Ring& ring_;
    int descriptor_;
    Ring::Operation operation_{};
    bool waiting_ = false;
    bool cancelled_ = false;
};

}  // namespace ros2s::fuse
