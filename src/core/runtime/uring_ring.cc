// The Ring over io_uring.
//
// - At most `ring_entries` transfers are in the kernel; further ones wait in user space. Polls do
//   not count: each idle connection has one, so a few hundred of them would leave no room for
//   transfers. The completion queue has room for both. If more polls complete at once, the kernel
//   keeps the rest (IORING_FEAT_NODROP).
// - The sleep is one system call: it waits for a completion, and a poll on the waker's eventfd is
//   among the operations.
// - Registered memory lives in a sparse table of fixed buffers; a transfer that lies inside one
//   uses it by itself.
#include <liburing.h>
#include <poll.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "kernel_ring.h"
#include "poll_habit.h"
#include "ros2s/base/check.h"
#include "ros2s/runtime/fixed_buffers.h"
#include "ros2s/runtime/fork.h"

namespace ros2s {
namespace {

// Values of a completion's user_data that are no Operation. Addresses are aligned; these values are
// not. A cancellation has its operation's address with the lowest bit set.
constexpr uint64_t tag_waker = 3;
constexpr uint64_t tag_cancellation = 1;
// A disk may report all operations at once. The turns are short, so that the first of them cause
// new operations before the last ones are handled.
constexpr unsigned reaped_at_once = 8;
constexpr unsigned completions_least = 4096;
constexpr unsigned resubmissions_max = 100;
// A transfer of this many bytes does not wait for others: the device would be idle until then, and
// the kernel would merge the transfers of a turn, so that the first one ends only with the last.
constexpr uint32_t large_transfer_bytes = uint32_t{256} << 10;
// An fdatasync of the loop's thread is worth its while if it takes no longer than this. The kernel
// uses one of its threads for the others: to wake it, and then the loop, costs 50 to 100 us where
// processors are virtual.
constexpr Duration sync_in_loop_most = std::chrono::microseconds(250);

struct Setup {
    unsigned flags;
    const char* name;
};
// Best first; an older kernel answers EINVAL to flags that it does not know. R_DISABLED lets the
// ring be created by one thread and used by another in spite of SINGLE_ISSUER. Where callers lead,
// several threads use the ring in turn. Then a completion must not wait for the thread that
// submitted the operation to enter the kernel, as both kinds of deferred task run make it.
constexpr std::array setups{
    Setup{IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG |
              IORING_SETUP_R_DISABLED,
          "io_uring (single issuer, deferred task run)"},
    Setup{IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG, "io_uring (cooperative task run)"},
    Setup{0, "io_uring"},
};

class UringRing final : public KernelRing {
  public:
    UringRing(ReadyQueue& ready, Waker& waker, const OsReactorOptions& options)
        : ready_(ready),
          waker_(waker),
          entries_(options.ring_entries),
          group_(std::max(1U, std::min(options.submit_group, options.ring_entries))),
          sync_in_loop_(options.sync_in_loop) {}
    ~UringRing() override {
        if (!open_) return;
        // Exit closes the descriptor itself; off the list first, or a fork between would close
        // another's.
        forget_in_forked_child(ring_.ring_fd);
        io_uring_queue_exit(&ring_);
    }

    int open(const Setup& setup) noexcept {
        io_uring_params params{};
        params.flags = setup.flags | IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP;
        params.cq_entries = std::max(entries_ * 2, completions_least);
        const int result = io_uring_queue_init_params(entries_, &ring_, &params);
        if (result < 0) return result;
        open_ = true;
        disabled_ = (setup.flags & IORING_SETUP_R_DISABLED) != 0;
        entries_ = std::min(entries_, params.cq_entries / 2);
        close_in_forked_child(ring_.ring_fd);
        io_uring_ring_dontfork(&ring_);
        fixed_.open(ring_);
        return (params.features & IORING_FEAT_NODROP) != 0 ? 0 : -ENOSYS;
    }

    Kind kind() const noexcept override { return Kind::io_uring; }
    size_t in_flight() const noexcept override { return in_flight_; }
    void submit(Operation& operation) noexcept override {
        ++in_flight_;
        operation.attempts = 0;
        const bool is_poll = operation.opcode == Opcode::poll;
        if (is_poll || (transfers_ < entries_ - reserved && backlog_.empty())) {
            begin(operation);
        } else {
            backlog_.push(operation);
        }
    }
    void cancel_poll(Operation& operation) noexcept override {
        if (backlog_.remove(operation)) return finish(operation, -ECANCELED);
        cancelled_.push_back(&operation);
        ask_to_cancel(operation);
    }

    bool register_memory(Bytes memory) noexcept override;
    void unregister_memory(Bytes memory) noexcept override;
    void add_follower(FixedBuffers& other) noexcept override {
        other.add_all(fixed_);
        followers_.push_back(&other);
    }
    void remove_follower(FixedBuffers& other) noexcept override { std::erase(followers_, &other); }

    void enter_thread() noexcept override {
        if (!disabled_) return;
        // liburing 2.3 declares io_uring_enable_rings() but does not export it.
        const auto result =
            syscall(SYS_io_uring_register, ring_.ring_fd, IORING_REGISTER_ENABLE_RINGS, nullptr, 0);
        ROS2S_CHECK(result == 0);
        disabled_ = false;
    }
    void flush() noexcept override {
        if (sync_ != nullptr && std::exchange(is_kept_, true))
            prepare(*std::exchange(sync_, nullptr));
        submit_prepared();
    }
    bool keeps_sync() const noexcept override { return sync_ != nullptr; }
    void sync_here() noexcept override {
        submit_prepared();
        Operation& kept = *std::exchange(sync_, nullptr);
        if (!execute(kept, sync_habit_)) {
            prepare(kept);
            submit_prepared();
        }
    }
    void sync_elsewhere() noexcept override {
        if (sync_ == nullptr) return;
        prepare(*std::exchange(sync_, nullptr));
        submit_prepared();
    }
    bool reap(Time /*now*/, bool /*polling*/) noexcept override {
        std::array<io_uring_cqe*, reaped_at_once> completions;
        const unsigned count =
            io_uring_peek_batch_cqe(&ring_, completions.data(), completions.size());
        bool found = false;
        for (unsigned i = 0; i < count; ++i) {
            found |= take(completions[i]->user_data, completions[i]->res);
        }
        io_uring_cq_advance(&ring_, count);
        while (!backlog_.empty() && transfers_ < entries_ - reserved) begin(backlog_.pop());
        return found;
    }
    void wait(std::optional<Duration> limit) noexcept override {
        if (!waker_armed_) {
            io_uring_sqe* sqe = next_sqe();
            io_uring_prep_poll_add(sqe, waker_.descriptor(), POLLIN);
            sqe->user_data = tag_waker;
            waker_armed_ = true;
        }
        io_uring_cqe* completion = nullptr;
        __kernel_timespec spec{};
        if (limit) {
            spec.tv_sec = std::chrono::floor<std::chrono::seconds>(*limit).count();
            spec.tv_nsec = (*limit % std::chrono::seconds(1)).count();
        }
        // The result (a completion, ETIME, EINTR, EAGAIN) is not used: the next turn looks at the
        // ring.
        io_uring_submit_and_wait_timeout(&ring_, &completion, 1, limit ? &spec : nullptr, nullptr);
        unsubmitted_ = 0;
    }

  private:
    // Room in the queues for the waker's poll and for cancellations.
    static constexpr unsigned reserved = 8;

    void submit_prepared() noexcept {
        unsubmitted_ = 0;
        while (io_uring_sq_ready(&ring_) > 0) {
            const int result = io_uring_submit(&ring_);
            // The kernel's thread that waits for a flush may be queued on this processor. A loop
            // that goes on working would keep it until the kernel's next tick, up to 10 ms.
            if (result >= 0 && std::exchange(sync_prepared_, false)) sched_yield();
            if (result >= 0 || result == -EINTR) continue;
            // The kernel is short of memory, or wants its completions fetched first. The next
            // turn's flush submits the rest of the queue.
            ROS2S_CHECK(result == -EAGAIN || result == -EBUSY || result == -ENOMEM);
            return;
        }
    }
    void begin(Operation& operation) noexcept {
        if (operation.opcode != Opcode::poll) {
            ++transfers_;
            if (operation.is_short && short_habit_.begin() && execute(operation, short_habit_)) {
                return;
            }
            if (sync_ != nullptr) prepare(*std::exchange(sync_, nullptr));
            if (may_keep(operation)) {
                sync_ = &operation;
                is_kept_ = false;
                return;
            }
        }
        prepare(operation);
        ++unsubmitted_;
        const bool is_transfer =
            operation.opcode == Opcode::read || operation.opcode == Opcode::write;
        const bool is_large = is_transfer && operation.length >= large_transfer_bytes;
        if (is_large || unsubmitted_ >= group_) submit_prepared();
    }
    // An fdatasync. Returns false if a signal ended it: that says nothing about the device, and the
    // kernel's thread gets none. Whether the device is quick enough is learned like whether a wait
    // is worth a poll.
    bool execute(Operation& operation, PollHabit& habit) noexcept {
        const auto begun = std::chrono::steady_clock::now();
        const int result = ::fdatasync(operation.fd) == 0 ? 0 : -errno;
        if (result == -EINTR) [[unlikely]]
            return false;
        const bool is_quick = std::chrono::steady_clock::now() - begun <= sync_in_loop_most;
        is_quick ? habit.found() : habit.in_vain();
        --transfers_;
        finish(operation, result);
        return true;
    }
    // Another device with a ring of its own may have transfers in the kernel, too.
    bool may_keep(const Operation& operation) noexcept {
        return operation.opcode == Opcode::fdatasync && sync_in_loop_ && transfers_ == 1 &&
               followers_.empty() && sync_habit_.begin();
    }
    void ask_to_cancel(const Operation& operation) noexcept {
        io_uring_sqe* sqe = next_sqe();
        const auto address = reinterpret_cast<uint64_t>(&operation);
        io_uring_prep_poll_remove(sqe, address);
        sqe->user_data = address | tag_cancellation;
        submit_prepared();
    }
    // "Already" means that the poll was woken. It completes, or the kernel finds that what woke it
    // is gone and arms it anew: then the request has to be repeated.
    void cancellation_ended(uint64_t tag, int32_t result) noexcept {
        const auto* operation = reinterpret_cast<const Operation*>(tag & ~tag_cancellation);
        if (result == -EALREADY && std::ranges::find(cancelled_, operation) != cancelled_.end()) {
            ask_to_cancel(*operation);
        }
    }
    void prepare(Operation& operation) noexcept;
    io_uring_sqe* next_sqe() noexcept {
        io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
        while (sqe == nullptr) {
            // Only when the kernel refused earlier submissions for want of memory.
            submit_prepared();
            sched_yield();
            sqe = io_uring_get_sqe(&ring_);
        }
        return sqe;
    }
    bool take(uint64_t tag, int32_t result) noexcept {
        if (tag == tag_waker) {
            waker_armed_ = false;
            waker_.drain();
            return false;
        }
        if (tag == LIBURING_UDATA_TIMEOUT) return false;
        if ((tag & tag_cancellation) != 0) {
            cancellation_ended(tag, result);
            return false;
        }
        auto& operation = *reinterpret_cast<Operation*>(tag);
        if (operation.opcode != Opcode::poll) --transfers_;
        if (is_to_be_repeated(operation, result) && ++operation.attempts <= resubmissions_max) {
            backlog_.push(operation);
        } else {
            finish(operation, result);
        }
        return true;
    }
    bool is_to_be_repeated(const Operation& operation, int32_t result) const noexcept {
        // Where callers lead: the thread that submitted the operation has ended before the kernel
        // began it, or while it was a poll.
        if (result == -ECANCELED)
            return std::ranges::find(cancelled_, &operation) == cancelled_.end();
        // After a failed flush the state of the writes before it is unknown, and a second flush
        // would not change that.
        return operation.opcode != Opcode::fdatasync && (result == -EAGAIN || result == -EINTR);
    }
    void finish(Operation& operation, int32_t result) noexcept {
        operation.result = result;
        --in_flight_;
        std::erase(cancelled_, &operation);
        ready_.push(std::exchange(operation.waiter, {}));
    }

    ReadyQueue& ready_;
    Waker& waker_;
    io_uring ring_{};
    unsigned entries_;
    unsigned group_;
    bool open_ = false;
    bool disabled_ = false;
    bool waker_armed_ = false;
    size_t in_flight_ = 0;
    size_t transfers_ = 0;  // in the kernel
    unsigned unsubmitted_ = 0;
    bool sync_prepared_ = false;  // and not submitted
    const bool sync_in_loop_;
    PollHabit sync_habit_, short_habit_;
    Operation* sync_ = nullptr;  // an fdatasync that is the only transfer, not with the kernel
    bool is_kept_ = false;       // by a flush()
    OperationQueue backlog_;
    std::vector<const Operation*> cancelled_;  // polls that were to be, and have not completed
    FixedBuffers fixed_;
    std::vector<FixedBuffers*> followers_;
};

void UringRing::prepare(Operation& operation) noexcept {
    io_uring_sqe* sqe = next_sqe();
    switch (operation.opcode) {
        case Opcode::read:
        case Opcode::write: {
            const bool read = operation.opcode == Opcode::read;
            const int slot = fixed_.slot_of(operation.address, operation.length);
            if (slot >= 0) {
                if (read) {
                    io_uring_prep_read_fixed(sqe, operation.fd, operation.address, operation.length,
                                             operation.offset, slot);
                } else {
                    io_uring_prep_write_fixed(sqe, operation.fd, operation.address,
                                              operation.length, operation.offset, slot);
                }
            } else if (read) {
                io_uring_prep_read(sqe, operation.fd, operation.address, operation.length,
                                   operation.offset);
            } else {
                io_uring_prep_write(sqe, operation.fd, operation.address, operation.length,
                                    operation.offset);
            }
            break;
        }
        case Opcode::fdatasync:
            io_uring_prep_fsync(sqe, operation.fd, IORING_FSYNC_DATASYNC);
            sync_prepared_ = true;
            break;
        case Opcode::poll: io_uring_prep_poll_add(sqe, operation.fd, operation.length); break;
    }
    sqe->user_data = reinterpret_cast<uint64_t>(&operation);
}

bool UringRing::register_memory(Bytes memory) noexcept {
    if (!fixed_.add(memory)) return false;
    for (FixedBuffers* each : followers_) (void)each->add(memory);
    return true;
}

void UringRing::unregister_memory(Bytes memory) noexcept {
    fixed_.remove(memory);
    for (FixedBuffers* each : followers_) each->remove(memory);
}

// Why io_uring_setup failed, and what would change it.
std::string refusal(int error) {
    std::string text = "io_uring_setup failed (";
    text += std::strerror(error);
    text += "): ";
    switch (error) {
        case ENOSYS: return text + "this kernel, or the emulator it runs under, has no io_uring";
        case EPERM:
        case EACCES:
            return text +
                   "a seccomp filter (Docker's default has one) or the sysctl "
                   "kernel.io_uring_disabled forbids it; allow it there";
        case ENOMEM:
            return text +
                   "the limit on locked memory, or on address space (ulimit -v), is too low for "
                   "it; raise it for this shell: sudo prlimit --pid $$ --memlock=unlimited";
        case EMFILE:
        case ENFILE: return text + "too many open files; raise the limit (ulimit -n)";
        default: return text + "see io_uring_setup(2)";
    }
}

}  // namespace

Result<std::unique_ptr<KernelRing>> make_uring_ring(ReadyQueue& ready, Waker& waker,
                                                    const OsReactorOptions& options,
                                                    std::string& why) {
    int result = 0;
    for (const auto& setup : setups) {
        if (options.callers_lead && setup.flags != 0) continue;
        auto ring = std::make_unique<UringRing>(ready, waker, options);
        result = ring->open(setup);
        if (result == 0) {
            why = setup.name;
            return ring;
        }
        if (result != -EINVAL) break;
    }
    why = refusal(-result);
    return fail_errno(-result);
}

}  // namespace ros2s
