#include "ros2s/runtime/thread_pool.h"

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "ros2s/base/check.h"
#include "ros2s/runtime/fork.h"
#include "thread.h"

namespace ros2s {

struct ThreadPool::State {
    size_t limit = 0;
    std::string name;
    ForkMark process;
    std::mutex mutex;
    std::condition_variable work_or_end;
    Job* first = nullptr;
    Job* last = nullptr;
    size_t queued = 0;
    size_t idle = 0;
    bool ending = false;
    std::vector<std::thread> threads;

    // With the lock.
    Result<> add_thread() {
        ROS2S_TRY_ASSIGN(std::thread thread, start_thread(name, [this] { serve(); }));
        threads.push_back(std::move(thread));
        return {};
    }

    void serve() {
        std::unique_lock lock(mutex);
        for (;;) {
            ++idle;
            work_or_end.wait(lock, [this] { return first != nullptr || ending; });
            --idle;
            if (first == nullptr) return;
            Job& job = *first;
            first = job.next;
            if (first == nullptr) last = nullptr;
            --queued;
            lock.unlock();
            // A job without a home may be gone once its work is done.
            Reactor* home = job.home;
            job.work(job);
            if (home != nullptr) home->post_remote(job.post);
            lock.lock();
        }
    }
};

ThreadPool::ThreadPool(size_t limit, std::string thread_name) : state_(new State) {
    ROS2S_CHECK(limit > 0);
    state_->limit = limit;
    state_->name = std::move(thread_name);
}

ThreadPool::~ThreadPool() {
    if (state_->process.in_forked_child()) {
        [[maybe_unused]] const auto* left_be = state_.release();
        return;
    }
    {
        const std::scoped_lock lock(state_->mutex);
        state_->ending = true;
    }
    state_->work_or_end.notify_all();
    for (auto& thread : state_->threads) thread.join();
}

Result<> ThreadPool::start(Report& report) {
    const std::scoped_lock lock(state_->mutex);
    if (!state_->threads.empty()) return {};
    const auto added = state_->add_thread();
    if (added) return {};
    return report.fail(added.error(), no_thread("a helper thread", added.error()));
}

size_t ThreadPool::limit() const noexcept { return state_->limit; }

void ThreadPool::submit(Job& job) noexcept {
    auto& own = *state_;
    {
        const std::scoped_lock lock(own.mutex);
        job.next = nullptr;
        (own.last != nullptr ? own.last->next : own.first) = &job;
        own.last = &job;
        ++own.queued;
        if (own.queued > own.idle && own.threads.size() < own.limit) {
            // With one thread the job only waits longer; with none it would wait for ever.
            const auto added = own.add_thread();
            ROS2S_CHECK(added || !own.threads.empty());
        }
    }
    own.work_or_end.notify_one();
}

}  // namespace ros2s
