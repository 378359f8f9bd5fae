#include "ros2s/runtime/fork.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <vector>

#include "ros2s/base/check.h"

namespace ros2s {
namespace {

// One per process, because fork() is: the only mutable global of the runtime.
struct ForkState {
    std::atomic<uint32_t> generation = 0;
    std::mutex mutex;
    std::vector<int> descriptors;
};

ForkState& state() {
    // Never destroyed: a thread may still close its descriptors while the process exits.
    static ForkState& instance = [] -> ForkState& {
        auto& made = *new ForkState;
        const int failed =
            pthread_atfork([] { state().mutex.lock(); }, [] { state().mutex.unlock(); },
                           [] {
                               auto& own = state();
                               own.generation.fetch_add(1);
                               for (const int each : own.descriptors) ::close(each);
                               own.descriptors.clear();
                               own.mutex.unlock();
                           });
        ROS2S_CHECK(failed == 0);
        return made;
    }();
    return instance;
}

}  // namespace

uint32_t fork_generation() noexcept { return state().generation.load(std::memory_order_relaxed); }

void close_in_forked_child(int descriptor) {
    auto& own = state();
    const std::scoped_lock lock(own.mutex);
    own.descriptors.push_back(descriptor);
}

void forget_in_forked_child(int descriptor) noexcept {
    auto& own = state();
    const std::scoped_lock lock(own.mutex);
    std::erase(own.descriptors, descriptor);
}

void close_everywhere(int descriptor) noexcept {
    auto& own = state();
    const std::scoped_lock lock(own.mutex);
    if (std::erase(own.descriptors, descriptor) > 0) ::close(descriptor);
}

}  // namespace ros2s
