// ucx: the provider between trusted machines: frames of packets as active messages of UCX, over tcp
// or a NIC's reliable connections. Put and get are packets too, copied by the grantor's own code
// after asking its own table: UCX's one-sided operations are not even enabled, because over tcp
// they write wherever the peer says (docs/decisions/0403-ucx.md).
//
// Addresses are "IP:PORT" of a TCP socket for set-up, which stays open beside the session: its
// hang-up is the peer's death.
//
// The environment's UCX_* variables and its effect on other users of UCX in the process: the former
// have no effect here; UCX's log is made silent for the whole process, and UCX's own handlers of
// SIGSEGV and the like, which it installs when it is loaded, are taken out again.
#pragma once
#include <memory>
#include <string>

#include "ros2s/fabric/domain.h"

namespace ros2s::fabric::ucx {

struct Options {
    std::string provider = "ucx+tcp";  // or ucx+rc, ucx+dc_x
    // The one device that carries data: "lo", "eth0" (ucx+tcp), "mlx5_0:1" (the others).
    std::string device;
};

// Opens a UCX context of its own. The reactor must have a Ring: an OsReactor. In a forked child the
// domain is dead, as its reactor is. Errors: unsupported (this machine has no such device),
// invalid (no such provider, no device named), no_memory, io.
[[nodiscard]] Result<std::unique_ptr<Domain>> open_domain(Reactor& reactor, Options options,
                                                          Report& report);

}  // namespace ros2s::fabric::ucx
