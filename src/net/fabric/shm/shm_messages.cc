// Messages over the rings: whole if there is room, in pieces if they are large.
#include <algorithm>

#include "shm_endpoint.h"

namespace ros2s::fabric::shm {
// Room that is reserved for replies is not available.
uint64_t ShmEndpoint::room_for_sends() const noexcept {
    return out_.room() - std::min(out_.room(), reserved_for_replies());
}

void ShmEndpoint::write(ConstBytes head, ConstBytes body) noexcept {
    const uint64_t size = head.size() + body.size();
    out_.write(
        {.type = Packet::Type::message, .length = static_cast<uint32_t>(size), .operation = size},
        head, body);
    wrote_entry();
}

bool ShmEndpoint::write_at_once(ConstBytes head, ConstBytes body) noexcept {
    if (entry_bytes(head.size() + body.size()) > room_for_sends()) return false;
    write(head, body);
    return true;
}

// The room was reserved when the request was received, and sends do not use it.
Result<> ShmEndpoint::do_reply(ConstBytes head, ConstBytes body) {
    write(head, body);
    return {};
}

void ShmEndpoint::queue_changed(bool grew) noexcept {
    if (grew) drained_.reset();
    if (first() == nullptr) drained_.set();
}

bool ShmEndpoint::push_queue() noexcept {
    bool any = false;
    while (first() != nullptr) {
        Outgoing& outgoing = *first();
        const bool small = entry_bytes(outgoing.size()) <= out_.size() / 4;
        if (small ? !write_at_once(outgoing.head, outgoing.body) : !write_piece(outgoing)) break;
        any = true;
        if (!small && outgoing.sent < outgoing.size()) continue;
        finish(outgoing);
    }
    return any;
}

// The next piece of a large message.
bool ShmEndpoint::write_piece(Outgoing& outgoing) noexcept {
    const uint64_t room = room_for_sends();
    const uint64_t left = outgoing.size() - outgoing.sent;
    if (room < entry_bytes(std::min<uint64_t>(left, piece_bytes_least))) return false;
    const uint64_t count =
        std::min({left, room - sizeof(Packet) - entry_alignment, out_.size() / 4});
    const auto [head, body] = outgoing.piece(count);
    out_.write({.type = Packet::Type::message,
                .length = static_cast<uint32_t>(count),
                .operation = outgoing.size(),
                .offset = outgoing.sent},
               head, body);
    outgoing.sent += count;
    wrote_entry();
    return true;
}

bool ShmEndpoint::take(uint64_t most, bool last) noexcept {
    uint64_t taken = 0;
    while (taken < most && in_.available() > 0 && take_one(last) == Took::yes) ++taken;
    if (taken == 0) return !alive();
    in_.publish();
    wake_for_ |= wants_room;
    return true;
}

// The peer's bytes: the header is a private copy, and nothing is read twice. (A message that the
// reader leaves is copied, and only the copy is used.)
ShmEndpoint::Took ShmEndpoint::take_one(bool last) noexcept {
    const Packet header = in_.header();
    const uint64_t size = header.operation;
    if (header.type != Packet::Type::message || !fabric::makes_sense(header) ||
        entry_bytes(header.length) > in_.available()) {
        end(End::violation);
        return Took::ended;
    }
    const bool whole = header.length == size;
    const bool begins = header.offset == 0;
    if (begins) {
        if (size > limits_.message_bytes_max) {
            end(End::over_budget);
            return Took::ended;
        }
        // It stays in the ring, and so do later ones, until messages are released.
        if (!last && !has_budget(size)) return Took::later;
    }
    // A reply may come between the pieces of a large message; another large message may not.
    if (whole ? false : begins == in_pieces()) {
        end(End::violation);
        return Took::ended;
    }
    if (whole && offer(in_.view(header))) {
        in_.skip(header);
        return alive() ? Took::yes : Took::ended;
    }
    if (whole) {
        std::byte* const memory = begin_whole(size);
        in_.take(header, memory);
        deliver(memory, size);
        return Took::yes;
    }
    if (begins) begin_pieces(size);
    std::byte* const to = place_of_piece(size, header.offset);
    if (to == nullptr) {
        end(End::violation);
        return Took::ended;
    }
    in_.take(header, to);
    took_piece(header.length);
    return Took::yes;
}

}  // namespace ros2s::fabric::shm
