// ThreadPool: the BlockingPool of a real process. A thread starts if there is work and none is
// idle, up to a limit. Further jobs queue. All signals are blocked in these threads, because the
// application handles its own.
//
// Owned by the composing code. Destroyed after every job is done and before the reactors that jobs
// post to. In a forked child the destructor does nothing.
//
// A process at its limit of threads: start() fails where there is somebody to tell. Later jobs wait
// for the threads that there are.
#pragma once
#include <cstddef>
#include <memory>
#include <string>

#include "ros2s/base/result.h"
#include "ros2s/runtime/blocking.h"

namespace ros2s {

class ThreadPool final : public BlockingPool {
  public:
    explicit ThreadPool(size_t limit, std::string thread_name = "ros2store-pool");
    ~ThreadPool() override;
    ThreadPool& operator=(ThreadPool&&) = delete;

    // Starts the first thread. Before the first job, where threads may be short; otherwise that job
    // starts it. Errors: io (EAGAIN), reported.
    [[nodiscard]] Result<> start(Report& report);
    // May be called from any thread. A job without `home` posts nothing when it is done.
    void submit(Job& job) noexcept override;
    [[nodiscard]] size_t limit() const noexcept;

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace ros2s
