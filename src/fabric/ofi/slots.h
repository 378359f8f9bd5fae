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

struct Slot {
    static constexpr size_t size = sizeof(lanes::FrameHeader) + frame_bytes;

    std::byte* bytes = nullptr;   // `size` of them
    void* descriptor = nullptr;   // of their registration
    MessageLane* lane = nullptr;  // for which libfabric has it
    bool incoming = false;        // waits for a message
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
