// Channels and servers count in these structs. Their core writes the counters, any thread reads
// them.
#pragma once
#include "ros2s/base/metrics.h"

namespace ros2s::rpc {

struct ChannelMetrics {
    Counter connections;         // greeted by the server
    Counter connections_failed;  // attempts that failed
    Counter connections_lost;
    Counter server_restarts;  // seen by another incarnation
    Counter requests;
    Counter requests_repeated;  // sent again, with the same update name
    Counter requests_given_up;  // cancelled, or over their deadline, after they were sent
    Counter malformed;          // invalid frames of the server; each ended a connection
    Counter inline_bytes;       // payload inside messages
    Counter window_bytes;       // payload that was granted in place
    Counter staged_bytes;       // payload that had to be copied to be granted
    void visit(const MetricVisitor& visit) const;
};

struct ServerMetrics {
    Counter connections;          // that are open now
    Counter connections_greeted;  // admitted
    Counter refused_ticket;       // by the gate
    Counter refused_version;
    Counter refused_busy;  // there are too many
    Counter malformed;     // invalid hellos and frames; each ended its connection
    Counter over_credit;   // the same, for requests beyond the credits
    Counter
        stalled;  // the same, for a client that served no put or get, or read no answer, in time
    Counter requests;
    Counter undeliverable;        // refused: no place for their replies' payload
    Counter failures;             // an error was the reply
    Counter cancels;              // those that found their request
    Counter answers_lost;         // the connection had ended
    Counter bytes_in, bytes_out;  // payload
    Counter memory_bytes;         // held for payload now
    void visit(const MetricVisitor& visit) const;
};

}  // namespace ros2s::rpc
