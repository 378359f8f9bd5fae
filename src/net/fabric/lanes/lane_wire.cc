#include "lane_wire.h"

#include <poll.h>
#include <sys/socket.h>

#include "ros2s/runtime/sync.h"

namespace ros2s::fabric::lanes {

LaneWire::LaneWire(Worker& worker)
    : worker_(worker),
      channel_(worker.add(*this)),
      changed_(worker.reactor()),
      watching_(worker.reactor(), 1) {}

LaneWire::~LaneWire() {
    ROS2S_CHECK(shut_ && lane_ == nullptr);
    worker_.forget(*this);
}

Result<> LaneWire::open(PeerAddress peer, bool connects) {
    const Ends ends{.peer = std::move(peer), .channel = channel_, .connects = connects};
    ROS2S_TRY_ASSIGN(lane_, worker_.open_lane(ends, *this));
    return {};
}

void LaneWire::greet() noexcept {
    worker_.mark_busy();
    lane_->send(nullptr);
}

Task<Result<>> LaneWire::met(StopToken stop) {
    const WakeOnStop wake(stop, changed_);
    while (!met_ && failure_ == End::none && !stop.stop_requested()) co_await changed_;
    if (failure_ != End::none) co_return fail(Code::disconnected);
    if (!met_) co_return fail(Code::cancelled);
    co_return Result<>{};
}

void LaneWire::start(WireUser& user) noexcept {
    user_ = &user;
    const bool started = watching_.try_spawn(watch(*this));
    ROS2S_CHECK(started);
    worker_.queue_event(*this);
}

Task<> LaneWire::watch(LaneWire& self) {
    const auto polled = co_await self.worker_.reactor().ring()->poll(
        self.socket_.get(), POLLIN | POLLRDHUP, self.stop_.token());
    if (!polled || self.shut_) co_return;
    std::byte word{};
    if (recv(self.socket_.get(), &word, 1, MSG_DONTWAIT) > 0) {
        self.fail_later(End::violation);  // no data is expected there
        co_return;
    }
    co_await self.worker_.quiet(late_frames_within);
    self.fail_later(End::peer_died);
}

void LaneWire::write(Frame& frame) noexcept {
    worker_.mark_busy();
    lane_->send(&frame);
}

void LaneWire::lane_sent() noexcept { worker_.queue_event(*this); }

void LaneWire::fail_later(End how) noexcept {
    if (shut_) return;
    if (failure_ == End::none) failure_ = how;
    worker_.queue_event(*this);
    changed_.wake_all();
}

void LaneWire::came(const FrameHeader& header, ConstBytes frame, bool whole) noexcept {
    const bool first = sequence_in_ == 0;
    if (!whole || header.magic != FrameHeader::magic_value ||
        header.version != FrameHeader::current_version || header.reserved != 0 ||
        header.sequence != sequence_in_ || frame.size() > frame_bytes || frame.empty() != first) {
        fail_later(End::violation);
        return;
    }
    // Ignores everything after a violation.
    if (failure_ == End::violation) return;
    ++sequence_in_;
    if (first) {
        met_ = true;
        changed_.wake_all();
    } else if (user_ != nullptr && early_.empty()) {
        user_->frame_came(frame);
    } else if (early_.size() < early_max) {
        early_.emplace_back(frame.begin(), frame.end());
    } else {
        fail_later(End::over_budget);
    }
}

void LaneWire::deliver_events() noexcept {
    if (user_ == nullptr) return;
    give_back();
    if (shut_) return;
    for (size_t i = 0; i < early_.size() && !shut_; ++i) user_->frame_came(early_[i]);
    early_.clear();
    if (failure_ != End::none && !shut_ && !std::exchange(told_, true)) user_->broke(failure_);
}

void LaneWire::give_back() noexcept {
    if (lane_ == nullptr) return;
    while (Frame* frame = lane_->take_sent()) user_->frame_sent(*frame);
}

Task<> LaneWire::farewell() {
    while (!shut_) co_await changed_;  // broke() ends this
}

void LaneWire::shut() noexcept {
    if (shut_) return;
    shut_ = true;
    worker_.remove(channel_);
    // The peer learns of it now; the lane winds up after close().
    if (socket_.open()) ::shutdown(socket_.get(), SHUT_RDWR);
    stop_.request_stop();
    changed_.wake_all();
}

Task<> LaneWire::close() {
    shut();
    co_await watching_.join();
    socket_.reset();
    if (lane_ == nullptr) co_return;
    if (user_ != nullptr) {
        give_back();
        // Frames that the library still reads go with the lane; others replace them.
        for (size_t i = lane_->frames_under_way(); i > 0; --i) {
            user_->frame_sent(worker_.flusher().take_frame());
        }
    }
    lane_->leave();
    worker_.wind_up(std::move(lane_));
}

}  // namespace ros2s::fabric::lanes
