// Counters of channels and servers. Written on their core, read by any thread.
#pragma once
#include "ros2s/base/metrics.h"

namespace ros2s::rpc {

struct ChannelMetrics {
    Counter connections;         // greeted by the server
    Counter connections_failed;  // attempts that came to nothing
    Counter connections_lost;
    Counter server_restarts;  // seen by another incarnation
    Counter requests;
    Counter requests_repeated;  // sent again, with the same operation id
    Counter requests_given_up;  // cancelled, or over their deadline, after they were sent
    Counter malformed;          // frames of the server that made no sense; each ended a connection
    Counter inline_bytes;       // payload that went or came within a message
    Counter window_bytes;       // payload that was granted where it lies
    Counter staged_bytes;       // payload that had to be copied to be granted
    void visit(const MetricVisitor& visit) const;
};

struct ServerMetrics {
    Counter connections;          // that are open now
    Counter connections_greeted;  // let in
    Counter refused_ticket;       // by the gate
    Counter refused_version;
    Counter refused_busy;  // over connections_max
    Counter malformed;     // hellos and frames that made no sense; each ended its connection
    Counter over_credit;   // the same, for requests beyond what was granted
    Counter
        stalled;  // the same, for a client that served no put or get, or read no answer, in time
    Counter requests;
    Counter undeliverable;        // refused: their answers' payload had nowhere to go
    Counter failures;             // answered by an error
    Counter cancels;              // that found their request
    Counter answers_lost;         // the connection had ended
    Counter bytes_in, bytes_out;  // payload
    Counter memory_bytes;         // held for payload now
    void visit(const MetricVisitor& visit) const;
};

}  // namespace ros2s::rpc
