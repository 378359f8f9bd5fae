// Link: a connection of the simulated network: two directions, each a queue of frames in transit.
// SimWire: one side of it.
#pragma once
#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <vector>

#include "ros2s/fabric/packet/wire.h"
#include "ros2s/fabric/sim/network.h"
#include "ros2s/runtime/nursery.h"

namespace ros2s::fabric::sim {

class Link {
  public:
    struct Flight {
        Time arrival;
        std::vector<std::byte> bytes;
    };
    // Frames from side i to side 1 - i.
    struct Direction {
        std::deque<Flight> flights;
        uint64_t bytes = 0;
        Time last_arrival{};
        bool closed = false;  // the sender sends no more
    };

    Link(Network& network, std::string process_a, std::string process_b)
        : network_(network), processes_{std::move(process_a), std::move(process_b)} {}
    // Loses the frames in transit. Both sides are notified later.
    void lose();
    void wake() noexcept;

    Network& network_;
    const std::array<std::string, 2> processes_;
    std::array<Direction, 2> directions_;
    std::array<Event*, 2> changed_{};  // of each side's wire, once it exists
    bool lost_ = false;
};

class SimWire final : public Wire {
  public:
    SimWire(Reactor& core, std::shared_ptr<Link> link, size_t side);
    ~SimWire() override;
    void start(WireUser& user) noexcept override;
    [[nodiscard]] size_t frame_bytes_max() const noexcept override {
        return std::min(frame_bytes, link_->network_.model_.frame_bytes_max);
    }
    void write(Frame& frame) noexcept override;
    void shut() noexcept override;
    Task<> close() override;

  private:
    static Task<> transmit(SimWire& self);
    static Task<> deliver(SimWire& self);
    Task<bool> transmit_one();
    [[nodiscard]] bool stalled() const;
    [[nodiscard]] bool over() const noexcept { return shut_ || link_->lost_; }
    void give_back() noexcept;

    Reactor& core_;
    std::shared_ptr<Link> link_;
    const size_t side_;
    WireUser* user_ = nullptr;
    bool shut_ = false;
    Frame* first_ = nullptr;
    Frame* last_ = nullptr;
    Event changed_;
    StopSource stop_;
    Nursery nursery_;
};

}  // namespace ros2s::fabric::sim
