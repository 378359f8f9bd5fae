#include "selection.h"

#include "ofi_library.h"

namespace ros2s::fabric::ofi {

namespace {

constexpr std::string_view tcp = "ofi+tcp;ofi_rxm";
constexpr std::string_view verbs_rxm = "ofi+verbs;ofi_rxm";
constexpr std::string_view verbs = "ofi+verbs";

// An adapter's queue of completions has room for this many connections (FI_UNIVERSE_SIZE); that for
// tcp grows.
constexpr size_t peers_over_verbs_max = 95;
constexpr size_t peers_over_tcp_max = 4096;

}  // namespace

Result<std::vector<std::string>> fitting(const std::string& provider, const Machine& machine,
                                         Report& report) {
    if (provider == tcp) return lanes::interfaces_for(provider, machine, report);
    if (provider != verbs_rxm && provider != verbs) {
        return report.fail(Code::invalid,
                           "'{}' is not a provider of libfabric: choose ofi+tcp;ofi_rxm, "
                           "ofi+verbs;ofi_rxm or ofi+verbs",
                           provider);
    }
    if (!machine.adapters.empty()) return machine.adapters;
    return report.fail(Code::unsupported,
                       "provider {} needs an RDMA adapter and this machine has none: choose "
                       "provider ofi+tcp;ofi_rxm, or install the adapter's driver",
                       provider);
}

Result<Choice> select(const Options& options, const Machine& machine, Report& report) {
    const std::string& provider = options.provider;
    ROS2S_TRY_ASSIGN(const std::vector<std::string> fit, fitting(provider, machine, report));
    Choice choice{.provider = provider.substr(std::string_view("ofi+").size()),
                  .domain = options.device,
                  .connections = provider == verbs,
                  .peers_max = provider == tcp ? peers_over_tcp_max : peers_over_verbs_max};
    if (provider == verbs_rxm) choice.message_bytes_max = buffer_bytes;
    if (provider == tcp) {
        ROS2S_TRY(lanes::check_interface(provider, options.device, fit, report));
        return choice;
    }
    // To libfabric an adapter's ports are separate devices, identified by the address of their
    // network interface.
    ROS2S_TRY_ASSIGN(choice.domain, lanes::adapter_of(provider, options.device, fit, "", report));
    const std::string_view port = std::string_view(options.device).substr(choice.domain.size());
    if (port.empty() || port == ":1") return choice;
    return report.fail(Code::unsupported,
                       "provider {} takes port 1 of an adapter: name {} as device=", provider,
                       choice.domain);
}

}  // namespace ros2s::fabric::ofi
