// The part of PacketEndpoint that handles arriving packets. The peer's bytes are untrusted: a
// violation of the protocol or of a budget ends the connection.

#include "ros2s/fabric/packet/packet_endpoint.h"

namespace ros2s::fabric {

void PacketEndpoint::frame_came(ConstBytes frame) noexcept {
    while (!frame.empty() && alive()) {
        const auto packet = take_packet(frame);
        if (!packet) {
            end(End::violation);
            return;
        }
        switch (packet->header.type) {
            case Packet::Type::message: on_message(*packet); break;
            case Packet::Type::put: on_put(*packet); break;
            case Packet::Type::get: on_get(*packet); break;
            case Packet::Type::got: on_got(*packet); break;
            case Packet::Type::done: on_done(*packet); break;
            case Packet::Type::credit: on_credit(packet->header.count); break;
            case Packet::Type::granted: on_granted(*packet); break;
            case Packet::Type::revoke: on_revoke(*packet); break;
            case Packet::Type::revoked: on_revoked(*packet); break;
            case Packet::Type::goodbye: end(End::closed_there); break;
        }
    }
}

void PacketEndpoint::on_message(const PacketView& packet) noexcept {
    const uint64_t size = packet.header.operation;
    if (!in_pieces()) {
        if (packet.header.offset != 0) return end(End::violation);
        if (size > limits_.message_bytes_max || !has_budget(size)) return end(End::over_budget);
        if (packet.bytes.size() == size && offer(BorrowedMessage(packet.bytes))) {
            // As if it had been received and released.
            held_ += size + message_overhead;
            return on_released(size);
        }
        begin_pieces(size);
    }
    std::byte* const to = place_of_piece(size, packet.header.offset);
    if (to == nullptr) return end(End::violation);
    if (!packet.bytes.empty()) std::memcpy(to, packet.bytes.data(), packet.bytes.size());
    took_piece(packet.bytes.size());
}

void PacketEndpoint::on_released(size_t size) noexcept {
    credit_due_ += size + message_overhead;
    if (credit_due_ >= limits_.incoming_bytes_max / 4) want_flush();
}

void PacketEndpoint::answer(uint64_t operation, std::expected<void, Refusal> result) noexcept {
    if (!result) counters_.of(result.error()).add();
    // A peer that does not read the ends of its operations but begins new ones. (A refused put has
    // an end for each piece in progress, so there may be more ends than operations.)
    if (dones_.size() >= limits_.operations_max + 8 * frames_max) return end(End::over_budget);
    dones_.push_back(
        {operation, static_cast<uint16_t>(result ? 0 : static_cast<uint16_t>(result.error()) + 1)});
    want_flush();
}

void PacketEndpoint::on_put(const PacketView& packet) noexcept {
    if (initiates()) {
        counters_.of(Refusal::initiator).add();
        return end(End::violation);
    }
    // The whole rest of the put, so that a put which must fail writes nothing.
    const auto to = grants_.check(packet.key, packet.header.offset, packet.header.count,
                                  Rights::write, reactor_.now());
    if ((packet.header.flags & Packet::flag_answer) == 0) {
        if (to) {
            if (!packet.bytes.empty()) {
                std::memcpy(*to, packet.bytes.data(), packet.bytes.size());
            }
            return;
        }
        counters_.of(to.error()).add();
        // A later message would claim that the bytes are here. If we have revoked the key, that is
        // known. Any other refusal means that the peer breaks the protocol.
        if (to_error(to.error()).code != Code::stale) end(End::violation);
        return;
    }
    if (!to) return answer(packet.header.operation, std::unexpected(to.error()));
    if (!packet.bytes.empty()) std::memcpy(*to, packet.bytes.data(), packet.bytes.size());
    if ((packet.header.flags & Packet::flag_last) != 0) answer(packet.header.operation, {});
}

void PacketEndpoint::on_get(const PacketView& packet) noexcept {
    if (initiates()) {
        counters_.of(Refusal::initiator).add();
        return end(End::violation);
    }
    if (served_.size() >= limits_.operations_max) return end(End::over_budget);
    // The whole range first, so that a get which must fail moves nothing.
    const auto from = grants_.check(packet.key, packet.header.offset, packet.header.count,
                                    Rights::read, reactor_.now());
    if (!from) return answer(packet.header.operation, std::unexpected(from.error()));
    served_.push_back(
        {packet.key, packet.header.operation, packet.header.offset, packet.header.count, 0});
    drained_.reset();
    want_flush();
}

void PacketEndpoint::on_got(const PacketView& packet) noexcept {
    Operation* operation = find(packet.header.operation);
    if (operation == nullptr || operation->is_put || operation->answered ||
        packet.header.offset != operation->moved ||
        packet.bytes.size() > operation->into.size() - operation->moved) {
        return end(End::violation);
    }
    if (!packet.bytes.empty()) {
        std::memcpy(operation->into.data() + operation->moved, packet.bytes.data(),
                    packet.bytes.size());
    }
    operation->moved += packet.bytes.size();
}

void PacketEndpoint::on_done(const PacketView& packet) noexcept {
    if (packet.header.result > static_cast<uint16_t>(Refusal::count)) return end(End::violation);
    Operation* operation = find(packet.header.operation);
    // The ends of a refused put's later pieces come after the first has ended it.
    if (operation == nullptr || operation->answered) return;
    if (packet.header.result != 0) {
        operation->result =
            std::unexpected(to_error(static_cast<Refusal>(packet.header.result - 1)));
        return complete(*operation);
    }
    const bool whole =
        operation->is_put ? operation->all_sent : operation->moved == operation->into.size();
    if (!whole) return end(End::violation);
    complete(*operation);
}

void PacketEndpoint::on_credit(uint64_t count) noexcept {
    const uint64_t all = session_info_.peer.incoming_bytes_max;
    if (count > all - credit_) return end(End::violation);
    credit_ += count;
    if (first() != nullptr) want_flush();
}

}  // namespace ros2s::fabric
