// Ring: a core's way to the kernel for file I/O: io_uring, or threads with preadv, pwritev and
// fdatasync where io_uring is absent or forbidden (Docker's default seccomp filter, qemu-user).
// Which one it is, is told by kind(), never guessed.
//
// Thread rule: used on its reactor's core. Memory handed to an operation must live until the
// operation completes; cancelling is not offered, because the kernel may still write into it.
#pragma once
#include <coroutine>
#include <cstdint>
#include <string_view>

#include "ros2s/base/bytes.h"
#include "ros2s/base/result.h"

namespace ros2s {

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
        int32_t result = 0;         // bytes, or -errno
        int16_t fixed_buffer = -1;  // index of a registered buffer that holds `address`; -1: none
        std::coroutine_handle<> waiter{};  // posted on completion
    };

    virtual ~Ring() = default;
    [[nodiscard]] virtual Kind kind() const noexcept = 0;
    // Operations submitted and not yet completed.
    [[nodiscard]] virtual size_t in_flight() const noexcept = 0;
    // Hands the operation to the kernel now. Waits in user space where the kernel's queue is full.
    virtual void submit(Operation& operation) noexcept = 0;

    // Registers memory for fixed-buffer I/O; afterwards operations inside it use it by themselves.
    // Harmless where it is not to be had (memlock too low): then returns false and I/O maps pages
    // each time. Unregister before the memory is freed, with no operation in flight inside it.
    virtual bool register_memory(Bytes memory) noexcept = 0;
    virtual void unregister_memory(Bytes memory) noexcept = 0;

    // co_await ring.transfer(op): bytes moved. Errors: those of errno, as fail_errno() has them.
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
    [[nodiscard]] auto read(int fd, Bytes into, uint64_t offset) noexcept {
        return transfer({.opcode = Opcode::read,
                         .fd = fd,
                         .address = into.data(),
                         .length = static_cast<uint32_t>(into.size()),
                         .offset = offset});
    }
    [[nodiscard]] auto write(int fd, ConstBytes from, uint64_t offset) noexcept {
        return transfer({.opcode = Opcode::write,
                         .fd = fd,
                         .address = const_cast<std::byte*>(from.data()),
                         .length = static_cast<uint32_t>(from.size()),
                         .offset = offset});
    }
    [[nodiscard]] auto fdatasync(int fd) noexcept {
        return transfer({.opcode = Opcode::fdatasync, .fd = fd});
    }
};

[[nodiscard]] constexpr std::string_view to_string(Ring::Kind kind) noexcept {
    return kind == Ring::Kind::io_uring ? "io_uring" : "threads";
}

}  // namespace ros2s
