#include "selection.h"

#include <string_view>

namespace ros2s::fabric::ucx {

using lanes::has;
using lanes::list;

namespace {

// Settings of every provider.
Settings common(const Options& options, std::string transport) {
    return {
        {"TLS", std::move(transport)},
        {"NET_DEVICES", options.device},
        // A frame is one message that is sent at once. There is no rendezvous, in which the
        // receiver would read or write at any address that the sender names. One lane keeps the
        // frames in order.
        {"RNDV_THRESH", "inf"},
        {"MAX_EAGER_RAILS", "1"},
        // Our memory is registered for a send only, so no registration needs caching. This also
        // keeps UCX from patching the process's mmap().
        {"RCACHE_ENABLE", "n"},
        // The set-up socket shows the peer's death, and costs no wake-ups.
        {"KEEPALIVE_INTERVAL", "inf"},
        {"PROTO_ENABLE", "n"},
    };
}

Result<Settings> select_tcp(const Options& options, const std::vector<std::string>& interfaces,
                            Report& report) {
    if (options.device.empty()) {
        return report.fail(Code::invalid,
                           "provider ucx+tcp needs the network interface that carries data: name "
                           "one as device= (here are: " +
                               list(interfaces) + ")");
    }
    if (!has(interfaces, options.device)) {
        return report.fail(Code::unsupported,
                           "provider ucx+tcp: this machine has no network interface " +
                               options.device + ": name one of " + list(interfaces) +
                               " as device=");
    }
    Settings settings = common(options, "tcp");
    // A whole frame in a segment: one system call in each direction.
    settings.emplace_back("TX_SEG_SIZE", "64k");
    settings.emplace_back("RX_SEG_SIZE", "64k");
    // connect() must not block the core.
    settings.emplace_back("CONN_NB", "y");
    return settings;
}

Result<Settings> select_verbs(const Options& options, const std::vector<std::string>& fit,
                              Report& report) {
    const std::string& provider = options.provider;
    const std::string adapter = options.device.substr(0, options.device.find(':'));
    if (adapter.empty()) {
        return report.fail(Code::invalid, "provider " + provider +
                                              " needs the adapter and port that carry data: name "
                                              "one as device=, such as " +
                                              fit.front() + ":1 (here are: " + list(fit) + ")");
    }
    if (!has(fit, adapter)) {
        return report.fail(Code::unsupported,
                           "provider " + provider + ": this machine has no fitting adapter " +
                               adapter + ": name one of " + list(fit) +
                               " as device=, with its port (" + fit.front() + ":1)");
    }
    return common(options, provider.substr(std::string_view("ucx+").size()));
}

}  // namespace

Result<std::vector<std::string>> fitting(const std::string& provider, const Machine& machine,
                                         Report& report) {
    const bool dynamic = provider == "ucx+dc_x";
    if (provider != "ucx+tcp" && provider != "ucx+rc" && !dynamic) {
        return report.fail(
            Code::invalid,
            "'" + provider + "' is not a provider of UCX: choose ucx+tcp, ucx+rc or ucx+dc_x");
    }
    const std::vector<std::string>& fit = provider == "ucx+tcp" ? machine.interfaces
                                          : dynamic             ? machine.connectx
                                                                : machine.adapters;
    if (!fit.empty()) return fit;
    if (provider == "ucx+tcp") {
        return report.fail(Code::unsupported,
                           "provider ucx+tcp needs a network interface and this machine shows "
                           "none: `ip link` lists them");
    }
    return report.fail(Code::unsupported,
                       "provider " + provider + " needs " +
                           (dynamic ? "a ConnectX adapter (mlx5)" : "an RDMA adapter") +
                           " and this machine has none: choose provider ucx+tcp, or install "
                           "the adapter's driver (RDMA adapters here: " +
                           list(machine.adapters) + ")");
}

Result<Settings> select(const Options& options, const Machine& machine, Report& report) {
    ROS2S_TRY_ASSIGN(const std::vector<std::string> fit,
                     fitting(options.provider, machine, report));
    return options.provider == "ucx+tcp" ? select_tcp(options, fit, report)
                                         : select_verbs(options, fit, report);
}

}  // namespace ros2s::fabric::ucx
