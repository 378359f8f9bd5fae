// ucx: the provider for trusted machines. Frames of packets are active messages of UCX, over tcp or
// a NIC's reliable connections. Put and get are packets too. The grantor's own code copies them
// after it has checked its own table. UCX's one-sided operations are not enabled, because over tcp
// they write to any address that the peer names (docs/decisions/0403).
//
// Addresses are "IP:PORT" of a TCP socket for set-up. That socket stays open beside the session.
// Its hang-up means that the peer is gone.
//
// UCX is loaded when the first domain is opened, and stays. The environment's UCX_* variables have
// no effect then or later. Its log is silent for the whole process. It does not install its
// handlers of SIGSEGV, SIGHUP and the like, and patches no code. If the process already has a UCX,
// that one is used as it is.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "ros2s/base/loaded_library.h"
#include "ros2s/fabric/lanes/lane_domain.h"

namespace ros2s::fabric::ucx {

using lanes::Options;

// The UCX that this process has or would load. The call loads it. Errors: unsupported (none is
// installed, or it is too old), denied (the current directory has settings for it from another
// user); the report says what to do.
[[nodiscard]] Result<const LoadedLibrary*> library(Report& report);

// The devices of this machine that could carry the provider's data, by name; never empty. Does not
// ask UCX. Errors: invalid (no provider of UCX), unsupported; the report says what to do.
[[nodiscard]] Result<std::vector<std::string>> devices(const std::string& provider, Report& report);

// Opens a UCX context of its own. The reactor must have a Ring: an OsReactor. The domain does not
// work in a forked child, and neither does its reactor. Errors: unsupported (this machine has no
// such device, or no UCX), denied (see library()), invalid (no such provider, no device named),
// no_memory, io.
[[nodiscard]] Result<std::unique_ptr<Domain>> open_domain(Reactor& reactor, Options options,
                                                          Report& report);

}  // namespace ros2s::fabric::ucx
