// SharedHandle: a handle of the library that several Python threads use.
#pragma once
#include <cxxabi.h>
#include <pthread.h>
#include <pybind11/pybind11.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <optional>
#include <ros2store/ros2store.hpp>
#include <semaphore>
#include <string>
#include <utility>

// The time of a call without the GIL. When the interpreter ends, it ends daemon threads where they
// take the GIL again, by unwinding their stacks. The destructors there need the GIL, so such a
// thread stops here instead, until the process ends.
class Unlocked {
  public:
    Unlocked() : state_(PyEval_SaveThread()) {}
    Unlocked& operator=(Unlocked&&) = delete;
    ~Unlocked() {
        try {
            PyEval_RestoreThread(state_);
        } catch (const abi::__forced_unwind&) {
            while (true) pause();
        }
    }

  private:
    PyThreadState* state_;
};

// How many forks are between this process and the one that loaded the module.
inline std::atomic<unsigned> forks = 0;
inline void count_forks() {
    pthread_atfork(nullptr, nullptr, [] { ++forks; });
}

// The number of things that run in this process. In a forked child it begins at 0: threads and
// queues of the parent do not go on there. Used with the GIL.
class RunningCount {
  public:
    unsigned value() {
        if (std::exchange(forks_, forks.load()) != forks.load()) value_ = 0;
        return value_;
    }
    // Counts one until it is destroyed. In a forked child, that of the parent counts nothing.
    class One {
      public:
        explicit One(RunningCount& count) : count_(count) { count.value_ = count.value() + 1; }
        One& operator=(One&&) = delete;
        ~One() {
            if (is_of_this_process()) --count_.value_;
        }
        [[nodiscard]] bool is_of_this_process() const { return forks_ == forks.load(); }

      private:
        RunningCount& count_;
        unsigned forks_ = forks.load();
    };

  private:
    unsigned value_ = 0;
    unsigned forks_ = forks.load();
};

// close() lets the running calls end first, and later calls fail. All methods are called with the
// GIL, which protects the members.
template <class T>
class SharedHandle {
  public:
    SharedHandle(T handle, const char* name) : handle_(std::move(handle)), name_(name) {}

    // A call that runs. Begins and ends with the GIL.
    class Use {
      public:
        explicit Use(SharedHandle& handle) : handle_(handle) {
            if (handle.closed_) {
                throw ros2store::Error(EBADF, std::string("the ") + handle.name_ + " is closed");
            }
            running_.emplace(handle.calls_);
        }
        Use& operator=(Use&&) = delete;
        ~Use() {
            const bool waited_for = running_->is_of_this_process();
            running_.reset();
            if (waited_for && handle_.calls_.value() == 0 && handle_.idle_ != nullptr) {
                handle_.idle_->release();
            }
        }

        [[nodiscard]] T& handle() const { return *handle_.handle_; }

      private:
        SharedHandle& handle_;
        std::optional<RunningCount::One> running_;
    };
    // Returns work(handle), which runs without the GIL.
    template <class Work>
    auto call(const Work& work) {
        const Use running(*this);
        const Unlocked unlocked;
        return work(running.handle());
    }
    // The handle is closed even if close(handle) throws.
    template <class Close>
    void close(const Close& close) {
        if (std::exchange(closed_, true)) return;
        std::binary_semaphore idle(0);
        const bool waits = calls_.value() > 0;
        if (waits) idle_ = &idle;
        const Unlocked unlocked;
        if (waits) idle.acquire();
        T closing = std::move(*handle_);
        handle_.reset();
        close(closing);
    }
    [[nodiscard]] bool is_closed() const { return closed_; }

  private:
    std::optional<T> handle_;
    const char* name_;
    bool closed_ = false;
    RunningCount calls_;
    std::binary_semaphore* idle_ = nullptr;  // of close(), which waits for the last call
};
