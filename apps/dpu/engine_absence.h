// The log lines and metrics of a DPU about an engine that cannot be reached. Hosts do not receive
// its address (docs/decisions/0534).
#pragma once
#include <fmt/format.h>

#include <chrono>
#include <string>
#include <string_view>

#include "ros2s/runtime/time.h"

namespace ros2s::dpud {

inline constexpr std::string_view reachable_metric = "ros2store_engine_reachable";
inline constexpr std::string_view reachable_help =
    "1; 0 while the engine that has the pool cannot be reached";

[[nodiscard]] inline std::string engine_is_away(std::string_view address, std::string_view pool,
                                                std::string_view why) {
    return fmt::format(
        "the engine at {}, which has the pool '{}', cannot be reached ({}): start "
        "ros2store-engine there, or repair the connection to it. Requests of hosts wait 30 "
        "s, then they fail",
        address, pool, why.empty() ? "it closed the connection" : why);
}

[[nodiscard]] inline std::string engine_is_back(std::string_view address, std::string_view pool,
                                                Duration away) {
    return fmt::format("the engine at {}, which has the pool '{}', is back after {} s", address,
                       pool, std::chrono::round<std::chrono::seconds>(away).count());
}

}  // namespace ros2s::dpud
