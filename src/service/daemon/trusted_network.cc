#include "trusted_network.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>

#include <algorithm>

#include "ros2s/base/text_parts.h"
#include "ros2s/fabric/providers/providers.h"

namespace ros2s::daemon {
namespace {

constexpr std::string_view no = "no", yes = "yes", loopback = "loopback";

std::string described(const Listen& place) {
    return place.address.empty() ? place.provider : place.provider + " " + place.address;
}

// For a provider over tcp, whose library listens at the device's address.
bool is_on_loopback(const Listen& place, std::string_view devices) {
    if (!place.address.empty() && is_loopback_or_any(place.address)) return true;
    const std::vector<std::string> names = parts_of(devices);
    return fabric::uses_interface(place.provider) && std::ranges::find(names, "lo") != names.end();
}

}  // namespace

config::Field describe_trusted_network(std::string& value) {
    return config::choice(
        "trusted_network", value, {no, yes, loopback},
        "Whether the networks of UCX and libfabric are trusted. These libraries listen on "
        "ports of their own without tickets. Over tcp, a peer that sends their wire format "
        "itself can write anywhere in this process. no: they are not used, only shm, tls "
        "and ofi+verbs. yes: they are used, on a separate network; all its machines, and all users "
        "of this machine, are trusted. loopback: also on 127.0.0.1, which every user of this "
        "machine can reach; for trials.");
}

Result<> check_trust(std::string_view trusted_network, const std::vector<Listen>& places,
                     std::string_view devices, std::string_view where, Report& report) {
    for (const Listen& place : places) {
        if (!fabric::trusts_its_network(place.provider) || trusted_network == loopback) continue;
        if (trusted_network != yes) {
            return report.fail(
                Code::invalid,
                "{} has {}. Any peer that reaches the port of its library can write into this "
                "process without a ticket. Use {}; or, if all machines of that network and all "
                "users of this machine are trusted, set 'trusted_network: yes'",
                where, described(place), fabric::untrusting_provider_names());
        }
        if (is_on_loopback(place, devices)) {
            return report.fail(Code::invalid,
                               "{} has {} (device {}), which every user of this machine can reach. "
                               "'trusted_network: yes' is for a separate network: give an address "
                               "and a device of it, or, if every user of this machine may write "
                               "into this process, set 'trusted_network: loopback'",
                               where, described(place), devices);
        }
    }
    return {};
}

std::vector<std::string> trust_warnings(const std::vector<Listen>& places) {
    std::vector<std::string> lines;
    for (const Listen& place : places) {
        if (!fabric::trusts_its_network(place.provider)) continue;
        lines.push_back(
            fmt::format("{} trusts its network: any peer that reaches the port of its library, "
                        "also any user of this machine, can write into this process without a "
                        "ticket (trusted_network in the settings)",
                        described(place)));
    }
    return lines;
}

bool is_loopback_or_any(std::string_view address) {
    std::string host(address.substr(0, address.rfind(':')));
    if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
        host = host.substr(1, host.size() - 2);
    }
    in_addr v4{};
    if (inet_pton(AF_INET, host.c_str(), &v4) == 1) {
        const uint32_t first = ntohl(v4.s_addr) >> 24;
        return first == 127 || first == 0;
    }
    in6_addr v6{};
    if (inet_pton(AF_INET6, host.c_str(), &v6) != 1) return false;
    if (IN6_IS_ADDR_LOOPBACK(&v6) || IN6_IS_ADDR_UNSPECIFIED(&v6)) return true;
    return IN6_IS_ADDR_V4MAPPED(&v6) && (v6.s6_addr[12] == 127 || v6.s6_addr[12] == 0);
}

}  // namespace ros2s::daemon
