#include "packet_buffers.h"

namespace ros2s::fabric::ofi {

PacketBuffer* PacketBuffers::take() {
    if (idle_.empty() && !grow()) return nullptr;
    PacketBuffer* const buffer = idle_.back();
    idle_.pop_back();
    return buffer;
}

void PacketBuffers::give(PacketBuffer& buffer) noexcept {
    buffer.lane = nullptr;
    buffer.move = nullptr;
    idle_.push_back(&buffer);
}

bool PacketBuffers::grow() {
    auto slab = std::make_unique<Slab>();
    constexpr size_t bytes = Slab::count * PacketBuffer::size;
    slab->bytes = std::make_unique_for_overwrite<std::byte[]>(bytes);
    constexpr uint64_t access = FI_SEND | FI_RECV | FI_READ | FI_WRITE;
    if (make(slab->registration, fi_mr_reg, domain_, slab->bytes.get(), bytes, access, 0, 0, 0) !=
        0) {
        return false;
    }
    slab->buffers.resize(Slab::count);
    for (size_t i = 0; i < Slab::count; ++i) {
        slab->buffers[i].bytes = slab->bytes.get() + i * PacketBuffer::size;
        slab->buffers[i].descriptor = fi_mr_desc(slab->registration.get());
        idle_.push_back(&slab->buffers[i]);
    }
    slabs_.push_back(std::move(slab));
    return true;
}

void PacketBuffers::orphan(const MessageLane& lane) noexcept {
    for (const auto& slab : slabs_) {
        for (PacketBuffer& buffer : slab->buffers) {
            if (buffer.lane != &lane) continue;
            buffer.lane = nullptr;
            orphans_.push_back(&buffer);
        }
    }
}

void PacketBuffers::forget_moves(const MessageLane& lane) noexcept {
    for (const auto& slab : slabs_) {
        for (PacketBuffer& buffer : slab->buffers) {
            if (buffer.lane == &lane) buffer.move = nullptr;
        }
    }
}

void PacketBuffers::reclaim() noexcept {
    for (PacketBuffer* buffer : orphans_) give(*buffer);
    orphans_.clear();
}

}  // namespace ros2s::fabric::ofi
