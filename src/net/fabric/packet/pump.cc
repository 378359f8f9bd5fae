// The sending part of PacketEndpoint: which packets go into which frame, and when a frame is
// written.
#include <algorithm>

#include "ros2s/fabric/packet/packet_endpoint.h"

namespace ros2s::fabric {

void PacketEndpoint::want_flush() noexcept {
    if (dirty_ || !alive()) return;
    dirty_ = true;
    flusher_.add(*this);
}

bool PacketEndpoint::flush() noexcept {
    dirty_ = false;
    if (!alive()) return false;
    pump();
    if (open_ != nullptr && alive()) write_open();
    return true;
}

bool PacketEndpoint::open_frame() noexcept {
    if (open_ != nullptr) return true;
    if (frames_out_ == frames_max) return false;
    open_ = &flusher_.take_frame();
    open_->used = 0;
    return true;
}

void PacketEndpoint::write_open() noexcept {
    Frame& frame = *std::exchange(open_, nullptr);
    if (frame.used == 0) return flusher_.give_frame(frame);
    ++frames_out_;
    data_first_ = !data_first_;
    drained_.reset();
    wire_->write(frame);
}

size_t PacketEndpoint::frame_room() const noexcept {
    const size_t room = frame_bytes_max_ - open_->used;
    return room < sizeof(Packet) ? 0 : room - sizeof(Packet);
}

void PacketEndpoint::append(const Packet& header, ConstBytes first, ConstBytes second) noexcept {
    std::byte* at = open_->bytes + open_->used;
    std::memcpy(at, &header, sizeof header);
    at += sizeof header;
    if (!first.empty()) std::memcpy(at, first.data(), first.size());
    if (!second.empty()) std::memcpy(at + first.size(), second.data(), second.size());
    open_->used += static_cast<uint32_t>(sizeof header + header.length);
}

bool PacketEndpoint::add_control() noexcept {
    // Credit is collected, so that it does not double the number of packets.
    if (credit_due_ >= limits_.incoming_bytes_max / 4) {
        append({.type = Packet::Type::credit, .count = credit_due_}, {}, {});
        held_ -= std::exchange(credit_due_, 0);
        return true;
    }
    if (!dones_.empty()) {
        const Done done = dones_.front();
        dones_.pop_front();
        append({.type = Packet::Type::done, .result = done.result, .operation = done.operation}, {},
               {});
        return true;
    }
    return false;
}

bool PacketEndpoint::add_message() noexcept {
    if (first() == nullptr) return false;
    Outgoing& outgoing = *first();
    const uint64_t size = outgoing.size();
    if (outgoing.sent == 0) {
        // The whole message's credit at its start: a message that has begun never waits for credit.
        if (credit_ < size + message_overhead) return false;
        if (frame_room() < std::min<uint64_t>(size, piece_bytes_least)) return false;
        credit_ -= size + message_overhead;
    }
    const uint64_t from = outgoing.sent;
    const uint64_t count = std::min<uint64_t>(frame_room(), size - from);
    if (count == 0 && size > 0) return false;
    const auto [head, body] = outgoing.piece(count);
    append({.type = Packet::Type::message,
            .length = static_cast<uint32_t>(count),
            .operation = size,
            .offset = from},
           head, body);
    outgoing.sent += count;
    if (outgoing.sent == size) {
        if (!outgoing.waiter) replies_bytes_ -= size;
        finish(outgoing);
    }
    return true;
}

// The next put's next piece, or the next get's request.
bool PacketEndpoint::add_put() noexcept {
    if (puts_.empty()) return false;
    Operation& operation = *puts_.front();
    const size_t room = frame_room();
    if (room < sizeof(RemoteKey)) return false;
    if (!operation.is_put) {
        append({.type = Packet::Type::get,
                .length = sizeof(RemoteKey),
                .operation = operation.id,
                .offset = operation.offset,
                .count = operation.into.size()},
               object_bytes(operation.key), {});
        puts_.pop_front();
        return true;
    }
    const uint64_t left = operation.from.size() - operation.moved;
    const uint64_t count = std::min<uint64_t>(room - sizeof(RemoteKey), left);
    if (count < std::min<uint64_t>(left, piece_bytes_least)) return false;
    const bool last = count == left;
    append({.type = Packet::Type::put,
            .flags = static_cast<uint8_t>((last ? Packet::flag_last : 0) |
                                          (operation.wants_answer ? Packet::flag_answer : 0)),
            .length = static_cast<uint32_t>(sizeof(RemoteKey) + count),
            .operation = operation.id,
            .offset = operation.offset + operation.moved,
            .count = left},
           object_bytes(operation.key), operation.from.subspan(operation.moved, count));
    operation.moved += count;
    puts_.pop_front();
    if (!last) {
        puts_.push_back(&operation);
    } else {
        operation.all_sent = true;
        // Refused already, or no answer is expected: this was all.
        if (!operation.wants_answer) complete(operation);
    }
    return true;
}

// The next piece of a get that the peer requested.
bool PacketEndpoint::add_served() noexcept {
    if (served_.empty()) return false;
    Served served = served_.front();
    const uint64_t left = served.count - served.sent;
    const uint64_t count = std::min<uint64_t>(frame_room(), left);
    if (count < std::min<uint64_t>(left, piece_bytes_least)) return false;
    // `done` follows the last piece, so a get of zero bytes has a piece, too.
    const auto from =
        grants_.check(served.key, served.offset + served.sent, count, Rights::read, reactor_.now());
    served_.pop_front();
    if (!from) {
        answer(served.operation, std::unexpected(from.error()));
        return true;
    }
    append({.type = Packet::Type::got,
            .length = static_cast<uint32_t>(count),
            .operation = served.operation,
            .offset = served.sent},
           {*from, count}, {});
    served.sent += count;
    if (served.sent == served.count) {
        answer(served.operation, {});
    } else {
        served_.push_back(served);
    }
    return true;
}

void PacketEndpoint::pump() noexcept {
    if (pumping_) return;
    pumping_ = true;
    // An answer may exceed a bound, which ends the connection.
    while (alive() && open_frame()) {
        if (frame_room() == 0) {
            write_open();
            continue;
        }
        if (add_notice()) continue;
        bool any = false;
        if (frame_room() > 0) any |= add_control();
        if (!data_first_ && frame_room() > 0) any |= add_message();
        if (frame_room() > 0) any |= add_put();
        if (frame_room() > 0) any |= add_served();
        if (data_first_ && frame_room() > 0) any |= add_message();
        if (any) continue;
        if (queues_empty() && goodbye_due_ && frame_room() > 0) {
            append({.type = Packet::Type::goodbye}, {}, {});
            goodbye_due_ = false;
            goodbye_said_ = true;
            write_open();
            break;
        }
        // The rest does not fit, or waits for credit.
        if (open_->used < frame_bytes_max_ / 2) break;
        write_open();
    }
    pumping_ = false;
    room_came();
}

bool PacketEndpoint::queues_empty() const noexcept {
    return first() == nullptr && puts_.empty() && served_.empty() && dones_.empty() &&
           notices_.empty();
}

// The fast path: directly into the open frame, if no message waits before this one.
bool PacketEndpoint::write_at_once(ConstBytes head, ConstBytes body) noexcept {
    const size_t size = head.size() + body.size();
    if (!notices_.empty() || credit_ < size + message_overhead || !open_frame()) {
        return false;
    }
    // Zero also means that no header fits.
    if (frame_room() < std::max<size_t>(size, 1)) {
        if (size > frame_bytes_max_ - sizeof(Packet)) return false;
        write_open();
        if (!open_frame()) return false;
    }
    credit_ -= size + message_overhead;
    append(
        {.type = Packet::Type::message, .length = static_cast<uint32_t>(size), .operation = size},
        head, body);
    drained_.reset();
    want_flush();
    return true;
}

void PacketEndpoint::queue_changed(bool grew) noexcept {
    if (!grew) return;
    drained_.reset();
    want_flush();
}

void PacketEndpoint::frame_sent(Frame& frame) noexcept {
    flusher_.give_frame(frame);
    --frames_out_;
    if (!alive()) return;
    if (!queues_empty() || goodbye_due_) {
        want_flush();
    } else if (frames_out_ == 0 && (open_ == nullptr || open_->used == 0)) {
        drained_.set();
    }
}

}  // namespace ros2s::fabric
