#include "selection.h"

#include "ofi_library.h"

namespace ros2s::fabric::ofi {

using lanes::has;
using lanes::list;

namespace {

constexpr std::string_view tcp = "ofi+tcp;ofi_rxm";
constexpr std::string_view verbs_rxm = "ofi+verbs;ofi_rxm";
constexpr std::string_view verbs = "ofi+verbs";

// An adapter's queue of completions has room for this many connections (FI_UNIVERSE_SIZE); that for
// tcp grows.
constexpr size_t peers_over_verbs_max = 95;
constexpr size_t peers_over_tcp_max = 4096;

// The adapter's name, with or without its port. To libfabric an adapter's ports are separate
// devices, identified by the address of their network interface.
Result<std::string> adapter_of(const Options& options, const std::vector<std::string>& fit,
                               Report& report) {
    const size_t colon = options.device.find(':');
    const std::string adapter = options.device.substr(0, colon);
    if (adapter.empty()) {
        return report.fail(Code::invalid, "provider " + options.provider +
                                              " needs the adapter that carries data: name one as "
                                              "device=, such as " +
                                              fit.front() + " (here are: " + list(fit) + ")");
    }
    if (!has(fit, adapter)) {
        return report.fail(Code::unsupported, "provider " + options.provider +
                                                  ": this machine has no RDMA adapter " + adapter +
                                                  ": name one of " + list(fit) + " as device=");
    }
    if (colon != std::string::npos && options.device.substr(colon) != ":1") {
        return report.fail(Code::unsupported, "provider " + options.provider +
                                                  " takes port 1 of an adapter: name " + adapter +
                                                  " as device=");
    }
    return adapter;
}

Result<std::string> interface_of(const Options& options, const std::vector<std::string>& interfaces,
                                 Report& report) {
    if (options.device.empty()) {
        return report.fail(Code::invalid, "provider " + options.provider +
                                              " needs the network interface that carries data: "
                                              "name one as device= (here are: " +
                                              list(interfaces) + ")");
    }
    if (!has(interfaces, options.device)) {
        return report.fail(Code::unsupported, "provider " + options.provider +
                                                  ": this machine has no network interface " +
                                                  options.device + ": name one of " +
                                                  list(interfaces) + " as device=");
    }
    return options.device;
}

}  // namespace

Result<std::vector<std::string>> fitting(const std::string& provider, const Machine& machine,
                                         Report& report) {
    if (provider != tcp && provider != verbs_rxm && provider != verbs) {
        return report.fail(Code::invalid, "'" + provider +
                                              "' is not a provider of libfabric: choose "
                                              "ofi+tcp;ofi_rxm, ofi+verbs;ofi_rxm or ofi+verbs");
    }
    const auto& fit = provider == tcp ? machine.interfaces : machine.adapters;
    if (!fit.empty()) return fit;
    if (provider == tcp) {
        return report.fail(Code::unsupported, "provider " + provider +
                                                  " needs a network interface and this machine "
                                                  "shows none: `ip link` lists them");
    }
    return report.fail(Code::unsupported,
                       "provider " + provider +
                           " needs an RDMA adapter and this machine has none: choose provider "
                           "ofi+tcp;ofi_rxm, or install the adapter's driver");
}

Result<Choice> select(const Options& options, const Machine& machine, Report& report) {
    ROS2S_TRY_ASSIGN(const std::vector<std::string> fit,
                     fitting(options.provider, machine, report));
    ROS2S_TRY_ASSIGN(std::string domain, options.provider == tcp
                                             ? interface_of(options, fit, report)
                                             : adapter_of(options, fit, report));
    Choice choice{.provider = options.provider.substr(std::string_view("ofi+").size()),
                  .domain = std::move(domain),
                  .connections = options.provider == verbs,
                  .peers_max = options.provider == tcp ? peers_over_tcp_max : peers_over_verbs_max};
    if (options.provider == verbs_rxm) choice.message_bytes_max = buffer_bytes;
    return choice;
}

}  // namespace ros2s::fabric::ofi
