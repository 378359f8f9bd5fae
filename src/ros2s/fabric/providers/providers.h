// The real providers by their names, for those who compose: daemons, and clients of them.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ros2s/fabric/domain.h"

namespace ros2s::fabric {

namespace shm {
struct SegmentsTogether;
}

// "shm, ucx+tcp, … and ofi+verbs".
[[nodiscard]] std::string_view provider_names();
[[nodiscard]] bool is_provider(std::string_view name);

// Whether its library listens by itself beside our port, and takes bytes from whoever reaches it,
// without a ticket: all of UCX and libfabric but ofi+verbs. Over tcp such bytes write anywhere in
// the process; RDMA adapters check keys, but what the library reads of messages is not checked by
// us.
[[nodiscard]] bool trusts_its_network(std::string_view provider);

// `devices`: "lo", "eth0", "mlx5_0:1", or several with commas between them, of which the provider
// takes the first that suits it; shm needs none. `together`: what shm shares with others. Errors:
// unsupported (no such provider, this machine lacks it, or none of the devices suits it), those of
// ucx::open_domain() and ofi::open_domain().
[[nodiscard]] Result<std::unique_ptr<Domain>> open_domain(
    Reactor& reactor, const std::string& provider, const std::string& devices, Report& report,
    shm::SegmentsTogether* together = nullptr);

// Exposed for tests: the first of `devices` whose adapter or interface is among `fit`.
[[nodiscard]] Result<std::string> choose_device(const std::string& provider,
                                                std::string_view devices,
                                                const std::vector<std::string>& fit,
                                                Report& report);

// Whether this machine has what a provider needs.
struct Availability {
    std::string provider;
    bool here = false;
    std::vector<std::string> devices;  // that could carry its data; shm needs none
    std::string why_not;               // and what to do; empty where it is here
};
// One for each provider. Loads UCX and libfabric.
[[nodiscard]] std::vector<Availability> look_at_providers();

// A library that this process has loaded, or would load: asking loads it.
struct NetworkLibrary {
    std::string name;     // "UCX", "libfabric"
    std::string package;  // of Debian
    std::string path;     // empty where it is not to be had
    std::string version;  // "1.13.1"
    std::string why_not;  // and what to do
};
[[nodiscard]] std::vector<NetworkLibrary> network_libraries();

}  // namespace ros2s::fabric
