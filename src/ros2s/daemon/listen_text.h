// These functions read texts in the settings of daemons: lists, and the addresses of a data plane.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "ros2s/base/result.h"

namespace ros2s::daemon {

// The parts between commas that are not empty, without surrounding spaces.
[[nodiscard]] std::vector<std::string> parts_of(std::string_view text);

struct Listen {
    std::string provider;  // "shm", "ucx+tcp"
    std::string address;   // in the provider's format
    friend bool operator==(const Listen&, const Listen&) = default;
};
// Parses "shm /run/ros2store/engine.sock, ucx+tcp 127.0.0.1:7401". `where` names the setting.
// Errors: invalid, with a sentence.
[[nodiscard]] Result<std::vector<Listen>> parse_listen(std::string_view text,
                                                       std::string_view where, Report& report);

}  // namespace ros2s::daemon
