// BlockingPool: a bounded number of helper threads for foreign code that blocks (RocksDB misses,
// system calls without an asynchronous form). In a simulation a job runs inline after a delay.
//
//     auto value = co_await pool.run(reactor, [&] { return database.get(key); });
//
// The lambda runs on another thread. It may use only what the awaiting frame owns or what is safe
// to share. The frame and the lambda in it live until the job is done. A job cannot be cancelled.
#pragma once
#include <coroutine>
#include <optional>
#include <type_traits>
#include <utility>

#include "ros2s/runtime/reactor.h"

namespace ros2s {

class BlockingPool {
  public:
    struct Job {
        void (*work)(Job&) noexcept = nullptr;
        Reactor* home = nullptr;
        RemotePost post{};  // posted to `home` when the work is done
        Job* next = nullptr;
    };
    virtual ~BlockingPool() = default;
    virtual void submit(Job& job) noexcept = 0;

    template <class F>
    [[nodiscard]] auto run(Reactor& home, F function) {
        return Awaiter<F>(*this, home, std::move(function));
    }

  private:
    template <class F>
    class [[nodiscard]] Awaiter : private Job {
        using R = std::invoke_result_t<F&>;
        static_assert(!std::is_void_v<R>, "return a Result, so that failures have a way out");

      public:
        Awaiter(BlockingPool& pool, Reactor& reactor, F function)
            : pool_(pool), function_(std::move(function)) {
            this->home = &reactor;
            this->work = [](Job& job) noexcept {
                auto& self = static_cast<Awaiter&>(job);
                self.result_.emplace(self.function_());
            };
        }
        Awaiter& operator=(Awaiter&&) = delete;
        bool await_ready() const noexcept { return false; }
        void await_suspend(std::coroutine_handle<> handle) noexcept {
            this->post.handle = handle;
            pool_.submit(*this);
        }
        R await_resume() { return std::move(*result_); }

      private:
        BlockingPool& pool_;
        F function_;
        std::optional<R> result_;
    };
};

}  // namespace ros2s
