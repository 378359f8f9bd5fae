// Ring: a core's interface to the kernel for file I/O: io_uring, or threads with preadv, pwritev
// and fdatasync if io_uring is absent or forbidden (Docker's default seccomp filter, qemu-user).
// kind() returns which one is in use.
//
// Thread rule: used on its reactor's core. Memory of an operation must stay valid until the
// operation completes. A transfer cannot be cancelled, because the kernel may still write into the
// memory. A poll can be cancelled.
#pragma once
#include <algorithm>
#include <coroutine>
#include <cstdint>
#include <string_view>

#include "ros2s/base/bytes.h"
#include "ros2s/base/result.h"
#include "ros2s/runtime/stop.h"

namespace ros2s {

class FixedBuffers;

class Ring {
  public:
    enum class Kind : uint8_t { io_uring, threads };
    enum class Opcode : uint8_t { read, write, fdatasync, poll };

    struct Operation {
        Opcode opcode{};
        int fd = -1;
        void* address = nullptr;
        uint32_t length = 0;  // poll: the event mask
        uint64_t offset = 0;
        bool is_short = false;             // fdatasync: the disk has no cache to empty
        int32_t result = 0;                // bytes, or -errno
        std::coroutine_handle<> waiter{};  // posted on completion, and then null
        Operation* next = nullptr;         // used by the ring
        uint32_t attempts = 0;             // used by the ring
    };

    virtual ~Ring() = default;
    [[nodiscard]] virtual Kind kind() const noexcept = 0;
    // Operations submitted and not yet completed.
    [[nodiscard]] virtual size_t in_flight() const noexcept = 0;
    // Submits the operation to the kernel: at once, or, if the kernel has enough to do, together
    // with a few others before the end of the loop's turn. If the kernel's queue is full, the
    // operation waits in user space.
    virtual void submit(Operation& operation) noexcept = 0;
    // Requests that a submitted poll completes now. It completes with -ECANCELED, unless it is
    // completing by itself.
    virtual void cancel_poll(Operation& operation) noexcept = 0;

    // Registers memory for fixed-buffer I/O. Later operations inside this memory use the
    // registration automatically. If registration is not possible (memlock is too low), returns
    // false, and the kernel maps pages for each operation. Unregister before the memory is freed,
    // with no operation in flight inside it.
    virtual bool register_memory(Bytes memory) noexcept = 0;
    virtual void unregister_memory(Bytes memory) noexcept = 0;
    // Adds the buffer table of a device that has an io_uring of its own. Memory that is registered
    // here is registered there too, until the follower is removed.
    virtual void add_follower(FixedBuffers& other) noexcept = 0;
    virtual void remove_follower(FixedBuffers& other) noexcept = 0;

    // co_await ring.transfer(op): bytes moved. Errors: those of errno, as mapped by fail_errno().
    [[nodiscard]] auto transfer(Operation operation) noexcept {
        struct Awaiter {
            Ring& ring;
            Operation operation;
            bool await_ready() const noexcept { return false; }
            void await_suspend(std::coroutine_handle<> handle) noexcept {
                operation.waiter = handle;
                ring.submit(operation);
            }
            Result<size_t> await_resume() const {
                if (operation.result < 0) return fail_errno(-operation.result);
                return static_cast<size_t>(operation.result);
            }
        };
        return Awaiter{*this, operation};
    }
    // At most 1 GiB at once: the kernel moves less than 2 GiB, and its length has 32 bits.
    [[nodiscard]] auto read(int fd, Bytes into, uint64_t offset) noexcept {
        return transfer({.opcode = Opcode::read,
                         .fd = fd,
                         .address = into.data(),
                         .length = length_of(into),
                         .offset = offset});
    }
    [[nodiscard]] auto write(int fd, ConstBytes from, uint64_t offset) noexcept {
        return transfer({.opcode = Opcode::write,
                         .fd = fd,
                         .address = const_cast<std::byte*>(from.data()),
                         .length = length_of(from),
                         .offset = offset});
    }
    // `is_short`: probably takes less time than to wake a thread. Then the ring may execute it in
    // submit().
    [[nodiscard]] auto fdatasync(int fd, bool is_short = false) noexcept {
        return transfer({.opcode = Opcode::fdatasync, .fd = fd, .is_short = is_short});
    }
    // co_await ring.poll(fd, POLLIN, stop): the events that occurred. Errors: cancelled.
    [[nodiscard]] auto poll(int fd, uint32_t events, StopToken stop = {}) noexcept {
        return PollAwaiter(*this, fd, events, stop);
    }

  private:
    static uint32_t length_of(ConstBytes bytes) noexcept {
        return static_cast<uint32_t>(std::min<size_t>(bytes.size(), 1 << 30));
    }
    class PollAwaiter : StopCallback {
      public:
        PollAwaiter(Ring& ring, int fd, uint32_t events, StopToken stop) noexcept
            : StopCallback(stop.source(),
                           [](StopCallback& self) noexcept {
                               auto& own = static_cast<PollAwaiter&>(self);
                               // A poll that has completed is resumed in a moment.
                               if (own.state_ == State::submitted && own.operation_.waiter) {
                                   own.state_ = State::cancelled;
                                   own.ring_.cancel_poll(own.operation_);
                               }
                           }),
              ring_(ring),
              operation_{.opcode = Opcode::poll, .fd = fd, .length = events},
              stopped_(stop.stop_requested()) {}
        bool await_ready() const noexcept { return stopped_; }
        void await_suspend(std::coroutine_handle<> handle) noexcept {
            operation_.waiter = handle;
            state_ = State::submitted;
            ring_.submit(operation_);
        }
        Result<uint32_t> await_resume() noexcept {
            state_ = State::done;
            if (stopped_) return fail(Code::cancelled);
            if (operation_.result < 0) return fail_errno(-operation_.result);
            return static_cast<uint32_t>(operation_.result);
        }

      private:
        enum class State : uint8_t { fresh, submitted, cancelled, done };
        Ring& ring_;
        Operation operation_;
        bool stopped_;
        State state_ = State::fresh;
    };
};

[[nodiscard]] constexpr std::string_view to_string(Ring::Kind kind) noexcept {
    return kind == Ring::Kind::io_uring ? "io_uring" : "threads";
}

}  // namespace ros2s
