// Metrics of the requests of each session, with labels that tell whose they are.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "ros2s/exporter/metrics_server.h"
#include "ros2s/session/sessions.h"

namespace ros2s::daemon {

// The containers that a session uses.
using ContainersOf = std::function<std::vector<std::string>(const session::Session&)>;

// What a session was acknowledged that is not durable yet (durability=fsync).
struct NotDurable {
    uint64_t changes = 0, bytes = 0;
    Duration age{};  // of the first
};
using NotDurableOf = std::function<NotDurable(const session::Session&)>;

// Labels: `tenant`, `session`, `process`, `container`, and `kind` of requests. A tenant's sessions
// after its first 64, and all after the first 512, are added up for the tenant; tenants after the
// first 64 are added up, too. So a scrape stays small. The counters of a session end with it.
[[nodiscard]] std::vector<exporter::Source> sources_of(const session::SessionTable& sessions,
                                                       const ContainersOf& containers_of,
                                                       const NotDurableOf& not_durable_of);

}  // namespace ros2s::daemon
