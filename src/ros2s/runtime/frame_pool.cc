#include "frame_pool.h"

#include <array>
#include <new>

namespace ros2s {
namespace {

constexpr size_t class_bytes = 64;
constexpr size_t classes = 32;  // frames up to 2 KiB; larger ones go to the allocator
constexpr size_t kept_bytes_max = size_t{256} << 10;  // per class

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
    std::array<size_t, classes> kept{};  // frames
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
        --pool.kept[index];
        return frame;
    }
    return ::operator new((index + 1) * class_bytes);
}

void free_frame(void* frame, size_t size) noexcept {
    const size_t index = (size - 1) / class_bytes;
    if (!pooled || index >= classes || dead ||
        pool.kept[index] >= kept_bytes_max / ((index + 1) * class_bytes)) {
        return ::operator delete(frame);
    }
    auto* free = static_cast<FreeFrame*>(frame);
    free->next = pool.lists[index];
    pool.lists[index] = free;
    ++pool.kept[index];
}

size_t pooled_frame_bytes() noexcept {
    if (dead) return 0;
    size_t bytes = 0;
    for (size_t index = 0; index < classes; ++index) {
        bytes += pool.kept[index] * (index + 1) * class_bytes;
    }
    return bytes;
}

}  // namespace ros2s
