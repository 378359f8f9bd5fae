// These are the options of both ends of a connection. Only limits() turns them into the fabric's
// budgets.
#pragma once
#include <cerrno>
#include <cstdint>

#include "ros2s/base/uuid.h"
#include "ros2s/fabric/endpoint.h"
#include "ros2s/rpc/server_group.h"
#include "ros2s/runtime/time.h"

namespace ros2s::rpc {

// The os_errno of `disconnected` if the server itself is reachable, but a server that it needs is
// not (detail as of Channel::call()).
inline constexpr int32_t absent_behind = EREMOTEIO;

// In bytes unless stated otherwise.
struct ChannelOptions {
    uint32_t service = 0;  // a Service's number
    Uuid client;           // this client instance; the ticket is issued to it
    // The largest whole request frame; a request with more payload goes through windows.
    uint64_t inline_request_bytes = uint64_t{16} << 10;
    // The largest reply that is accepted. Its body, with the checksums of all data read, is inline.
    uint64_t message_bytes_max = uint64_t{256} << 10;
    // At once, also if the server grants more credits.
    uint16_t requests_max = 256;
    // This part of the server's credits, and what is over requests_max, is for requests for which
    // others wait (CallRequest::is_awaited): they go if all others wait for something.
    static constexpr uint16_t awaited_part = 4;  // a quarter
    // For payload that cannot be granted in place, of all requests together.
    uint64_t staging_bytes_max = uint64_t{160} << 20;
    // The part that a connection has from the beginning. It gets the rest as it needs it.
    static constexpr uint64_t staging_bytes_first = uint64_t{256} << 10;
    // A server that uses a capability for others learns within a second that it is out of date.
    static constexpr Duration renewal_within = std::chrono::seconds(5);
    // The time that a request waits for a new connection, each time that the connection is lost.
    Duration patience = std::chrono::seconds(30);
    // The time for a call, which includes waiting for a credit and for a connection. Then it fails,
    // whatever the server does. 0: calls without a deadline wait as long as there is a connection.
    std::chrono::seconds call_within{0};
    // The os_errno of requests whose wait ended without a connection. A server that uses this
    // channel for its own replies sets absent_behind.
    int32_t absence_errno = 0;
    // Weights of the tenants for which requests are sent; null: all have the same. Outlives the
    // channel.
    const admission::Accounts* accounts = nullptr;
    // The time that a cancelled request waits for its reply before its windows are revoked.
    Duration answer_within = std::chrono::milliseconds(500);

    [[nodiscard]] fabric::Limits limits() const;
};

struct ServerOptions {
    // At once per connection: the credits that it is granted. Enough that requests wait for their
    // turn here, where weights count, and not at the client.
    uint16_t requests_max = 256;
    // The largest request frame that is accepted. Clients should send less than that inline.
    uint64_t message_bytes_max = uint64_t{64} << 10;
    // A whole reply frame up to this size is inline.
    uint32_t inline_reply_bytes = 16 << 10;
    // Memory for messages of one connection, however many credits it has: requests that have not
    // ended, and replies that the client has not read. The client waits for the former, replies for
    // the latter.
    static constexpr uint64_t requests_bytes_max = uint64_t{1} << 20;
    static constexpr uint64_t replies_bytes_max = uint64_t{1408} << 10;
    uint64_t payload_bytes_max = uint64_t{64} << 20;  // of one request, in each direction
    // Shared with the tenants of other servers; null: not shared, so these are its own.
    ServerGroup* group = nullptr;
    admission::Limits admission{};
    Quota::Bounds connections = connections_default;

    [[nodiscard]] fabric::Limits limits() const;
};

}  // namespace ros2s::rpc
