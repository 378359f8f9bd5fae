// OfiWorker: the endpoint of one domain. It sends messages, posts memory for arriving ones, and
// reads the queue of completions.
#pragma once
#include <deque>

#include "context.h"
#include "ofi_lane.h"
#include "ofi_peers.h"
#include "ros2s/fabric/lanes/worker.h"

namespace ros2s::fabric::ofi {

class OfiWorker final : public lanes::Worker {
  public:
    OfiWorker(Reactor& reactor, Counters& counters, Context context);
    ~OfiWorker() override;
    [[nodiscard]] const std::vector<std::byte>& address() const noexcept override {
        return context_.address();
    }
    [[nodiscard]] Result<std::unique_ptr<lanes::Lane>> open_lane(const lanes::Ends& ends,
                                                                 lanes::LaneUser& user) override;

    [[nodiscard]] bool may_cross() const noexcept override { return false; }

    // For the lanes.
    enum class Posted : uint8_t { under_way, later, refused };
    [[nodiscard]] Posted post(Sending& sending, const Peer& peer) noexcept;
    [[nodiscard]] Sending& take_sending();
    void give_sending(Sending& sending) noexcept;
    void add(OfiLane& lane) { lanes_.push_back(&lane); }
    void remove(OfiLane& lane) noexcept;
    using Worker::add;
    using Worker::remove;
    // A message of the lane waits until libfabric accepts it.
    void wait(OfiLane& lane);
    // Takes over the messages in progress of a lane that ends.
    void take_over_sends(const OfiLane& lane) noexcept;
    [[nodiscard]] Peers& peers() noexcept { return peers_; }
    [[nodiscard]] size_t message_bytes_max() const noexcept { return context_.message_bytes_max(); }

  private:
    // One look at libfabric can bring this many messages, so libfabric has to keep none for us.
    static constexpr size_t receives_count = 64;
    static constexpr size_t read_at_once = 32;
    static constexpr Duration retry_every = std::chrono::milliseconds(1);

    struct Receive : Transfer {
        std::byte bytes[sizeof(lanes::FrameHeader) + frame_bytes];
    };

    bool progress() noexcept override;
    bool arm_events() noexcept override { return context_.may_sleep(); }
    [[nodiscard]] int event_descriptor() const noexcept override {
        return context_.event_descriptor();
    }
    void signal() noexcept override;
    Task<> end() override;

    static Task<> retry(OfiWorker& self);
    bool read_completions() noexcept;
    void completed(Transfer& transfer, size_t length, bool well) noexcept;
    bool read_error() noexcept;
    void receive_into(Receive& receive) noexcept;
    void retry_waiting() noexcept;

    Context context_;
    Peers peers_;
    std::vector<std::unique_ptr<Receive>> receives_;
    std::vector<Receive*> receives_due_;  // libfabric did not accept them yet
    std::deque<Sending> sendings_;
    Sending* idle_ = nullptr;
    std::vector<OfiLane*> lanes_;
    std::vector<OfiLane*> waiting_;
    StopSource stop_;
    Nursery retrying_;
};

}  // namespace ros2s::fabric::ofi
