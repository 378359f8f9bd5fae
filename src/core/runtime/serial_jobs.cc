#include "ros2s/runtime/serial_jobs.h"

#include <utility>

namespace ros2s {

SerialJobs::~SerialJobs() {
    if (is_attached_) reactor_.detach(*this);
}

void SerialJobs::submit(std::shared_ptr<SerialJob> job, Time begin_by) {
    if (!std::exchange(is_attached_, true)) reactor_.attach(*this);
    // While a job hangs, those whose callers have left do not gather.
    std::erase_if(waiting_, [](const auto& each) { return each.use_count() == 1; });
    job->begin_by_ = begin_by;
    waiting_.push_back(std::move(job));
    begin_next();
}

void SerialJobs::begin_next() {
    while (running_ == nullptr && !waiting_.empty()) {
        const std::shared_ptr<SerialJob> next = std::move(waiting_.front());
        waiting_.pop_front();
        if (next.use_count() == 1) continue;
        if (reactor_.now() > next->begin_by_) {
            end(*next);
            continue;
        }
        running_ = next;
        next->self_ = next;
        next->reactor_ = &reactor_;
        // Without a home: the pool posts nothing to frames that may be gone.
        next->work = [](BlockingPool::Job& job) noexcept {
            auto& self = static_cast<SerialJob&>(job);
            const std::shared_ptr<SerialJob> owned = std::move(self.self_);
            self.perform();
            self.is_performed_.store(true, std::memory_order_seq_cst);
            // The pool ends before the reactor does.
            self.reactor_->wake();
        };
        blocking_.submit(*next);
    }
}

void SerialJobs::end(SerialJob& job) const {
    job.ended_at_ = reactor_.now();
    job.ended_.request_stop();
}

bool SerialJobs::poll() noexcept {
    if (running_ == nullptr || !running_->is_performed_.load(std::memory_order_acquire)) {
        return false;
    }
    const std::shared_ptr<SerialJob> done = std::exchange(running_, nullptr);
    done->is_done_ = true;
    end(*done);
    begin_next();
    return true;
}

bool SerialJobs::prepare_sleep() noexcept {
    return running_ == nullptr || !running_->is_performed_.load(std::memory_order_seq_cst);
}

Task<Result<>> SerialJobs::wait(const Call& call, std::shared_ptr<SerialJob> job) {
    if (!job->has_ended()) {
        ROS2S_CO_TRY(call.check(reactor_));
        StopSource wake;
        const ForwardedStop by_caller(call.stop, wake);
        const ForwardedStop by_end(job->ended_.token(), wake);
        (void)co_await sleep_until(reactor_, call.deadline, wake.token());
    }
    if (job->is_done()) co_return Result<>{};
    ROS2S_CO_TRY(call.check(reactor_));
    co_return fail(Code::deadline);
}

}  // namespace ros2s
