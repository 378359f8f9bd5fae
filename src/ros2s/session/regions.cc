#include "regions.h"

#include <algorithm>

namespace ros2s::session {

const RegionTable::Slot* RegionTable::find(uint64_t number) const {
    const uint64_t index = number & 0xffffffff;
    if (index >= slots_.size()) return nullptr;
    const Slot& slot = slots_[index];
    return slot.live && slot.generation == number >> 32 ? &slot : nullptr;
}

Result<uint64_t> RegionTable::add(Region region) {
    const bool wraps = region.address + region.length < region.address;
    if (region.length == 0 || wraps || (!region.readable && !region.writable) ||
        region.key.size() > region_key_bytes_max || region.memory > object::MemoryKind::gpu) {
        return fail(Code::invalid);
    }
    if (live_ == regions_max) return fail(Code::busy, regions_max);
    auto slot = std::ranges::find(slots_, false, &Slot::live);
    if (slot == slots_.end()) slot = slots_.emplace(slots_.end());
    slot->live = true;
    slot->region = std::move(region);
    ++live_;
    return uint64_t{slot->generation} << 32 | static_cast<uint64_t>(slot - slots_.begin());
}

Result<> RegionTable::remove(uint64_t number) {
    if (find(number) == nullptr) return fail(Code::stale);
    Slot& slot = slots_[number & 0xffffffff];
    slot.live = false;
    slot.region = {};
    ++slot.generation;
    --live_;
    return {};
}

Result<const Region*> RegionTable::check(uint64_t number, uint64_t offset, uint64_t length,
                                         Access access) const {
    const Slot* slot = find(number);
    if (slot == nullptr) return fail(Code::stale);
    const Region& region = slot->region;
    if (!(access == Access::get ? region.readable : region.writable)) return fail(Code::denied);
    if (offset > region.length || length > region.length - offset) return fail(Code::invalid);
    return &region;
}

}  // namespace ros2s::session
