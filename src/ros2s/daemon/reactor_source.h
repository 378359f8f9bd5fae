// The figures of one of a daemon's reactors, for its metrics server: is one core busy and another
// idle, and how much goes from one to the other?
#pragma once
#include <cstdint>

#include "ros2s/exporter/metrics_server.h"
#include "ros2s/runtime/os_reactor.h"

namespace ros2s::daemon {

// With the label `reactor`. The reactor outlives the source; any thread may ask.
[[nodiscard]] exporter::Source reactor_source(const OsReactor& reactor, uint32_t number);

}  // namespace ros2s::daemon
