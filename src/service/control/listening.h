// Sockets that the control plane listens on: HOST:PORT, [IPv6]:PORT, unix:PATH. All calls block.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "ros2s/base/descriptor.h"
#include "ros2s/base/result.h"

namespace ros2s::control {

inline constexpr std::string_view unix_scheme = "unix:";

struct Listening {
    std::string address;              // as requested, with the actual port in place of 0
    std::vector<Descriptor> sockets;  // one for each of the name's addresses that was available
};

// Checks what open_listening() would refuse now. Leaves nothing behind.
[[nodiscard]] Result<> check_listening(const std::string& address, Report& report);
// Non-blocking sockets. Replaces a socket file that an earlier process left. Errors, each with a
// sentence: invalid (no address), busy (taken, or not this machine's), denied, not_found.
[[nodiscard]] Result<Listening> open_listening(const std::string& address, Report& report);

}  // namespace ros2s::control
