#include "selection.h"

#include <string_view>

namespace ros2s::fabric::ucx {

using lanes::list;

namespace {

constexpr std::string_view tcp = "ucx+tcp";

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

}  // namespace

Result<std::vector<std::string>> fitting(const std::string& provider, const Machine& machine,
                                         Report& report) {
    if (provider == tcp) return lanes::interfaces_for(provider, machine, report);
    const bool dynamic = provider == "ucx+dc_x";
    if (provider != "ucx+rc" && !dynamic) {
        return report.fail(Code::invalid,
                           "'{}' is not a provider of UCX: choose ucx+tcp, ucx+rc or ucx+dc_x",
                           provider);
    }
    const std::vector<std::string>& fit = dynamic ? machine.connectx : machine.adapters;
    if (!fit.empty()) return fit;
    return report.fail(Code::unsupported,
                       "provider {} needs {} and this machine has none: choose provider ucx+tcp, "
                       "or install the adapter's driver (RDMA adapters here: {})",
                       provider, dynamic ? "a ConnectX adapter (mlx5)" : "an RDMA adapter",
                       list(machine.adapters));
}

Result<Settings> select(const Options& options, const Machine& machine, Report& report) {
    const std::string& provider = options.provider;
    ROS2S_TRY_ASSIGN(const std::vector<std::string> fit, fitting(provider, machine, report));
    Settings settings = common(options, provider.substr(std::string_view("ucx+").size()));
    if (provider != tcp) {
        ROS2S_TRY(lanes::adapter_of(provider, options.device, fit, ":1", report));
        return settings;
    }
    ROS2S_TRY(lanes::check_interface(provider, options.device, fit, report));
    // A whole frame in a segment: one system call in each direction.
    settings.emplace_back("TX_SEG_SIZE", "64k");
    settings.emplace_back("RX_SEG_SIZE", "64k");
    // connect() must not block the core.
    settings.emplace_back("CONN_NB", "y");
    return settings;
}

}  // namespace ros2s::fabric::ucx
