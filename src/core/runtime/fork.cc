#include "ros2s/runtime/fork.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
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
    std::atomic<uint32_t> openings = 0;
};

// For exit() in a child of the process that registered it.
void end_forked_child(int status, void* of_generation) {
    if (reinterpret_cast<uintptr_t>(of_generation) == fork_generation()) return;
    ::fflush(nullptr);
    ::_exit(status);
}

void end_children_here(uint32_t generation) noexcept {
    ::on_exit(end_forked_child, reinterpret_cast<void*>(uintptr_t{generation}));
}

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
                               const uint32_t parents = own.generation - 1;
                               if (own.openings.exchange(0) > 0) end_children_here(parents);
                           });
        ROS2S_CHECK(failed == 0);
        return made;
    }();
    return instance;
}

}  // namespace

uint32_t fork_generation() noexcept { return state().generation.load(std::memory_order_relaxed); }

LibraryOpening::LibraryOpening() noexcept { ++state().openings; }

void LibraryOpening::done(bool is_first) noexcept {
    if (is_first) end_children_here(fork_generation());
    --state().openings;
}

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
