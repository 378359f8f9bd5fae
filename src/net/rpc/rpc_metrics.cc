#include "ros2s/rpc/rpc_metrics.h"

namespace ros2s::rpc {

void ChannelMetrics::visit(const MetricVisitor& visit) const {
    visit("ros2store_channel_connections_total", "Connections that the server accepted",
          connections.value());
    visit("ros2store_channel_connections_failed_total", "Attempts to connect that failed",
          connections_failed.value());
    visit("ros2store_channel_connections_lost_total", "Connections that were lost",
          connections_lost.value());
    visit("ros2store_channel_server_restarts_total", "Restarts of the server that were detected",
          server_restarts.value());
    visit("ros2store_channel_requests_total", "Requests made", requests.value());
    visit("ros2store_channel_requests_repeated_total",
          "Requests sent again after a connection was lost", requests_repeated.value());
    visit("ros2store_channel_requests_given_up_total",
          "Requests cancelled or over their deadline while the server had them",
          requests_given_up.value());
    visit("ros2store_channel_malformed_total", "Malformed frames from the server",
          malformed.value());
    visit("ros2store_channel_inline_bytes_total", "Payload that went within messages",
          inline_bytes.value());
    visit("ros2store_channel_window_bytes_total", "Payload that was granted in the caller's memory",
          window_bytes.value());
    visit("ros2store_channel_staged_bytes_total", "Payload that was copied to be granted",
          staged_bytes.value());
}

void ServerMetrics::visit(const MetricVisitor& visit) const {
    visit("ros2store_server_connections", "Connections that are open", connections.value());
    visit("ros2store_server_connections_greeted_total", "Connections that were admitted",
          connections_greeted.value());
    visit("ros2store_server_refused_ticket_total", "Connections refused for their ticket",
          refused_ticket.value());
    visit("ros2store_server_refused_version_total", "Connections refused for their version",
          refused_version.value());
    visit("ros2store_server_refused_busy_total", "Connections refused because there were too many",
          refused_busy.value());
    visit("ros2store_server_malformed_total", "Malformed frames, each of which ended a connection",
          malformed.value());
    visit("ros2store_server_over_credit_total", "Requests beyond their connection's credit",
          over_credit.value());
    visit("ros2store_server_stalled_total",
          "Connections whose client did not serve its windows in time", stalled.value());
    visit("ros2store_server_requests_total", "Requests accepted", requests.value());
    visit("ros2store_server_undeliverable_total",
          "Requests refused because the payload of their reply had no destination",
          undeliverable.value());
    visit("ros2store_server_failures_total", "Requests whose reply was an error", failures.value());
    visit("ros2store_server_cancels_total", "Requests that their client cancelled",
          cancels.value());
    visit("ros2store_server_answers_lost_total", "Replies whose connection had ended",
          answers_lost.value());
    visit("ros2store_server_in_bytes_total", "Payload received", bytes_in.value());
    visit("ros2store_server_out_bytes_total", "Payload sent", bytes_out.value());
    visit("ros2store_server_memory_bytes", "Memory held for payload", memory_bytes.value());
}

}  // namespace ros2s::rpc
