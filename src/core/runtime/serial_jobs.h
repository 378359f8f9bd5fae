// SerialJobs: calls that block and may hang, of one foreign thing that one thread at a time may
// use. They run on the BlockingPool one after the other, in the order of submission. A caller waits
// for its job no longer than its call, and leaves it behind.
//
//     jobs.submit(job, begin_by);
//     if (co_await jobs.wait(call, job)) use(*job);
//
// A job that hangs occupies one thread, until it returns. It owns what it uses, because its caller
// and this object may be gone by then. A job without a waiting caller is not begun.
//
// Used and destroyed on the reactor's core. No caller waits when it is destroyed. A job in progress
// then goes on; the pool waits for it when it ends. After the first job it is a Poller of the core:
// one comparison in each turn of the loop, and one atomic load while a job is in progress.
#pragma once
#include <atomic>
#include <deque>
#include <memory>

#include "ros2s/runtime/blocking.h"
#include "ros2s/runtime/call.h"
#include "ros2s/runtime/reactor.h"

namespace ros2s {

class SerialJob : private BlockingPool::Job {
  public:
    SerialJob& operator=(SerialJob&&) = delete;
    virtual ~SerialJob() = default;
    // On the core. If it is done, the job's results may be read.
    [[nodiscard]] bool is_done() const { return is_done_; }
    // Done, or not begun in time.
    [[nodiscard]] bool has_ended() const { return ended_.stop_requested(); }
    [[nodiscard]] Time ended_at() const { return ended_at_; }

  private:
    friend class SerialJobs;
    // On a helper thread. The job may also be destroyed there.
    virtual void perform() noexcept = 0;

    bool is_done_ = false;
    StopSource ended_;
    Time begin_by_{}, ended_at_{};
    Reactor* reactor_ = nullptr;
    std::shared_ptr<SerialJob> self_;  // until it is performed
    std::atomic<bool> is_performed_ = false;
};

class SerialJobs final : private Poller {
  public:
    SerialJobs(Reactor& reactor, BlockingPool& blocking) : reactor_(reactor), blocking_(blocking) {}
    ~SerialJobs() override;
    SerialJobs& operator=(SerialJobs&&) = delete;

    // A job that could not begin by that time ends without being performed.
    void submit(std::shared_ptr<SerialJob> job, Time begin_by);
    // Until the job is done. Errors: cancelled, deadline (also: it was not begun in time).
    Task<Result<>> wait(const Call& call, std::shared_ptr<SerialJob> job);

  private:
    bool poll() noexcept override;
    bool prepare_sleep() noexcept override;
    void begin_next();
    void end(SerialJob& job) const;

    Reactor& reactor_;
    BlockingPool& blocking_;
    bool is_attached_ = false;
    std::shared_ptr<SerialJob> running_;
    std::deque<std::shared_ptr<SerialJob>> waiting_;
};

}  // namespace ros2s
