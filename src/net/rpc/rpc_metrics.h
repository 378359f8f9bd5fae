// Channels and servers count in these structs. Their core writes the counters, any thread reads
// them.
#pragma once
#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "ros2s/admission/cost.h"
#include "ros2s/base/latency_histogram.h"
#include "ros2s/base/metrics.h"
#include "ros2s/runtime/time.h"

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

// The requests of one guest's session, by kind of work.
struct GuestMetrics {
    static constexpr std::array<std::string_view, 4> kinds{"look", "change", "read", "write"};
    std::array<Counter, kinds.size()> requests;
    Counter bytes, busy_ns;
    void add(admission::Work work, uint64_t payload, Duration took) noexcept {
        requests[static_cast<size_t>(work)].add();
        bytes.add(payload);
        busy_ns.add(static_cast<uint64_t>(took.count()));
    }
};

// MethodTimes: the durations of a service's requests, by method.
//
// A member of the service; its core adds, any thread reads.
class MethodTimes {
  public:
    // `names`: of methods 1, 2, …; they outlive this. All other methods are "other".
    explicit MethodTimes(std::span<const std::string_view> names)
        : names_(names), times_(names.size() + 1) {}
    void add(uint16_t method, Duration took) noexcept {
        times_[method <= names_.size() ? method : 0].add(static_cast<uint64_t>(took.count()));
    }
    [[nodiscard]] std::string_view name(uint16_t method) const noexcept {
        return method == 0 || method > names_.size() ? "other" : names_[method - 1];
    }
    void visit(const HistogramVisitor& visit) const {
        for (size_t i = 0; i < times_.size(); ++i) {
            visit("ros2store_request_duration_seconds",
                  "From a request's arrival to its reply, by method",
                  name(static_cast<uint16_t>(i)), times_[i].read());
        }
    }

  private:
    std::span<const std::string_view> names_;
    std::vector<LatencyHistogram> times_;  // [0]: other
};

}  // namespace ros2s::rpc
