#include "allocation_counter.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

// glibc's own names of what is replaced here.
extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* memory, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
}

namespace {

constinit std::atomic<uint64_t> of_this_process = 0;
constinit std::atomic<uint64_t>* count = &of_this_process;

// Before main(), and before threads.
[[gnu::constructor]] void share_the_count() {
    const char* const file = ::getenv(ros2s::tests::allocations_file_variable);
    if (file == nullptr) return;
    const int descriptor = ::open(file, O_RDWR | O_CLOEXEC);
    if (descriptor < 0) ::_exit(126);
    void* const memory =
        ::mmap(nullptr, sizeof *count, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    ::close(descriptor);
    if (memory == MAP_FAILED) ::_exit(126);
    count = static_cast<std::atomic<uint64_t>*>(memory);
}

void note() noexcept { count->fetch_add(1, std::memory_order_relaxed); }

}  // namespace

#pragma GCC visibility push(default)
extern "C" {
void* malloc(size_t bytes) {
    note();
    return __libc_malloc(bytes);
}
void* calloc(size_t number, size_t bytes) {
    note();
    return __libc_calloc(number, bytes);
}
void* realloc(void* memory, size_t bytes) {
    note();
    return __libc_realloc(memory, bytes);
}
void* memalign(size_t alignment, size_t bytes) {
    note();
    return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
    note();
    return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** memory, size_t alignment, size_t bytes) {
    note();
    *memory = __libc_memalign(alignment, bytes);
    return *memory == nullptr ? ENOMEM : 0;
}
}
#pragma GCC visibility pop

namespace ros2s::tests {

uint64_t allocations_here() noexcept { return of_this_process.load(std::memory_order_relaxed); }

}  // namespace ros2s::tests
