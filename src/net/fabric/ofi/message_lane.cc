#include "message_lane.h"

#include <cstring>

#include "message_worker.h"
#include "ros2s/base/check.h"

namespace ros2s::fabric::ofi {

using lanes::FrameHeader;

MessageLane::MessageLane(MessageWorker& worker, const lanes::Ends& ends, lanes::LaneUser& user)
    : worker_(worker),
      user_(&user),
      channel_(ends.channel),
      peer_channel_(ends.peer.channel),
      connects_(ends.connects),
      transfers_(worker, *this) {
    worker_.add(*this);
}

MessageLane::~MessageLane() {
    ROS2S_CHECK(endpoint_ == nullptr && waiting_.empty() && sent_.empty());
    worker_.remove(*this);
}

Result<> MessageLane::connect(ConstBytes address) {
    if (!worker_.context().is_of_our_kind(address)) return ros2s::fail(Code::unsupported);
    // No route there now, perhaps because a port is down. It may be back at the next attempt.
    auto endpoint = worker_.context().make_endpoint(address);
    if (endpoint == nullptr) return ros2s::fail(Code::disconnected);
    if (!prepare(std::move(endpoint))) return ros2s::fail(Code::no_memory);
    const ConnectionRequest request{.channel = peer_channel_};
    if (fi_connect(endpoint_.get(), address.data(), &request, sizeof request) == 0) return {};
    return ros2s::fail(Code::disconnected);
}

void MessageLane::accept(fi_info& request) noexcept {
    auto endpoint = worker_.context().make_endpoint(request);
    if (endpoint == nullptr || !prepare(std::move(endpoint)) ||
        fi_accept(endpoint_.get(), nullptr, 0) != 0) {
        fail(End::failed);
    }
}

// Prepares memory, so that the peer's first message finds some.
bool MessageLane::prepare(Handle<fid_ep> endpoint) noexcept {
    endpoint_ = std::move(endpoint);
    for (size_t i = 0; i < MessageContext::receives_max; ++i) {
        PacketBuffer* const buffer = worker_.buffers().take();
        if (buffer == nullptr || !receive_into(*buffer)) return false;
    }
    return true;
}

bool MessageLane::receive_into(PacketBuffer& buffer) noexcept {
    buffer.lane = this;
    buffer.use = PacketBuffer::Use::receive;
    return fi_recv(endpoint_.get(), buffer.bytes, PacketBuffer::size, buffer.descriptor, 0,
                   &buffer) == 0;
}

void MessageLane::connected() noexcept {
    connected_ = true;
    hand_over();
}

void MessageLane::disconnect() noexcept {
    if (endpoint_ != nullptr) (void)fi_shutdown(endpoint_.get(), 0);
}

void MessageLane::send(Frame* frame) noexcept {
    if (frame != nullptr) ++frames_;
    if (failed_) return complete(frame);
    waiting_.push_back(frame);
    hand_over();
}

void MessageLane::hand_over() noexcept {
    const auto has_room = [&] {
        return connected_ && !failed_ && sends_ + transfers_.pieces() < MessageContext::sends_max;
    };
    while (has_room() && (!waiting_.empty() || transfers_.due())) {
        if (!waiting_.empty()) {
            if (!post(waiting_.front())) return fail(End::failed);
            complete(waiting_.front());
            waiting_.pop_front();
        }
        if (has_room() && transfers_.due()) {
            if (!transfers_.post_next(endpoint_.get())) return fail(End::failed);
        }
    }
}

bool MessageLane::post(const Frame* frame) noexcept {
    PacketBuffer* const buffer = worker_.buffers().take();
    if (buffer == nullptr) return false;
    buffer->lane = this;
    buffer->use = PacketBuffer::Use::send;
    const FrameHeader header{.channel = peer_channel_, .sequence = sequence_++};
    std::memcpy(buffer->bytes, &header, sizeof header);
    const size_t used = frame != nullptr ? frame->used : 0;
    if (used > 0) std::memcpy(buffer->bytes + sizeof header, frame->bytes, used);
    if (fi_send(endpoint_.get(), buffer->bytes, sizeof header + used, buffer->descriptor, 0,
                buffer) != 0) {
        worker_.buffers().give(*buffer);
        return false;
    }
    ++sends_;
    return true;
}

void MessageLane::completed(PacketBuffer& buffer, size_t length, Outcome outcome) noexcept {
    const bool well = outcome == Outcome::well;
    if (buffer.use == PacketBuffer::Use::receive && well && !failed_)
        return received(buffer, length);
    if (buffer.use == PacketBuffer::Use::send) --sends_;
    if (buffer.use == PacketBuffer::Use::write || buffer.use == PacketBuffer::Use::read) {
        transfers_.completed(buffer, well);
    }
    worker_.buffers().give(buffer);
    if (well) return hand_over();
    // The peer's adapter refused an access that the peer itself had granted.
    fail(outcome == Outcome::refused ? End::violation : End::peer_died);
}

void MessageLane::received(PacketBuffer& buffer, size_t length) noexcept {
    FrameHeader header;
    const ConstBytes bytes(buffer.bytes, length);
    if (length >= sizeof header) std::memcpy(&header, bytes.data(), sizeof header);
    if (length < sizeof header || header.channel != channel_) {
        worker_.buffers().give(buffer);
        return fail(End::violation);
    }
    worker_.take(bytes.first(sizeof header), bytes.subspan(sizeof header), true);
    if (endpoint_ != nullptr && !receive_into(buffer)) fail(End::failed);
}

void MessageLane::complete(Frame* frame) noexcept {
    if (frame != nullptr) sent_.push_back(frame);
    if (user_ != nullptr) user_->lane_sent();
}

void MessageLane::fail(End how) noexcept {
    if (std::exchange(failed_, true)) return;
    while (!waiting_.empty()) {
        complete(waiting_.front());
        waiting_.pop_front();
    }
    if (user_ != nullptr) user_->lane_failed(how);
}

Frame* MessageLane::take_sent() noexcept {
    if (sent_.empty()) return nullptr;
    Frame* const frame = sent_.back();
    sent_.pop_back();
    --frames_;
    return frame;
}

bool MessageLane::wind_up(bool force) noexcept {
    if (ended_) return true;
    const bool all_sent = waiting_.empty() && sends_ + transfers_.pieces() == 0;
    if (!all_sent && !failed_ && !force) return false;
    fail(End::closed_here);
    ended_ = true;
    endpoint_.reset();
    worker_.buffers().orphan(*this);
    return true;
}

}  // namespace ros2s::fabric::ofi
