// StagingMemory: owned memory for payload, suitable for O_DIRECT. It uses huge pages if the machine
// has them and the size is a multiple of one: the kernel then looks up one page for a write instead
// of 512, and a copy misses the TLB once. Without them, it is ordinary memory. Callers see no
// difference. Freed memory goes back to the kernel, unless it is small.
//
// Move-only; an empty one has size 0. Not zeroed. A child of fork() must not use it.
#pragma once
#include <cstddef>
#include <memory>

namespace ros2s {

class StagingMemory {
  public:
    static constexpr size_t huge_page_bytes = size_t{2} << 20;

    StagingMemory() = default;
    explicit StagingMemory(size_t size);
    [[nodiscard]] std::byte* data() const { return data_.get(); }
    [[nodiscard]] size_t size() const { return size_; }

  private:
    struct Free {
        size_t alignment = 0;
        size_t mapped_bytes = 0;  // 0: it came from the allocator
        void operator()(std::byte* memory) const noexcept;
    };
    std::unique_ptr<std::byte[], Free> data_{nullptr, Free{}};
    size_t size_ = 0;
};

}  // namespace ros2s
