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
            handle.forget_calls_of_parent();
            ++handle.calls_;
        }
        Use& operator=(Use&&) = delete;
        ~Use() {
            if (--handle_.calls_ == 0 && handle_.idle_ != nullptr) handle_.idle_->release();
        }

        [[nodiscard]] T& handle() const { return *handle_.handle_; }

      private:
        SharedHandle& handle_;
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
        forget_calls_of_parent();
        std::binary_semaphore idle(0);
        const bool waits = calls_ > 0;
        if (waits) idle_ = &idle;
        const Unlocked unlocked;
        if (waits) idle.acquire();
        T closing = std::move(*handle_);
        handle_.reset();
        close(closing);
    }
    [[nodiscard]] bool is_closed() const { return closed_; }

  private:
    // Threads of the parent do not exist in a forked child, so their calls never end there.
    void forget_calls_of_parent() {
        if (std::exchange(forks_, forks.load()) != forks.load()) calls_ = 0;
    }

    std::optional<T> handle_;
    const char* name_;
    bool closed_ = false;
    unsigned calls_ = 0;
    unsigned forks_ = forks.load();
    std::binary_semaphore* idle_ = nullptr;  // of close(), which waits for the last call
};
