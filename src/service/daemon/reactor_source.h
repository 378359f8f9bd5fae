// Metrics of one of a daemon's reactors. They show whether one core is busy while another is idle,
// and how much moves between them.
#pragma once
#include <cstdint>

#include "ros2s/exporter/metrics_server.h"
#include "ros2s/runtime/os_reactor.h"

namespace ros2s::daemon {

// With the label `reactor`. The reactor outlives the source. Any thread may scrape.
[[nodiscard]] exporter::Source reactor_source(const OsReactor& reactor, uint32_t number);

}  // namespace ros2s::daemon
