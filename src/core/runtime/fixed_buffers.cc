#include "ros2s/runtime/fixed_buffers.h"

#include <liburing.h>

#include <algorithm>

#include "ros2s/base/check.h"

namespace ros2s {
namespace {
constexpr unsigned slots_max = 64;
constexpr size_t slot_bytes_max = size_t{1} << 30;  // the kernel's limit
}  // namespace

void FixedBuffers::open(io_uring& ring) noexcept {
    if (io_uring_register_buffers_sparse(&ring, slots_max) == 0) ring_ = &ring;
}

bool FixedBuffers::add(Bytes memory) noexcept {
    if (ring_ == nullptr) return false;
    for (Bytes left = memory; !left.empty();) {
        const Bytes part = left.first(std::min(left.size(), slot_bytes_max));
        size_t slot = 0;
        while (slot < slots_.size() && slots_[slot].begin != nullptr) ++slot;
        if (slot == slots_.size() && slot < slots_max) slots_.emplace_back();
        if (slot == slots_max || !update(slot, part)) {
            remove(memory);
            return false;
        }
        left = left.subspan(part.size());
    }
    return true;
}

void FixedBuffers::add_all(const FixedBuffers& other) noexcept {
    for (const Range& each : other.slots_) {
        if (each.begin != nullptr) (void)add({each.begin, each.end});
    }
}

void FixedBuffers::remove(Bytes memory) noexcept {
    for (size_t slot = 0; slot < slots_.size(); ++slot) {
        const Range& each = slots_[slot];
        if (each.begin == nullptr || each.begin < memory.data() ||
            each.end > memory.data() + memory.size()) {
            continue;
        }
        const bool cleared = update(slot, {});
        ROS2S_CHECK(cleared);
    }
}

bool FixedBuffers::update(size_t slot, Bytes memory) noexcept {
    iovec range{memory.data(), memory.size()};
    if (io_uring_register_buffers_update_tag(ring_, static_cast<unsigned>(slot), &range, nullptr,
                                             1) != 1) {
        return false;
    }
    slots_[slot] = {memory.data(), memory.data() + memory.size()};
    return true;
}

}  // namespace ros2s
