// PacketBuffers: registered memory for messages and pieces of transfers that the adapter has. It is
// registered for our use only: no key gives a peer access to it.
#pragma once
#include <rdma/fi_domain.h>

#include <memory>
#include <vector>

#include "ofi_library.h"
#include "ros2s/base/bytes.h"
#include "ros2s/fabric/lanes/greeting.h"
#include "ros2s/fabric/packet/packet.h"

namespace ros2s::fabric::ofi {

class MessageLane;

struct Move;

struct PacketBuffer {
    enum class Use : uint8_t { receive, send, write, read };
    static constexpr size_t size = sizeof(lanes::FrameHeader) + frame_bytes;

    std::byte* bytes = nullptr;   // `size` of them
    void* descriptor = nullptr;   // of their registration
    MessageLane* lane = nullptr;  // libfabric has it for this lane
    Use use = Use::receive;
    // write, read: the transfer that waits for this piece; null if none waits.
    Move* move = nullptr;
    std::byte* into = nullptr;  // read
    size_t count = 0;
};

class PacketBuffers {
  public:
    explicit PacketBuffers(fid_domain* domain) : domain_(domain) {}
    // A free buffer; null if memory cannot be allocated or locked.
    [[nodiscard]] PacketBuffer* take();
    void give(PacketBuffer& buffer) noexcept;
    // PacketBuffers that libfabric has for the lane get no owner. They are kept until reclaim().
    void orphan(const MessageLane& lane) noexcept;
    [[nodiscard]] bool has_orphans() const noexcept { return !orphans_.empty(); }
    // The lane's transfers do not wait for their pieces any more.
    void forget_moves(const MessageLane& lane) noexcept;
    // libfabric has none of the buffers without an owner any more.
    void reclaim() noexcept;

  private:
    struct Slab {
        static constexpr size_t count = 16;
        std::unique_ptr<std::byte[]> bytes;
        Handle<fid_mr> registration;
        std::vector<PacketBuffer> buffers;
    };
    bool grow();

    fid_domain* domain_;
    std::vector<std::unique_ptr<Slab>> slabs_;
    std::vector<PacketBuffer*> idle_;
    std::vector<PacketBuffer*> orphans_;
};

}  // namespace ros2s::fabric::ofi
