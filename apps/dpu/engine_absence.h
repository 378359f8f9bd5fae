// The log lines and metrics of a DPU about an engine or a Ceph cluster that cannot be reached.
// Hosts do not receive its address (docs/decisions/0530).
#pragma once
#include <fmt/format.h>

#include <chrono>
#include <string>
#include <string_view>

#include "ros2s/runtime/time.h"

namespace ros2s::dpud {

inline constexpr std::string_view reachable_metric = "ros2store_engine_reachable";
inline constexpr std::string_view reachable_help =
    "1; 0 while the engine or the cluster that has the pool cannot be reached";

// `engine`: "the engine at " and its address.
[[nodiscard]] inline std::string engine_is_away(std::string_view engine, std::string_view pool,
                                                std::string_view why) {
    return fmt::format(
        "{}, which has the pool '{}', cannot be reached ({}): start ros2store-engine there, or "
        "repair the connection to it. Requests of hosts wait 30 s, then they fail",
        engine, pool, why.empty() ? "it closed the connection" : why);
}

[[nodiscard]] inline std::string cluster_is_away(std::string_view cluster, std::string_view pool,
                                                 std::string_view why) {
    return fmt::format(
        "{}, which has the pool '{}', does not answer ({}): see `ceph health`. Requests of hosts "
        "fail when their time is over (rados_osd_op_timeout)",
        cluster, pool, why);
}

[[nodiscard]] inline std::string is_back(std::string_view place, std::string_view pool,
                                         Duration away) {
    return fmt::format("{}, which has the pool '{}', is back after {} s", place, pool,
                       std::chrono::round<std::chrono::seconds>(away).count());
}

}  // namespace ros2s::dpud
