#include "slots.h"

namespace ros2s::fabric::ofi {

Slot* Slots::take() {
    if (idle_.empty() && !grow()) return nullptr;
    Slot* const slot = idle_.back();
    idle_.pop_back();
    return slot;
}

void Slots::give(Slot& slot) noexcept {
    slot.lane = nullptr;
    slot.move = nullptr;
    idle_.push_back(&slot);
}

bool Slots::grow() {
    auto slab = std::make_unique<Slab>();
    constexpr size_t bytes = Slab::count * Slot::size;
    slab->bytes = std::make_unique_for_overwrite<std::byte[]>(bytes);
    fid_mr* registration = nullptr;
    const int status =
        fi_mr_reg(domain_, slab->bytes.get(), bytes, FI_SEND | FI_RECV | FI_READ | FI_WRITE, 0, 0,
                  0, &registration, nullptr);
    if (status != 0) return false;
    slab->registration.reset(registration);
    slab->slots.resize(Slab::count);
    for (size_t i = 0; i < Slab::count; ++i) {
        slab->slots[i].bytes = slab->bytes.get() + i * Slot::size;
        slab->slots[i].descriptor = fi_mr_desc(registration);
        idle_.push_back(&slab->slots[i]);
    }
    slabs_.push_back(std::move(slab));
    return true;
}

void Slots::orphan(const MessageLane& lane) noexcept {
    for (const auto& slab : slabs_) {
        for (Slot& slot : slab->slots) {
            if (slot.lane != &lane) continue;
            slot.lane = nullptr;
            orphans_.push_back(&slot);
        }
    }
}

void Slots::forget_moves(const MessageLane& lane) noexcept {
    for (const auto& slab : slabs_) {
        for (Slot& slot : slab->slots) {
            if (slot.lane == &lane) slot.move = nullptr;
        }
    }
}

void Slots::reclaim() noexcept {
    for (Slot* slot : orphans_) give(*slot);
    orphans_.clear();
}

}  // namespace ros2s::fabric::ofi
