// MessageWorker: the message endpoints of one domain. It accepts connections for the lanes that
// wait for them, and reads the queues of completions and of events.
#pragma once
#include "message_context.h"
#include "message_lane.h"
#include "packet_buffers.h"
#include "ros2s/fabric/lanes/worker.h"

namespace ros2s::fabric::ofi {

// The first data of a connection (docs/formats/fabric.md).
struct ConnectionRequest {
    static constexpr uint64_t magic_value = 0x51434d3252;  // "R2MCQ"
    uint64_t magic = magic_value;
    uint64_t channel = 0;  // of the listening side
};
static_assert(std::has_unique_object_representations_v<ConnectionRequest>);

class MessageWorker final : public lanes::Worker {
  public:
    MessageWorker(Reactor& reactor, Counters& counters, MessageContext context);
    ~MessageWorker() override;
    [[nodiscard]] const std::vector<std::byte>& address() const noexcept override {
        return context_.address();
    }
    [[nodiscard]] Result<std::unique_ptr<lanes::Lane>> open_lane(const lanes::Ends& ends,
                                                                 lanes::LaneUser& user) override;
    [[nodiscard]] size_t lanes_max() const noexcept override {
        return MessageContext::endpoints_max / 4 * 3;
    }
    [[nodiscard]] bool may_cross() const noexcept override { return true; }

    // For the lanes.
    [[nodiscard]] MessageContext& context() noexcept { return context_; }
    [[nodiscard]] PacketBuffers& buffers() noexcept { return slots_; }
    void add(MessageLane& lane) { lanes_.push_back(&lane); }
    void remove(MessageLane& lane) noexcept { std::erase(lanes_, &lane); }
    using Worker::add;
    using Worker::remove;
    using Worker::take;

  private:
    static constexpr size_t read_at_once = 32;
    // Looks at the completions between two looks at the events. A look at the events is a system
    // call.
    static constexpr uint32_t looks_between_events = 64;

    bool progress() noexcept override;
    bool arm_events() noexcept override;
    [[nodiscard]] int event_descriptor() const noexcept override {
        return context_.event_descriptor();
    }
    void signal() noexcept override { context_.signal(); }
    Task<> end() override;

    bool read_completions() noexcept;
    bool read_error() noexcept;
    // No completion is left for now.
    void finish_ends() noexcept;
    bool read_events() noexcept;
    void asked(fi_info& request, ConstBytes data) noexcept;
    [[nodiscard]] MessageLane* lane_of(const fid* endpoint) noexcept;

    MessageContext context_;
    PacketBuffers slots_;
    std::vector<MessageLane*> lanes_;
    uint32_t looks_ = 0;
};

}  // namespace ros2s::fabric::ofi
