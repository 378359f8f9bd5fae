// Addresses of a data plane in the settings of daemons.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "ros2s/base/result.h"

namespace ros2s::daemon {

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
