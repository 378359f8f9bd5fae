// The settings of UCX for a provider and a device, and whether this machine has them. The decision
// is a function of plain values, so that tests can cover machines that are not available.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "ros2s/fabric/lanes/machine.h"
#include "ucx.h"

namespace ros2s::fabric::ucx {

using lanes::look_at_machine;
using lanes::Machine;

// The devices of the machine that could carry the provider's data; never empty. Errors: invalid (no
// such provider), unsupported; the report says what to do.
[[nodiscard]] Result<std::vector<std::string>> fitting(const std::string& provider,
                                                       const Machine& machine, Report& report);

// Settings of UCX in the order in which they are made: name without "UCX_", value.
using Settings = std::vector<std::pair<std::string, std::string>>;

// Errors: invalid, unsupported; the report names the provider and what to do.
[[nodiscard]] Result<Settings> select(const Options& options, const Machine& machine,
                                      Report& report);

}  // namespace ros2s::fabric::ucx
