// This header has the real providers by their names, for composing code: daemons and their clients.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ros2s/fabric/domain.h"
#include "ros2s/fabric/tls/tls.h"

namespace ros2s::fabric {

namespace shm {
struct SegmentsTogether;
}

// "shm, tls, ucx+tcp, … and ofi+verbs".
[[nodiscard]] std::string provider_names();
// Those that do not trust their network: "shm, tls or ofi+verbs".
[[nodiscard]] std::string untrusting_provider_names();
[[nodiscard]] bool is_provider(std::string_view name);

// Facts about a provider. There are none about a name that is no provider's: false.
// Its peers are on this machine, and its addresses are paths of sockets. The others have IP:PORT.
[[nodiscard]] bool is_local(std::string_view provider);
// It is opened on a device: a network interface, or a port of an adapter.
[[nodiscard]] bool needs_device(std::string_view provider);
// Its device is a network interface.
[[nodiscard]] bool uses_interface(std::string_view provider);

// True if its library has a listener of its own, beside our port, that accepts bytes from
// any sender without a ticket. True for all of UCX and libfabric except ofi+verbs. Over tcp such
// bytes can write anywhere in the process. RDMA adapters check keys, but we do not check what the
// library reads of messages. Also true for a name that is no provider's.
[[nodiscard]] bool trusts_its_network(std::string_view provider);

struct DomainOptions {
    shm::SegmentsTogether* together = nullptr;  // what shm shares with others
    tls::Options tls{};
};
// `devices`: "lo", "eth0", "mlx5_0:1", or several with commas between them. The provider takes the
// first that it can use; shm and tls need none. Errors: unsupported (no such provider, this machine
// lacks it, or no device can be used), those of the providers' open_domain().
[[nodiscard]] Result<std::unique_ptr<Domain>> open_domain(Reactor& reactor,
                                                          const std::string& provider,
                                                          const std::string& devices,
                                                          Report& report,
                                                          DomainOptions options = {});

// Public for tests: the first of `devices` whose adapter or interface is among `fit`.
[[nodiscard]] Result<std::string> choose_device(const std::string& provider,
                                                std::string_view devices,
                                                const std::vector<std::string>& fit,
                                                Report& report);

// The result of checking whether this machine has what a provider needs.
struct Availability {
    std::string provider;
    bool here = false;
    std::vector<std::string> devices;  // that could carry its data; shm and tls need none
    std::string reach;                 // without devices: "between processes of this machine"
    std::string why_not;               // and what to do; empty if it is available
};
// One for each provider. Loads UCX and libfabric.
[[nodiscard]] std::vector<Availability> look_at_providers();

// A library that this process has loaded or would load. The call loads it.
struct NetworkLibrary {
    std::string name;     // "UCX", "libfabric"
    std::string package;  // the Debian package
    std::string path;     // empty if it is not available
    std::string version;  // "1.13.1"
    std::string why_not;  // and what to do
};
[[nodiscard]] std::vector<NetworkLibrary> network_libraries();

}  // namespace ros2s::fabric
