#include "providers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "ros2s/base/text_parts.h"
#include "ros2s/fabric/ofi/ofi.h"
#include "ros2s/fabric/shm/shm.h"
#include "ros2s/fabric/ucx/ucx.h"

namespace ros2s::fabric {

namespace {

constexpr std::array<const char*, 8> names{
    "shm",      "tls", "ucx+tcp", "ucx+rc", "ucx+dc_x", "ofi+tcp;ofi_rxm", "ofi+verbs;ofi_rxm",
    "ofi+verbs"};

bool is_of_ofi(std::string_view provider) { return provider.starts_with("ofi+"); }

template <class Library>
NetworkLibrary described(std::string name, std::string package, const Result<Library>& found,
                         const Report& report) {
    NetworkLibrary library{.name = std::move(name), .package = std::move(package)};
    if (found) {
        library.path = found->path;
        library.version = found->version;
    } else {
        library.why_not = report.text();
    }
    return library;
}

Result<std::vector<std::string>> devices_of(const std::string& provider, Report& report) {
    if (is_of_ofi(provider)) {
        ROS2S_TRY(ofi::library(report));
        return ofi::devices(provider, report);
    }
    ROS2S_TRY(ucx::library(report));
    return ucx::devices(provider, report);
}

}  // namespace

std::string_view provider_names() {
    return "shm, tls, ucx+tcp, ucx+rc, ucx+dc_x, ofi+tcp;ofi_rxm, ofi+verbs;ofi_rxm and ofi+verbs";
}

bool is_provider(std::string_view name) { return std::ranges::find(names, name) != names.end(); }

bool trusts_its_network(std::string_view provider) {
    return provider != "shm" && provider != "tls" && provider != "ofi+verbs";
}

Result<std::string> choose_device(const std::string& provider, std::string_view devices,
                                  const std::vector<std::string>& fit, Report& report) {
    for (const std::string& name : parts_of(devices)) {
        const std::string adapter = name.substr(0, name.find(':'));
        if (std::ranges::find(fit, adapter) != fit.end()) return name;
    }
    return report.fail(
        Code::unsupported,
        "provider {}: none of the devices {} suits it: set the device (`ucx_device`) to one of {}",
        provider, devices, fmt::join(fit, ", "));
}

Result<std::unique_ptr<Domain>> open_domain(Reactor& reactor, const std::string& provider,
                                            const std::string& devices, Report& report,
                                            DomainOptions options) {
    if (provider == "shm") return shm::open_domain(reactor, {.together = options.together});
    if (provider == "tls") return tls::open_domain(reactor, std::move(options.tls), report);
    if (!is_provider(provider)) {
        return report.fail(Code::unsupported, "there is no provider '{}': choose one of {}",
                           provider, provider_names());
    }
    std::string device = devices;
    if (devices.contains(',')) {
        ROS2S_TRY_ASSIGN(const auto fit, devices_of(provider, report));
        ROS2S_TRY_ASSIGN(device, choose_device(provider, devices, fit, report));
    }
    if (is_of_ofi(provider)) {
        return ofi::open_domain(reactor, {.provider = provider, .device = device}, report);
    }
    return ucx::open_domain(reactor, {.provider = provider, .device = device}, report);
}

std::vector<Availability> look_at_providers() {
    std::vector<Availability> all;
    for (const char* name : names) {
        Availability& one = all.emplace_back(Availability{.provider = name});
        if (one.provider == "shm" || one.provider == "tls") {
            one.here = true;
            one.reach = one.provider == "shm" ? "between processes of this machine"
                                              : "over any network, between certificates of one "
                                                "authority";
            continue;
        }
        Report report;
        if (auto devices = devices_of(one.provider, report)) one.devices = std::move(*devices);
        one.here = report.empty();
        one.why_not = report.text();
    }
    return all;
}

std::vector<NetworkLibrary> network_libraries() {
    Report ucx_report;
    Report ofi_report;
    const auto ucx = ucx::library(ucx_report);
    const auto ofi = ofi::library(ofi_report);
    return {described("UCX", "libucx0", ucx, ucx_report),
            described("libfabric", "libfabric1", ofi, ofi_report)};
}

}  // namespace ros2s::fabric
