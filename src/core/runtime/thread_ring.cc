// The Ring where io_uring is not to be had: positioned reads and writes on a few threads. Polls are
// done by the reactor's own thread, so that they cannot use up the threads that transfers need.
// A poll(2) in each turn costs more than all else in a turn of few requests. So while the reactor
// has work it looks at them every 100 us, and while it polls every 5 us, or in each turn if that
// found something lately: then the descriptors are where the work comes from. Before it sleeps it
// looks at them in any case.
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <vector>

#include "kernel_ring.h"
#include "mailbox.h"
#include "ros2s/base/check.h"
#include "ros2s/runtime/thread_pool.h"

namespace ros2s {
namespace {

constexpr uint32_t ring_threads = 4;
constexpr Duration looks_every = std::chrono::microseconds(100);
constexpr Duration looks_every_polling = std::chrono::microseconds(5);
constexpr Duration found_lately = std::chrono::milliseconds(1);

int32_t perform(const Ring::Operation& operation) noexcept {
    const auto offset = static_cast<off_t>(operation.offset);
    for (;;) {
        ssize_t result = 0;
        switch (operation.opcode) {
            case Ring::Opcode::read:
                result = ::pread(operation.fd, operation.address, operation.length, offset);
                break;
            case Ring::Opcode::write:
                result = ::pwrite(operation.fd, operation.address, operation.length, offset);
                break;
            case Ring::Opcode::fdatasync: result = ::fdatasync(operation.fd); break;
            case Ring::Opcode::poll: ROS2S_CHECK(false);
        }
        if (result >= 0) return static_cast<int32_t>(result);
        if (errno != EINTR || operation.opcode == Ring::Opcode::fdatasync) return -errno;
    }
}

class ThreadRing final : public KernelRing {
  public:
    ThreadRing(ReadyQueue& ready, Waker& waker, const OsReactorOptions& options)
        : ready_(ready),
          waker_(waker),
          slots_(options.ring_entries),
          pool_(ring_threads, options.thread_name + "-io") {
        for (auto& slot : slots_) {
            slot.ring = this;
            slot.work = [](BlockingPool::Job& job) noexcept {
                auto& self = static_cast<RingJob&>(job);
                ThreadRing& ring = *self.ring;
                self.operation->result = perform(*self.operation);
                ring.done_.push(self);
                ring.waker_.notify();
            };
            free_.push_back(&slot);
        }
    }

    Result<> start(Report& report) { return pool_.start(report); }

    Kind kind() const noexcept override { return Kind::threads; }
    size_t in_flight() const noexcept override { return in_flight_; }
    void submit(Operation& operation) noexcept override {
        ++in_flight_;
        if (operation.opcode == Opcode::poll) {
            polls_.push_back(&operation);
        } else if (free_.empty()) {
            backlog_.push(operation);
        } else {
            begin(operation);
        }
    }
    void cancel_poll(Operation& operation) noexcept override {
        if (std::erase(polls_, &operation) > 0) complete(operation, -ECANCELED);
    }
    bool register_memory(Bytes) noexcept override { return false; }
    void unregister_memory(Bytes) noexcept override {}
    void add_follower(FixedBuffers&) noexcept override {}
    void remove_follower(FixedBuffers&) noexcept override {}

    void enter_thread() noexcept override {}
    void flush() noexcept override {}
    bool reap(Time now, bool polling) noexcept override {
        size_t count = done_.take_all([this](BlockingPool::Job& job) {
            auto& slot = static_cast<RingJob&>(job);
            complete(*slot.operation, slot.operation->result);
            free_.push_back(&slot);
        });
        while (!free_.empty() && !backlog_.empty()) begin(backlog_.pop());
        return count + look_in_turn(now, polling) > 0;
    }
    void wait(std::optional<Duration> limit) noexcept override {
        if (!done_.empty()) return;
        // Rounded up: waking before the timer is due would only poll again.
        int milliseconds = -1;
        if (limit) {
            const auto rounded = std::chrono::ceil<std::chrono::milliseconds>(*limit).count();
            milliseconds = static_cast<int>(std::min<int64_t>(rounded, 1 << 30));
        }
        look_at_polls(milliseconds);
        has_waited_ = true;
    }

  private:
    struct RingJob : BlockingPool::Job {
        ThreadRing* ring = nullptr;
        Operation* operation = nullptr;
    };

    void begin(Operation& operation) noexcept {
        RingJob& slot = *free_.back();
        free_.pop_back();
        slot.operation = &operation;
        pool_.submit(slot);
    }
    void complete(Operation& operation, int32_t result) noexcept {
        operation.result = result;
        --in_flight_;
        ready_.push(std::exchange(operation.waiter, {}));
    }
    size_t look_in_turn(Time now, bool polling) noexcept {
        const Duration pause = !polling                         ? looks_every
                               : now - found_at_ < found_lately ? Duration::zero()
                                                                : looks_every_polling;
        if (std::exchange(has_waited_, false)) looked_at_ = now;
        if (polls_.empty() || now - looked_at_ < pause) return 0;
        looked_at_ = now;
        const size_t count = look_at_polls(0);
        if (polling && count > 0) found_at_ = now;
        return count;
    }
    // Completes the polls whose descriptors are ready, after waiting for one or for the waker.
    size_t look_at_polls(int milliseconds) noexcept {
        watched_.clear();
        watched_.push_back({waker_.descriptor(), POLLIN, 0});
        for (const auto* operation : polls_) {
            watched_.push_back({operation->fd, static_cast<short>(operation->length), 0});
        }
        const int ready = ::poll(watched_.data(), watched_.size(), milliseconds);
        if (ready <= 0) return 0;
        if (watched_.front().revents != 0) waker_.drain();
        size_t count = 0;
        for (size_t i = watched_.size() - 1; i > 0; --i) {
            if (watched_[i].revents == 0) continue;
            Operation& operation = *polls_[i - 1];
            polls_.erase(polls_.begin() + static_cast<ptrdiff_t>(i - 1));
            complete(operation, watched_[i].revents);
            ++count;
        }
        return count;
    }

    ReadyQueue& ready_;
    Waker& waker_;
    std::vector<RingJob> slots_;
    std::vector<RingJob*> free_;
    Mailbox<BlockingPool::Job> done_;
    OperationQueue backlog_;
    std::vector<Operation*> polls_;
    std::vector<pollfd> watched_;
    Time looked_at_{};
    Time found_at_{};          // by a look while the reactor polled
    bool has_waited_ = false;  // which looked at them, just before this turn
    size_t in_flight_ = 0;
    ThreadPool pool_;  // last: its threads end before what they use
};

}  // namespace

Result<std::unique_ptr<KernelRing>> make_thread_ring(ReadyQueue& ready, Waker& waker,
                                                     const OsReactorOptions& options,
                                                     Report& report) {
    auto ring = std::make_unique<ThreadRing>(ready, waker, options);
    ROS2S_TRY(ring->start(report));
    return ring;
}

}  // namespace ros2s
