// FixedBuffers: the memory that one io_uring knows. Its pages are mapped once, and not for each
// operation.
//
// Used on the ring's core. A slot holds 1 GiB at most, and there are 64.
#pragma once
#include <cstddef>
#include <vector>

#include "ros2s/base/bytes.h"

struct io_uring;

namespace ros2s {

class FixedBuffers {
  public:
    FixedBuffers() = default;
    FixedBuffers(const FixedBuffers&) = delete;
    FixedBuffers& operator=(const FixedBuffers&) = delete;

    // Where the kernel takes none, or where this was not called, add() is false. The ring outlives
    // this.
    void open(io_uring& ring) noexcept;
    // All of it, or nothing: false (memlock too low, or no slot left).
    bool add(Bytes memory) noexcept;
    void add_all(const FixedBuffers& other) noexcept;
    // With no operation in flight inside it. Of what was not added nothing happens.
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
    struct Slot {
        std::byte* begin = nullptr;  // null: free
        std::byte* end = nullptr;
    };
    bool update(size_t slot, Bytes memory) noexcept;

    io_uring* ring_ = nullptr;
    std::vector<Slot> slots_;  // as long as its last used one
};

}  // namespace ros2s
