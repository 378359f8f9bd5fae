// Machine: the network devices of a machine, for providers that choose among them.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "ros2s/base/result.h"

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

// The machine's interfaces, for a provider over tcp. Errors, as of the following: unsupported,
// invalid (no device is named); the report names the provider and what to do.
[[nodiscard]] Result<std::vector<std::string>> interfaces_for(const std::string& provider,
                                                              const Machine& machine,
                                                              Report& report);
// Checks that the device is one of these interfaces.
[[nodiscard]] Result<> check_interface(const std::string& provider, const std::string& device,
                                       const std::vector<std::string>& interfaces, Report& report);
// The adapter of the device, with or without its port: one of `fit`, which is not empty. `port`:
// what such a device's name ends with.
[[nodiscard]] Result<std::string> adapter_of(const std::string& provider, const std::string& device,
                                             const std::vector<std::string>& fit,
                                             std::string_view port, Report& report);

}  // namespace ros2s::fabric::lanes
