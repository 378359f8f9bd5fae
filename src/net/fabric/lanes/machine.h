// Machine: the network devices of a machine, for providers that choose among them.
#pragma once
#include <string>
#include <vector>

namespace ros2s::fabric::lanes {

// By name.
struct Machine {
    std::vector<std::string> interfaces;  // "lo", "eth0"
    std::vector<std::string> adapters;    // RDMA: "mlx5_0", "rocep1s0f0"
    std::vector<std::string> connectx;    // those of `adapters` with the driver mlx5_core
};
[[nodiscard]] Machine look_at_machine();

// For messages to people: "lo, eth0"; "none" if there is none.
[[nodiscard]] std::string list(const std::vector<std::string>& names);
[[nodiscard]] bool has(const std::vector<std::string>& names, const std::string& name);

}  // namespace ros2s::fabric::lanes
