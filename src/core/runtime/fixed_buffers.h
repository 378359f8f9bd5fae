// FixedBuffers: memory that is registered with one io_uring. Its pages are mapped once, not for
// each operation.
//
// Used on the ring's core. There are 64 slots of at most 1 GiB each.
#pragma once
#include <cstddef>
#include <vector>

#include "ros2s/base/bytes.h"

struct io_uring;

namespace ros2s {

class FixedBuffers {
  public:
    FixedBuffers& operator=(FixedBuffers&&) = delete;

    // If the kernel has no such table, or open() was not called, add() returns false. The ring
    // outlives this object.
    void open(io_uring& ring) noexcept;
    // Registers all of it or nothing. False: memlock is too low, or no slot is left.
    bool add(Bytes memory) noexcept;
    void add_all(const FixedBuffers& other) noexcept;
    // Call it with no operation in flight inside the memory. Memory that was not added is ignored.
    void remove(Bytes memory) noexcept;

    // The slot that holds the whole range; -1: none.
    [[nodiscard]] int slot_of(const void* address, size_t length) const noexcept {
        const auto* begin = static_cast<const std::byte*>(address);
        for (size_t i = 0; i < slots_.size(); ++i) {
            if (begin >= slots_[i].begin && begin < slots_[i].end &&
                length <= static_cast<size_t>(slots_[i].end - begin)) {
                return static_cast<int>(i);
            }
        }
        return -1;
    }

  private:
    struct Range {
        std::byte* begin = nullptr;  // null: free
        std::byte* end = nullptr;
    };
    bool update(size_t slot, Bytes memory) noexcept;

    io_uring* ring_ = nullptr;
    std::vector<Range> slots_;  // as long as the last used slot requires
};

}  // namespace ros2s
