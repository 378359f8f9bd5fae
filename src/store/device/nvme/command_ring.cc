#include "command_ring.h"

#include <poll.h>
#include <sched.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "ros2s/base/check.h"
#include "ros2s/runtime/fork.h"

namespace ros2s::device {
namespace {

constexpr unsigned entries = 256;
constexpr unsigned reaped_at_once = 64;
constexpr uint32_t attempts_max = 100;
constexpr unsigned submit_group = 8;  // as in the core's own ring

// Of the calling thread: it has the one worker of have_one_worker().
thread_local bool has_one_worker = false;

}  // namespace

Result<std::unique_ptr<CommandRing>> CommandRing::create(Reactor& reactor, Abilities abilities,
                                                         Report& report) {
    std::unique_ptr<CommandRing> made(new CommandRing(reactor, abilities.polled));
    io_uring_params params{};
    // Twice the entries: completions that poll() has not fetched never overflow.
    params.cq_entries = entries * 2;
    params.flags = IORING_SETUP_SQE128 | IORING_SETUP_CQE32 | IORING_SETUP_CQSIZE |
                   IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG;
    if (abilities.polled) params.flags |= IORING_SETUP_IOPOLL;
    const int result = io_uring_queue_init_params(entries, &made->ring_, &params);
    if (result == -EINVAL) {
        return report.fail(
            Code::unsupported,
            "this kernel has no NVMe passthrough by io_uring: use Linux 5.19 or newer");
    }
    if (result < 0) {
        const Error error = fail_errno(-result).error();
        return report.fail(error,
                           "NVMe passthrough needs io_uring, and io_uring_setup failed ({}): allow "
                           "it, or raise the limit on locked memory",
                           describe(error));
    }
    made->open_ = true;
    close_in_forked_child(made->ring_.ring_fd);
    io_uring_ring_dontfork(&made->ring_);
    if (abilities.registered) made->fixed_.open(made->ring_);
    return made;
}

CommandRing::~CommandRing() {
    ROS2S_CHECK(in_kernel_ == 0 && first_waiting_ == nullptr && !attached_);
    if (!open_) return;
    // Exit closes the descriptor itself.
    forget_in_forked_child(ring_.ring_fd);
    io_uring_queue_exit(&ring_);
}

void CommandRing::submit(Pending& pending) noexcept {
    if (!attached_) {
        attached_ = true;
        reactor_.attach(*this);
        reactor_.ring()->add_follower(fixed_);
        if (!polled_) ROS2S_CHECK(watcher_.try_spawn(watch()));
    }
    if (in_kernel_ >= entries || first_waiting_ != nullptr) return keep(pending);
    begin(pending);
}

// If the namespace's queue is frozen or full, the kernel passes a command to a worker of the thread
// that handed it over. A worker that is created while that thread returns from an interrupt
// inherits its registers. Then Linux for x86-64 takes the worker's work for calls of a 32-bit
// program (in_x32_syscall()) and drops the upper half of the memory's address. So each thread that
// runs this core's loop has one worker, which is created in a system call, and it stays. A thread's
// rings share its workers.
void CommandRing::have_one_worker() noexcept {
    if (!worker_asked_) {
        std::array<unsigned, 2> limits{1, 0};  // bounded ones; 0: do not change the unbounded ones
        ROS2S_CHECK(io_uring_register_iowq_max_workers(&ring_, limits.data()) == 0);
        io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
        if (sqe == nullptr) return;  // the kernel refused the last ones for now
        std::memset(sqe, 0, 2 * sizeof *sqe);
        sqe->opcode = IORING_OP_NOP;
        sqe->flags = IOSQE_ASYNC;
        worker_asked_ = true;
    }
    // Until the worker has run, this thread is in a system call, even if the kernel has to try its
    // creation again.
    while (worker_asked_) {
        const int result = io_uring_submit_and_wait(&ring_, 1);
        if (result < 0 && result != -EINTR) return;
        reap();
    }
    has_one_worker = true;
}

void CommandRing::keep(Pending& pending) noexcept {
    pending.next = nullptr;
    (first_waiting_ == nullptr ? first_waiting_ : last_waiting_->next) = &pending;
    last_waiting_ = &pending;
}

void CommandRing::begin(Pending& pending) noexcept {
    io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
    if (sqe == nullptr) return keep(pending);  // the kernel refused the last ones for now
    std::memset(sqe, 0, 2 * sizeof *sqe);
    sqe->opcode = IORING_OP_URING_CMD;
    sqe->fd = pending.fd;
    sqe->cmd_op = NVME_URING_CMD_IO;
    const nvme_uring_cmd& command = pending.command;
    const int slot = fixed_.slot_of(reinterpret_cast<const void*>(command.addr), command.data_len);
    if (slot >= 0) {
        sqe->uring_cmd_flags = IORING_URING_CMD_FIXED;
        sqe->buf_index = static_cast<uint16_t>(slot);
    }
    sqe->user_data = reinterpret_cast<uint64_t>(&pending);
    std::memcpy(sqe->cmd, &command, sizeof command);
    ++in_kernel_;
    ++unsubmitted_;
    if (unsubmitted_ >= submit_group) hand_over();
}

void CommandRing::hand_over() noexcept {
    if (unsubmitted_ > 0 && !has_one_worker) {
        have_one_worker();
        unsubmitted_ = io_uring_sq_ready(&ring_);
    }
    while (unsubmitted_ > 0) {
        const int result = io_uring_submit(&ring_);
        if (result == -EINTR) continue;
        if (result < 0) {
            // Out of memory, or its completions must be fetched first: poll() tries again.
            ROS2S_CHECK(result == -EAGAIN || result == -EBUSY || result == -ENOMEM);
            return;
        }
        unsubmitted_ = io_uring_sq_ready(&ring_);
    }
}

bool CommandRing::begin_waiting() noexcept {
    bool any = false;
    while (first_waiting_ != nullptr && in_kernel_ < entries) {
        Pending& pending = *first_waiting_;
        first_waiting_ = pending.next;
        const unsigned before = in_kernel_;
        begin(pending);
        if (in_kernel_ == before) break;
        any = true;
    }
    return any;
}

bool CommandRing::reap() noexcept {
    // Also fetches completions that wait until this task enters the kernel.
    std::array<io_uring_cqe*, reaped_at_once> completions;
    if (polled_ && in_kernel_ > 0) io_uring_get_events(&ring_);
    const unsigned count = io_uring_peek_batch_cqe(&ring_, completions.data(), reaped_at_once);
    for (unsigned i = 0; i < count; ++i) {
        if (completions[i]->user_data == 0) {
            worker_asked_ = false;
            continue;
        }
        auto& pending = *reinterpret_cast<Pending*>(completions[i]->user_data);
        pending.result = completions[i]->res;
        --in_kernel_;
        // The kernel could not accept it yet, or the thread that handed it over has ended before a
        // worker began it. With any other result the command may have reached the device.
        const bool is_unsent = pending.result == -EAGAIN || pending.result == -ECANCELED;
        if (is_unsent && ++pending.attempts <= attempts_max) {
            keep(pending);
        } else {
            reactor_.post(pending.waiter);
        }
    }
    io_uring_cq_advance(&ring_, count);
    return count > 0;
}

bool CommandRing::poll() noexcept {
    bool found = in_kernel_ > 0 && reap();
    found |= begin_waiting();
    hand_over();
    return found;
}

bool CommandRing::prepare_sleep() noexcept {
    if (poll()) return false;
    if (in_kernel_ == 0) return true;
    if (unsubmitted_ > 0 || polled_) {
        sched_yield();
        return false;
    }
    if (watched_) return true;
    // In the next turn the watcher polls this ring's descriptor; then the core may sleep.
    asked_to_watch_.set();
    return false;
}

Task<> CommandRing::watch() {
    while (!stop_.stop_requested()) {
        co_await asked_to_watch_;
        asked_to_watch_.reset();
        if (stop_.stop_requested()) break;
        watched_ = true;
        // poll() fetches the completions, in the turn that this wakes.
        const auto seen = co_await reactor_.ring()->poll(ring_.ring_fd, POLLIN, stop_.token());
        watched_ = false;
        ROS2S_CHECK(seen || seen.error().code == Code::cancelled);
    }
}

Task<> CommandRing::close() {
    ROS2S_CHECK(in_kernel_ == 0 && first_waiting_ == nullptr);
    if (!attached_) co_return;
    stop_.request_stop();
    asked_to_watch_.set();
    co_await watcher_.join();
    reactor_.ring()->remove_follower(fixed_);
    reactor_.detach(*this);
    attached_ = false;
}

}  // namespace ros2s::device
