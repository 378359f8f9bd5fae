// Slots: registered memory for messages and pieces of transfers that are with the adapter. It is
// registered for ourselves alone: no key of it lets a peer in.
#pragma once
#include <rdma/fi_domain.h>

#include <memory>
#include <vector>

#include "offer.h"
#include "ros2s/base/bytes.h"
#include "ros2s/fabric/lanes/greeting.h"
#include "ros2s/fabric/packet/packet.h"

namespace ros2s::fabric::ofi {

class MessageLane;

struct Move;

struct Slot {
    enum class Use : uint8_t { receive, send, write, read };
    static constexpr size_t size = sizeof(lanes::FrameHeader) + frame_bytes;

    std::byte* bytes = nullptr;   // `size` of them
    void* descriptor = nullptr;   // of their registration
    MessageLane* lane = nullptr;  // for which libfabric has it
    Use use = Use::receive;
    // write, read: what it is a piece of, where anybody waits for it.
    Move* move = nullptr;
    std::byte* into = nullptr;  // read
    size_t count = 0;
};

class Slots {
  public:
    explicit Slots(fid_domain* domain) : domain_(domain) {}
    // One that no one has; none where memory cannot be had or locked.
    [[nodiscard]] Slot* take();
    void give(Slot& slot) noexcept;
    // Those that libfabric has for the lane are nobody's: they are kept until reclaim().
    void orphan(const MessageLane& lane) noexcept;
    [[nodiscard]] bool has_orphans() const noexcept { return !orphans_.empty(); }
    // Nobody waits for pieces of the lane's transfers any more.
    void forget_moves(const MessageLane& lane) noexcept;
    // libfabric has none of the orphans any more.
    void reclaim() noexcept;

  private:
    struct Slab {
        static constexpr size_t count = 16;
        std::unique_ptr<std::byte[]> bytes;
        Handle<fid_mr> registration;
        std::vector<Slot> slots;
    };
    bool grow();

    fid_domain* domain_;
    std::vector<std::unique_ptr<Slab>> slabs_;
    std::vector<Slot*> idle_;
    std::vector<Slot*> orphans_;
};

}  // namespace ros2s::fabric::ofi
