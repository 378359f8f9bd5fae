#include "ros2s/fabric/counters.h"

#include <string>

namespace ros2s::fabric {

std::string_view describe(Refusal refusal) noexcept {
    switch (refusal) {
        case Refusal::malformed: return "malformed";
        case Refusal::domain: return "domain";
        case Refusal::session: return "session";
        case Refusal::stale: return "stale";
        case Refusal::expired: return "expired";
        case Refusal::right: return "right";
        case Refusal::range: return "range";
        case Refusal::initiator: return "initiator";
        case Refusal::count: break;
    }
    return "unknown";
}

Error to_error(Refusal refusal) noexcept {
    const auto detail = static_cast<uint64_t>(refusal);
    switch (refusal) {
        case Refusal::malformed:
        case Refusal::range: return {Code::invalid, 0, detail};
        case Refusal::stale:
        case Refusal::expired: return {Code::stale, 0, detail};
        default: return {Code::denied, 0, detail};
    }
}

std::string_view describe(End end) noexcept {
    switch (end) {
        case End::none: return "open";
        case End::closed_here: return "closed_here";
        case End::closed_there: return "closed_there";
        case End::peer_died: return "peer_died";
        case End::violation: return "violation";
        case End::over_budget: return "over_budget";
        case End::unanswered: return "unanswered";
        case End::failed: return "failed";
        case End::count: break;
    }
    return "unknown";
}

void Counters::list(const MetricVisitor& visit) const {
    visit("ros2store_fabric_messages_sent_total", "Messages sent.", messages_sent.value());
    visit("ros2store_fabric_message_bytes_sent_total", "Bytes of messages sent.",
          message_bytes_sent.value());
    visit("ros2store_fabric_messages_received_total", "Messages received.",
          messages_received.value());
    visit("ros2store_fabric_message_bytes_received_total", "Bytes of messages received.",
          message_bytes_received.value());
    visit("ros2store_fabric_puts_total", "Puts completed.", puts.value());
    visit("ros2store_fabric_put_bytes_total", "Bytes put.", put_bytes.value());
    visit("ros2store_fabric_gets_total", "Gets completed.", gets.value());
    visit("ros2store_fabric_get_bytes_total", "Bytes got.", get_bytes.value());
    visit("ros2store_fabric_one_sided_total", "Puts and gets that the adapter did by itself.",
          one_sided.value());
    visit("ros2store_fabric_one_sided_bytes_total",
          "Bytes put and got that the adapter moved by itself.", one_sided_bytes.value());
    visit("ros2store_fabric_maps_total", "Uses of the peer's memory in place.", maps.value());
    visit("ros2store_fabric_mapped_bytes_total", "Bytes used in place.", mapped_bytes.value());
    visit("ros2store_fabric_waits_for_room_total", "Sends that waited for the peer to read.",
          waits_for_room.value());
    visit("ros2store_fabric_grants_total", "Regions granted to peers.", grants.value());
    visit("ros2store_fabric_revocations_total", "Regions revoked.", revocations.value());
    visit("ros2store_fabric_connections_total", "Connections made.", connections.value());
    visit("ros2store_fabric_handshakes_refused_total", "Connections refused before they were made.",
          handshakes_refused.value());
    visit("ros2store_fabric_frames_refused_total", "Frames that belonged to no connection.",
          frames_refused.value());
    for (size_t i = 0; i < refusals.size(); ++i) {
        visit(
            "ros2store_fabric_refused_" + std::string(describe(static_cast<Refusal>(i))) + "_total",
            "Puts and gets refused for this reason.", refusals[i].value());
    }
    for (size_t i = 1; i < ends.size(); ++i) {
        visit("ros2store_fabric_ended_" + std::string(describe(static_cast<End>(i))) + "_total",
              "Connections that ended in this way.", ends[i].value());
    }
}

}  // namespace ros2s::fabric
