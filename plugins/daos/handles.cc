#include "handles.h"

#include <utility>

namespace ros2s::daos {
namespace {

// cookie = generation << 32 | slot << 4 | kind. The kind is never 0, so no cookie is.
constexpr unsigned kind_bits = 4;
constexpr unsigned generation_shift = 32;

}  // namespace

Handles& Handles::table() {
    // Never destroyed: a program may call us from its own destructors.
    static Handles& only = *new Handles;
    return only;
}

daos_handle_t Handles::add(Kind kind, std::shared_ptr<void> object) {
    const std::lock_guard locked(lock_);
    size_t at = 0;
    while (at < slots_.size() && slots_[at].object != nullptr) ++at;
    if (at == slots_.size()) slots_.emplace_back();
    auto& slot = slots_[at];
    slot.object = std::move(object);
    slot.kind = kind;
    return {uint64_t{slot.generation} << generation_shift | uint64_t{at} << kind_bits |
            std::to_underlying(kind)};
}

Handles::Entry* Handles::slot_of(Kind kind, daos_handle_t handle) {
    const uint64_t at = (handle.cookie & 0xffffffff) >> kind_bits;
    if ((handle.cookie & 0xf) != std::to_underlying(kind) || at >= slots_.size()) return nullptr;
    auto& slot = slots_[at];
    const bool same = slot.object != nullptr && slot.kind == kind &&
                      slot.generation == handle.cookie >> generation_shift;
    return same ? &slot : nullptr;
}

std::shared_ptr<void> Handles::find(Kind kind, daos_handle_t handle) {
    const std::lock_guard locked(lock_);
    const auto* const slot = slot_of(kind, handle);
    return slot == nullptr ? nullptr : slot->object;
}

std::shared_ptr<void> Handles::remove(Kind kind, daos_handle_t handle) {
    const std::lock_guard locked(lock_);
    auto* const slot = slot_of(kind, handle);
    if (slot == nullptr) return nullptr;
    ++slot->generation;
    return std::exchange(slot->object, nullptr);
}

}  // namespace ros2s::daos
