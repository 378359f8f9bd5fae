// The processes to which the sockets of this process are connected.
#pragma once
#include <set>
#include <string>

namespace ros2s::tests {

struct Peers {
    std::set<int> processes;     // by Unix sockets; this one itself not
    std::set<std::string> inet;  // "127.0.0.1 port 7401"
};
[[nodiscard]] Peers peers_of_this_process();

}  // namespace ros2s::tests
