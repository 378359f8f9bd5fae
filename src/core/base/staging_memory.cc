#include "ros2s/base/staging_memory.h"

#include <sys/mman.h>

#include <cstdint>
#include <new>

#include "ros2s/base/bytes.h"

namespace ros2s {
namespace {

// Larger sizes come directly from the kernel, and go back to it. An allocator would keep freed
// pieces of this size between others, and memory would exceed its limit.
#ifdef ROS2S_SANITIZED
constexpr size_t mapped_bytes_min = SIZE_MAX;  // its allocator detects a use after free
#else
constexpr size_t mapped_bytes_min = size_t{256} << 10;
#endif

// Pages with this alignment. The excess around them is unmapped at once.
// With `now` they are allocated: one call costs less than a fault of each.
std::byte* map_pages(size_t size, size_t alignment, bool now) {
    const size_t whole = size + alignment;
    void* const mapped = ::mmap(nullptr, whole, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | (now ? MAP_POPULATE : 0), -1, 0);
    if (mapped == MAP_FAILED) throw std::bad_alloc();
    auto* const begin = static_cast<std::byte*>(mapped);
    const size_t before = round_up(reinterpret_cast<uintptr_t>(begin), uintptr_t{alignment}) -
                          reinterpret_cast<uintptr_t>(begin);
    if (before != 0) ::munmap(begin, before);
    if (before != alignment) ::munmap(begin + before + size, alignment - before);
    return begin + before;
}

}  // namespace

StagingMemory::StagingMemory(size_t size) : size_(size) {
    if (size == 0) return;
    const bool huge = size % huge_page_bytes == 0;
    const size_t alignment = huge ? huge_page_bytes : block_bytes;
    if (size >= mapped_bytes_min) {
        const size_t bytes = round_up<size_t>(size, block_bytes);
        data_ = {map_pages(bytes, alignment, !huge),
                 Free{.alignment = alignment, .mapped_bytes = bytes}};
    } else {
        data_ = {static_cast<std::byte*>(::operator new(size, std::align_val_t{alignment})),
                 Free{.alignment = alignment}};
    }
    // A kernel without huge pages refuses it, which does no harm.
    if (huge) (void)::madvise(data_.get(), size, MADV_HUGEPAGE);
}

void StagingMemory::Free::operator()(std::byte* memory) const noexcept {
    if (mapped_bytes != 0) {
        ::munmap(memory, mapped_bytes);
    } else {
        ::operator delete(memory, std::align_val_t{alignment});
    }
}

}  // namespace ros2s
