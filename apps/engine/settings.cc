#include "settings.h"

#include <fmt/format.h>

#include "ros2s/base/text_parts.h"
#include "ros2s/capability/capability.h"
#include "ros2s/config/config.h"
#include "ros2s/daemon/access.h"
#include "ros2s/daemon/trusted_network.h"

namespace ros2s::engined {
namespace {

using namespace std::chrono_literals;

config::Group describe_service(Settings& s) {
    auto service = daemon::describe_service(s.common);
    service.fields.push_back(config::count(
        "reactors", s.reactors, 1, 64,
        "Threads that serve the targets of each pool; a pool has 16 targets and uses at most 16. "
        "Use more than one only if one is busy all the time: each request that goes to another "
        "thread waits for it to wake up, so few requests in flight are slower with more. More "
        "threads than CPUs are slower than fewer; the log then has a warning."));
    return service;
}

config::Table describe(Settings& s) {
    return {
        {"",
         "ros2store-engine: serves pools to clients on other machines, and on this one.",
         {config::text("pools", s.pools,
                       "The directories of the pools, separated by commas, as made by `ros2store "
                       "pool create`. This process owns them exclusively while it runs.")
              .required(),
          config::text(
              "administrators", s.administrators_given,
              "Subjects of certificates, separated by semicolons, that may create, change and "
              "revoke the tenants of the pools with `ros2store tenant`, and see and end the leases "
              "of all clients with `ros2store leases` and `ros2store evict`. Empty: none.")},
         nullptr,
         {},
         &s.lines},
        daemon::describe_access(
            s.access_given, s.access_lines, daemon::Clients::of_engine,
            "What clients may do, by the subject of their certificate, as printed by `ros2store "
            "certs show FILE`. A client is a DPU, or a program that uses a pool without one. "
            "Everything else is refused, with a line in the log. Each right is for containers: "
            "POOL/CONTAINER, separated by commas; a * at the end matches the rest of a name. A DPU "
            "needs the rights of all its hosts. Read at start."),
        {"control",
         "The control plane: gRPC over mutual TLS 1.3.",
         {config::text("listen", s.control,
                       "Addresses, separated by commas: HOST:PORT, [IPv6]:PORT, or unix:PATH."),
          config::text("certificates", s.certificates,
                       "A directory with ca.crt, server.crt and server.key, as made by `ros2store "
                       "certs init`. Renewed files are used without a restart.")}},
        {"data",
         "The data plane: bytes of trusted clients that the control plane has admitted.",
         {config::text(
              "listen", s.data,
              "Providers and their addresses, separated by commas: shm PATH (this machine), tls "
              "IP:PORT (any network, encrypted, with the certificates of the control plane), "
              "ofi+verbs IP:PORT (RDMA), or, if `trusted_network` allows it, IP:PORT with ucx+tcp, "
              "ofi+tcp;ofi_rxm, ucx+rc, ucx+dc_x or ofi+verbs;ofi_rxm. A client uses the first of "
              "its own providers that is listed here."),
          daemon::describe_trusted_network(s.trusted_network),
          config::text("ucx_device", s.ucx_device,
                       "The network device of the ucx and ofi providers: lo, eth0, or mlx5_0:1. In "
                       "a list with commas, each provider uses the first device that it supports, "
                       "so ucx+tcp and ucx+rc can be used together.")}},
        {"capabilities",
         "What this engine signs for tenants of its pools, so that a DPU can show for which tenant "
         "it sends requests (docs/decisions/0580).",
         {config::text("delegates", s.delegates_given,
                       "Subjects of the certificates of DPUs, separated by semicolons, that may "
                       "show capabilities which tenants have handed to them. Such a DPU needs no "
                       "entry under 'access', and sees all tenants of the pools. Empty: none."),
          config::text("authority", s.capability_authority,
                       "The file with the authority of the certificates of tenants' hosts, as "
                       "their DPU has it. Empty: ca.crt of 'control: certificates'."),
          config::duration("life", s.capability_life, 1s, capability::life_max,
                           "How long a capability is valid. Programs renew it in time.")},
         nullptr,
         {},
         &s.capability_lines},
        daemon::describe_limits(s.limits_given, s.limit_lines),
        daemon::describe_metrics(s.common),
        describe_service(s)};
}

}  // namespace

Result<Settings> Settings::parse(std::string_view yaml, std::string_view where, Report& report) {
    Settings settings;
    ROS2S_TRY(config::parse(yaml, where, describe(settings), report));
    if (settings.pool_directories().empty()) {
        return report.fail(Code::invalid, "{}: 'pools' names no directory", where);
    }
    if (settings.control_addresses().empty()) {
        return report.fail(Code::invalid, "{}: 'control: listen' names no address", where);
    }
    const SettingPlace top(where, "", settings.lines);
    const SettingPlace capabilities(where, "capabilities", settings.capability_lines);
    ROS2S_TRY_ASSIGN(
        settings.administrators,
        rights::parse_subjects(settings.administrators_given, top.of("administrators"), report));
    ROS2S_TRY_ASSIGN(
        settings.delegates,
        rights::parse_subjects(settings.delegates_given, capabilities.of("delegates"), report));
    ROS2S_TRY(settings.data_addresses(where, report));
    ROS2S_TRY_ASSIGN(settings.access,
                     rights::parse_access(settings.access_given, where, report,
                                          rights::GrantScope::containers, settings.access_lines));
    ROS2S_TRY_ASSIGN(
        settings.allowances,
        daemon::parse_limits(settings.limits_given, settings.limit_lines, where, report));
    return settings;
}

std::string Settings::document() const { return config::document(*this, describe); }

std::vector<std::string> Settings::pool_directories() const { return parts_of(pools); }
std::vector<std::string> Settings::control_addresses() const { return parts_of(control); }

Result<std::vector<daemon::Listen>> Settings::data_addresses(std::string_view where,
                                                             Report& report) const {
    const std::string listen = fmt::format("{}: 'data: listen'", where);
    ROS2S_TRY_ASSIGN(auto places, daemon::parse_listen(data, listen, report));
    ROS2S_TRY(daemon::check_trust(trusted_network, places, ucx_device, listen, report));
    return places;
}

}  // namespace ros2s::engined
