// The request to libfabric for a provider and a device, and the check that this machine has them.
// The decision is a function of plain values, so that tests can cover machines that are not
// available.
#pragma once
#include <string>
#include <vector>

#include "ofi.h"
#include "ros2s/fabric/lanes/greeting.h"
#include "ros2s/fabric/lanes/machine.h"
#include "ros2s/fabric/packet/packet.h"

namespace ros2s::fabric::ofi {

using lanes::look_at_machine;
using lanes::Machine;

// The devices of the machine that could carry the provider's data; never empty. Errors: invalid (no
// such provider), unsupported; the report says what to do.
[[nodiscard]] Result<std::vector<std::string>> fitting(const std::string& provider,
                                                       const Machine& machine, Report& report);

struct Choice {
    std::string provider;      // by libfabric's name: "tcp;ofi_rxm"
    std::string domain;        // of libfabric: "lo", "mlx5_0"
    bool connections = false;  // each session has its own
    size_t peers_max = 0;      // with sessions at a time, if sessions share
    size_t message_bytes_max = sizeof(lanes::FrameHeader) + frame_bytes;  // if sessions share
};
// Errors: invalid, unsupported; the report names the provider and what to do.
[[nodiscard]] Result<Choice> select(const Options& options, const Machine& machine, Report& report);

}  // namespace ros2s::fabric::ofi
