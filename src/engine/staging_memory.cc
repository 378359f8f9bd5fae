#include "staging_memory.h"

#include <sys/mman.h>

#include <new>

#include "ros2s/base/bytes.h"

namespace ros2s::engine {

StagingMemory::StagingMemory(size_t size) : size_(size) {
    if (size == 0) return;
    const bool huge = size % huge_page_bytes == 0;
    const size_t alignment = huge ? huge_page_bytes : block_bytes;
    data_ = {static_cast<std::byte*>(::operator new(size, std::align_val_t{alignment})),
             Free{alignment}};
    // A kernel without huge pages refuses it, and nothing is lost.
    if (huge) (void)::madvise(data_.get(), size, MADV_HUGEPAGE);
}

void StagingMemory::Free::operator()(std::byte* memory) const noexcept {
    ::operator delete(memory, std::align_val_t{alignment});
}

}  // namespace ros2s::engine
