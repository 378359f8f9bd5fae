// ofi: providers over libfabric (docs/decisions/0405-ofi.md): frames of packets as its messages.
// - ofi+tcp;ofi_rxm and ofi+verbs;ofi_rxm, between trusted machines: of a reliable datagram
//   endpoint. Put and get are packets too, copied by the grantor's own code after asking its own
//   table; nothing of ours is registered for one-sided operations.
// - ofi+verbs, fit for hosts that nobody trusts: of an RDMA connection for each session. Put and
//   get are the adapter's own, which checks the keys of what is granted. A child that was forked
//   after libfabric was loaded connects to nobody.
//
// Addresses are "IP:PORT" of a TCP socket for set-up, which stays open beside the session: its
// hang-up is the peer's death.
//
// libfabric is loaded when the first domain is opened, and stays. The environment's FI_* variables
// have no effect then or later. A libfabric that the process had before is used as it is.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "ros2s/fabric/domain.h"

namespace ros2s::fabric::ofi {

struct Options {
    std::string provider = "ofi+tcp;ofi_rxm";  // or ofi+verbs;ofi_rxm, ofi+verbs
    // The one device that carries data: "lo", "eth0" (tcp), "mlx5_0" or "mlx5_0:1" (verbs).
    std::string device;
};

// The libfabric that this process has, or would have: asking loads it.
struct Library {
    std::string path;     // "/usr/lib/x86_64-linux-gnu/libfabric.so.1.19.0"
    std::string version;  // "1.17"
};
// Errors: unsupported (none is installed, or too old a one); the report says what to do.
[[nodiscard]] Result<Library> library(Report& report);

// This machine's devices that could carry the provider's data, by name; never empty. libfabric is
// not asked. Errors: invalid (no provider of ofi), unsupported; the report says what to do.
[[nodiscard]] Result<std::vector<std::string>> devices(const std::string& provider, Report& report);

// Opens an endpoint of its own. The reactor must have a Ring: an OsReactor. In a forked child the
// domain is dead, as its reactor is. Errors: unsupported (this machine has no such device, the
// device has no address, or there is no libfabric), invalid (no such provider, no device named),
// no_memory, io.
[[nodiscard]] Result<std::unique_ptr<Domain>> open_domain(Reactor& reactor, Options options,
                                                          Report& report);

}  // namespace ros2s::fabric::ofi
