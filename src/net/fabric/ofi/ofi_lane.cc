#include "ofi_lane.h"

#include "ofi_worker.h"

namespace ros2s::fabric::ofi {

OfiLane::OfiLane(OfiWorker& worker, Peer& peer, uint64_t channel, lanes::LaneUser& user)
    : worker_(worker), peer_(&peer), user_(&user), channel_(channel) {
    worker_.add(*this);
}

OfiLane::~OfiLane() {
    ROS2S_CHECK(peer_ == nullptr && waiting_ == nullptr && sent_ == nullptr);
    worker_.remove(*this);
}

void OfiLane::send(Frame* frame) noexcept {
    ROS2S_CHECK(peer_ != nullptr);
    Sending& sending = worker_.take_sending();
    sending.header = {.channel = channel_, .sequence = sequence_++};
    sending.frame = frame;
    sending.lane = this;
    sending.next = nullptr;
    if (frame != nullptr) ++frames_;
    if (failed_) return complete(sending);
    (waiting_ != nullptr ? waiting_last_->next : waiting_) = &sending;
    waiting_last_ = &sending;
    if (waiting_ == &sending && !hand_over()) worker_.wait(*this);
}

bool OfiLane::hand_over() noexcept {
    while (waiting_ != nullptr) {
        Sending& sending = *waiting_;
        Sending* const next = sending.next;
        const auto handed = worker_.post(sending, *peer_);
        if (handed == OfiWorker::Posted::later) return false;
        waiting_ = next;
        if (handed == OfiWorker::Posted::under_way) {
            ++handed_over_;
        } else {
            complete(sending);
            fail(End::peer_died);
        }
    }
    return true;
}

void OfiLane::came_back(Sending& sending, bool sent) noexcept {
    --handed_over_;
    complete(sending);
    if (!sent) fail(End::peer_died);
}

void OfiLane::complete(Sending& sending) noexcept {
    sending.next = std::exchange(sent_, &sending);
    if (user_ != nullptr) user_->lane_sent();
}

void OfiLane::fail(End how) noexcept {
    if (std::exchange(failed_, true)) return;
    if (user_ != nullptr) user_->lane_failed(how);
}

Frame* OfiLane::take_sent() noexcept {
    while (sent_ != nullptr) {
        Sending& sending = *sent_;
        sent_ = sending.next;
        Frame* const frame = std::exchange(sending.frame, nullptr);
        worker_.give_sending(sending);
        if (frame == nullptr) continue;
        --frames_;
        return frame;
    }
    return nullptr;
}

size_t OfiLane::frame_bytes_max() const noexcept {
    return worker_.message_bytes_max() - sizeof(lanes::FrameHeader);
}

bool OfiLane::wind_up(bool force) noexcept {
    if (peer_ == nullptr) return true;
    const bool all_sent = waiting_ == nullptr && handed_over_ == 0;
    if (!all_sent && !failed_ && !force) return false;
    while (waiting_ != nullptr) {
        Sending& sending = *waiting_;
        waiting_ = sending.next;
        complete(sending);
    }
    if (handed_over_ > 0) worker_.take_over_sends(*this);
    // When the peer is released, libfabric returns the messages that the peer did not receive.
    worker_.peers().release(*std::exchange(peer_, nullptr), !all_sent);
    return true;
}

}  // namespace ros2s::fabric::ofi
