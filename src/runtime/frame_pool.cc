#include "frame_pool.h"

#include <array>
#include <new>

namespace ros2s {
namespace {

constexpr size_t class_bytes = 64;
constexpr size_t classes = 32;  // frames up to 2 KiB; larger ones go to the allocator

#ifdef ROS2S_SANITIZED
constexpr bool pooled = false;
#else
constexpr bool pooled = true;
#endif

struct FreeFrame {
    FreeFrame* next;
};

struct Pool {
    std::array<FreeFrame*, classes> lists{};
    ~Pool() {
        for (auto*& list : lists) {
            while (list != nullptr) {
                auto* frame = list;
                list = frame->next;
                ::operator delete(frame);
            }
        }
    }
};

// A coroutine may die while its thread's statics are being destroyed; `dead` outlives the pool.
thread_local bool dead = false;
struct GuardedPool : Pool {
    ~GuardedPool() { dead = true; }
};
thread_local GuardedPool pool;

}  // namespace

void* allocate_frame(size_t size) {
    const size_t index = (size - 1) / class_bytes;
    if (!pooled || index >= classes) return ::operator new(size);
    if (!dead && pool.lists[index] != nullptr) {
        auto* frame = pool.lists[index];
        pool.lists[index] = frame->next;
        return frame;
    }
    return ::operator new((index + 1) * class_bytes);
}

void free_frame(void* frame, size_t size) noexcept {
    const size_t index = (size - 1) / class_bytes;
    if (!pooled || index >= classes || dead) return ::operator delete(frame);
    auto* free = static_cast<FreeFrame*>(frame);
    free->next = pool.lists[index];
    pool.lists[index] = free;
}

}  // namespace ros2s
