#include "frame_pool.h"

#include <array>
#include <new>

#include "ros2s/runtime/frame_count.h"

namespace ros2s {
namespace {

// Frames up to 2 KiB, and larger ones up to 10 KiB: a message with a block, the largest coroutines.
// The allocator serves larger ones.
constexpr size_t small_class_bytes = 64;
constexpr size_t small_classes = 32;
constexpr size_t small_bytes_max = small_classes * small_class_bytes;
constexpr size_t large_class_bytes = 1024;
constexpr size_t large_classes = 8;
constexpr size_t classes = small_classes + large_classes;
// A class may always keep kept_bytes_of_class, so that no other class takes its room. It may keep
// more while all classes together keep less than kept_bytes_shared. 256 requests have three frames
// of 4 KiB each.
constexpr size_t kept_bytes_of_class = size_t{256} << 10;
constexpr size_t kept_bytes_shared = size_t{4} << 20;

constexpr size_t class_of(size_t size) {
    return size <= small_bytes_max
               ? (size - 1) / small_class_bytes
               : small_classes + (size - small_bytes_max - 1) / large_class_bytes;
}
constexpr size_t bytes_of_class(size_t index) {
    return index < small_classes
               ? (index + 1) * small_class_bytes
               : small_bytes_max + (index - small_classes + 1) * large_class_bytes;
}
static_assert(class_of(1) == 0 && class_of(64) == 0 && class_of(65) == 1 && class_of(2048) == 31 &&
              class_of(2049) == 32 && class_of(3072) == 32 && class_of(10240) == classes - 1);
static_assert(bytes_of_class(class_of(2048)) == 2048 && bytes_of_class(class_of(2049)) == 3072 &&
              bytes_of_class(classes - 1) == 10240);

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
    size_t kept_bytes = 0;
    uint64_t taken = 0;
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
thread_local constinit bool dead = false;
// The thread's pool, once it has one. A plain pointer is read without the check whether the pool
// was already constructed.
thread_local constinit Pool* pool_here = nullptr;
struct GuardedPool : Pool {
    ~GuardedPool() {
        dead = true;
        pool_here = nullptr;
    }
};
Pool* make_pool() {
    thread_local GuardedPool pool;
    return pool_here = &pool;
}
// Null while the thread ends.
Pool* pool() {
    if (pool_here != nullptr) [[likely]]
        return pool_here;
    return dead ? nullptr : make_pool();
}

}  // namespace

void* allocate_frame(size_t size) {
    const size_t index = class_of(size);
    if (!pooled || index >= classes) return ::operator new(size);
    Pool* const mine = pool();
    if (mine != nullptr) ++mine->taken;
    if (mine == nullptr || mine->lists[index] == nullptr) {
        return ::operator new(bytes_of_class(index));
    }
    auto* frame = mine->lists[index];
    mine->lists[index] = frame->next;
    --mine->kept[index];
    mine->kept_bytes -= bytes_of_class(index);
    return frame;
}

void free_frame(void* frame, size_t size) noexcept {
    const size_t index = class_of(size);
    if (!pooled || index >= classes) return ::operator delete(frame);
    Pool* const mine = pool();
    const size_t bytes = bytes_of_class(index);
    const bool is_full = mine == nullptr || (mine->kept[index] >= kept_bytes_of_class / bytes &&
                                             mine->kept_bytes + bytes > kept_bytes_shared);
    if (is_full) return ::operator delete(frame);
    auto* free = static_cast<FreeFrame*>(frame);
    free->next = mine->lists[index];
    mine->lists[index] = free;
    ++mine->kept[index];
    mine->kept_bytes += bytes;
}

uint64_t frames_taken() noexcept { return pool_here == nullptr ? 0 : pool_here->taken; }

size_t pooled_frame_bytes() noexcept { return pool_here == nullptr ? 0 : pool_here->kept_bytes; }

}  // namespace ros2s
