// The names in certificates of servers on this machine.
#pragma once
#include <string>
#include <vector>

namespace ros2s::cli {

// The names by which a server on this machine is reached from here: localhost, its addresses, and
// the machine's name.
[[nodiscard]] std::vector<std::string> names_of_this_machine();

}  // namespace ros2s::cli
