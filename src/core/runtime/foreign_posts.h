// ForeignPosts: Reactor::post_remote() for threads that the reactor's owner cannot join, such as
// those of a library. Such a thread may resume the reactor's last work. The owner then destroys the
// reactor while the thread still checks whether to wake it. So the owner destroys this object
// first. Its destructor waits until all threads have returned.
//
// The reactor is borrowed and outlives this. post(): any thread.
#pragma once
#include <sched.h>

#include <atomic>

#include "ros2s/runtime/reactor.h"

namespace ros2s {

class ForeignPosts {
  public:
    explicit ForeignPosts(Reactor& reactor) noexcept : reactor_(reactor) {}
    ForeignPosts& operator=(ForeignPosts&&) = delete;
    ~ForeignPosts() {
        while (inside_.load(std::memory_order_acquire) > 0) ::sched_yield();
    }
    void post(RemotePost& post) noexcept {
        inside_.fetch_add(1, std::memory_order_relaxed);
        reactor_.post_remote(post);
        inside_.fetch_sub(1, std::memory_order_release);
    }

  private:
    Reactor& reactor_;
    std::atomic<uint32_t> inside_ = 0;
};

}  // namespace ros2s
