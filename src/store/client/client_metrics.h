// ClientMetrics counts the requests that pass a ClientStore, by kind, with bytes, errors and
// latency.
#pragma once
#include <array>
#include <bit>
#include <cstdint>

#include "ros2s/base/metrics.h"
#include "ros2s/runtime/time.h"

namespace ros2s::client {

struct RequestMetrics {
    // Bucket i counts latencies below 1.024 µs << 2 i. The last bucket counts the rest.
    static constexpr size_t bucket_count = 12;

    Counter requests;
    Counter errors;  // also of single items; a hole or an absent akey is not an error
    Counter bytes;   // payload that was requested or sent
    Counter latency_ns;
    std::array<Counter, bucket_count> latency;

    void finish(Duration took) noexcept {
        const auto ns = static_cast<uint64_t>(took.count());
        requests.add();
        latency_ns.add(ns);
        const size_t bucket = (static_cast<size_t>(std::bit_width(ns >> 10)) + 1) / 2;
        latency[bucket < bucket_count ? bucket : bucket_count - 1].add();
    }
};

struct ClientMetrics {
    RequestMetrics fetch, update, list, query, other;  // other: containers, space, unpin
    Counter corrupt;     // items whose bytes were withheld; the store or this client found them
                         // corrupt
    Counter read_again;  // items read again because they did not match in shared memory

    // Prometheus names: ros2store_client_<kind>_…
    void visit(const MetricVisitor& visit) const;
};

}  // namespace ros2s::client
