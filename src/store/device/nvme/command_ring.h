// CommandRing: a core's interface to an NVMe namespace: an io_uring with large entries (128 bytes
// in, 32 out), which passthrough requires. The core's own Ring has small entries, so this is a
// second ring.
//
//   execute(command) ─ entry ─ the kernel ─ the namespace's queue ─ completion ─ poll() ─ waiter
//
// The reactor polls it as long as it polls at all. Before a sleep with commands in flight, the
// reactor's Ring watches this ring's descriptor. If the driver has poll queues (nvme.poll_queues,
// set by the administrator), completions raise no interrupt, and the core does not sleep while a
// command is in flight.
//
// A command with memory registered in the core's Ring uses the registration: this ring's table
// follows that one's.
//
// Used on its reactor's core from the first execute() on; may be created anywhere. Memory of a
// command belongs to the device until it completes. close() before destruction.
#pragma once
#include <liburing.h>
#include <linux/nvme_ioctl.h>

#include <coroutine>
#include <memory>

#include "ros2s/base/result.h"
#include "ros2s/runtime/fixed_buffers.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/reactor.h"
#include "ros2s/runtime/ring.h"
#include "ros2s/runtime/stop.h"
#include "ros2s/runtime/sync.h"

namespace ros2s::device {

class CommandRing final : Poller {
  public:
    // Features of kernel and driver (namespace.h).
    struct Abilities {
        bool polled = false;
        bool registered = false;
    };
    // Errors: unsupported (the kernel has no large entries, which came with Linux 5.19), denied,
    // no_memory.
    [[nodiscard]] static Result<std::unique_ptr<CommandRing>> create(Reactor& reactor,
                                                                     Abilities abilities,
                                                                     Report& report);
    ~CommandRing() override;
    CommandRing& operator=(CommandRing&&) = delete;

    // co_await ring.execute(fd, command): 0, an NVMe status (positive), or -errno. `fd` is a
    // namespace's character device.
    [[nodiscard]] auto execute(int fd, const nvme_uring_cmd& command) noexcept {
        struct Awaiter {
            CommandRing& ring;
            Pending pending;
            bool await_ready() const noexcept { return false; }
            void await_suspend(std::coroutine_handle<> handle) noexcept {
                pending.waiter = handle;
                ring.submit(pending);
            }
            int32_t await_resume() const noexcept { return pending.result; }
        };
        return Awaiter{*this, Pending{.fd = fd, .command = command}};
    }
    // Call it on its core, with no command in flight.
    Task<> close();

  private:
    struct Pending {
        int fd = -1;
        nvme_uring_cmd command{};
        int32_t result = 0;
        uint32_t attempts = 0;
        std::coroutine_handle<> waiter{};
        Pending* next = nullptr;
    };

    CommandRing(Reactor& reactor, bool polled) noexcept
        : reactor_(reactor), polled_(polled), asked_to_watch_(reactor), watcher_(reactor, 1) {}
    void submit(Pending& pending) noexcept;
    void have_one_worker() noexcept;
    void begin(Pending& pending) noexcept;
    void hand_over() noexcept;
    bool reap() noexcept;
    bool begin_waiting() noexcept;
    void keep(Pending& pending) noexcept;
    Task<> watch();
    bool poll() noexcept override;
    bool prepare_sleep() noexcept override;

    Reactor& reactor_;
    io_uring ring_{};
    FixedBuffers fixed_;
    const bool polled_;
    bool open_ = false;      // of ring_
    bool attached_ = false;  // to the reactor
    bool watched_ = false;
    bool worker_asked_ = false;  // by an operation that is not a command
    unsigned in_kernel_ = 0;
    unsigned unsubmitted_ = 0;
    // Commands that the kernel's queue has no room for, in order.
    Pending* first_waiting_ = nullptr;
    Pending* last_waiting_ = nullptr;
    StopSource stop_;
    Event asked_to_watch_;
    Nursery watcher_;
};

}  // namespace ros2s::device
