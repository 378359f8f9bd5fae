// ofi: providers over libfabric (docs/decisions/0403). Frames of packets are its messages.
// - ofi+tcp;ofi_rxm and ofi+verbs;ofi_rxm are for trusted machines. They use a reliable datagram
//   endpoint. Put and get are packets too. The grantor's own code copies them after it has checked
//   its own table. None of our memory is registered for one-sided operations.
// - ofi+verbs is also for hosts that are not trusted. It uses one RDMA connection for each session.
//   The adapter executes put and get, and checks the keys of granted memory. A child that is forked
//   after libfabric was loaded cannot connect.
//
// Addresses are "IP:PORT" of a TCP socket for set-up. That socket stays open beside the session.
// Its hang-up means that the peer is gone.
//
// libfabric is loaded when the first domain is opened, and stays. The environment's FI_* variables
// have no effect then or later. If the process already has a libfabric, that one is used as it is.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "ros2s/base/loaded_library.h"
#include "ros2s/fabric/lanes/lane_domain.h"

namespace ros2s::fabric::ofi {

using lanes::Options;

// The libfabric that this process has or would load. The call loads it. Errors: unsupported (none
// is installed, or it is too old); the report says what to do.
[[nodiscard]] Result<const LoadedLibrary*> library(Report& report);

// The devices of this machine that could carry the provider's data, by name; never empty. Does not
// ask libfabric. Errors: invalid (no provider of ofi), unsupported; the report says what to do.
[[nodiscard]] Result<std::vector<std::string>> devices(const std::string& provider, Report& report);

// Opens an endpoint of its own. The reactor must have a Ring: an OsReactor. The domain does not
// work in a forked child, and neither does its reactor. Errors: unsupported (this machine has no
// such device, the device has no address, or there is no libfabric), invalid (no such provider, no
// device named), no_memory, io.
[[nodiscard]] Result<std::unique_ptr<Domain>> open_domain(Reactor& reactor, Options options,
                                                          Report& report);

}  // namespace ros2s::fabric::ofi
