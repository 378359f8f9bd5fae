#include "providers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <ranges>

#include "ros2s/base/text_parts.h"
#include "ros2s/fabric/ofi/ofi.h"
#include "ros2s/fabric/shm/shm.h"
#include "ros2s/fabric/ucx/ucx.h"

namespace ros2s::fabric {

namespace {

using Opened = Result<std::unique_ptr<Domain>>;

Opened open_shm(Reactor& reactor, const std::string& /*provider*/, const std::string& /*device*/,
                DomainOptions& options, Report& /*report*/) {
    return shm::open_domain(reactor, {.together = options.together});
}

Opened open_tls(Reactor& reactor, const std::string& /*provider*/, const std::string& /*device*/,
                DomainOptions& options, Report& report) {
    return tls::open_domain(reactor, std::move(options.tls), report);
}

Opened open_ucx(Reactor& reactor, const std::string& provider, const std::string& device,
                DomainOptions& /*options*/, Report& report) {
    return ucx::open_domain(reactor, {.provider = provider, .device = device}, report);
}

Opened open_ofi(Reactor& reactor, const std::string& provider, const std::string& device,
                DomainOptions& /*options*/, Report& report) {
    return ofi::open_domain(reactor, {.provider = provider, .device = device}, report);
}

using Devices = Result<std::vector<std::string>>;

Devices devices_of_ucx(const std::string& provider, Report& report) {
    ROS2S_TRY(ucx::library(report));
    return ucx::devices(provider, report);
}

Devices devices_of_ofi(const std::string& provider, Report& report) {
    ROS2S_TRY(ofi::library(report));
    return ofi::devices(provider, report);
}

// The carrier of a provider's bytes. Interfaces and adapters are chosen; `any_network` needs no
// choice.
enum class Carrier : uint8_t { memory, any_network, interface, adapter };

struct Provider {
    const char* name;
    Carrier carrier;
    bool trusts_its_network;
    Opened (*open)(Reactor&, const std::string& provider, const std::string& device, DomainOptions&,
                   Report&);
    Devices (*devices)(const std::string& provider, Report&);  // null: it needs none
    const char* reach = "";                                    // of one without devices
};

// The facts about a provider.
constexpr std::array providers{
    Provider{"shm", Carrier::memory, false, open_shm, nullptr, "between processes of this machine"},
    Provider{"tls", Carrier::any_network, false, open_tls, nullptr,
             "over any network, between certificates of one authority"},
    Provider{"ucx+tcp", Carrier::interface, true, open_ucx, devices_of_ucx},
    Provider{"ucx+rc", Carrier::adapter, true, open_ucx, devices_of_ucx},
    Provider{"ucx+dc_x", Carrier::adapter, true, open_ucx, devices_of_ucx},
    Provider{"ofi+tcp;ofi_rxm", Carrier::interface, true, open_ofi, devices_of_ofi},
    Provider{"ofi+verbs;ofi_rxm", Carrier::adapter, true, open_ofi, devices_of_ofi},
    Provider{"ofi+verbs", Carrier::adapter, false, open_ofi, devices_of_ofi},
};

// Null: there is no such provider.
const Provider* find(std::string_view name) {
    const auto found = std::ranges::find(providers, name, &Provider::name);
    return found == providers.end() ? nullptr : &*found;
}

// "shm, tls or ofi+verbs".
std::string listed(auto&& some, std::string_view last_word) {
    std::string text;
    for (auto each = some.begin(); each != some.end(); ++each) {
        if (each != some.begin()) {
            text += std::next(each) == some.end() ? fmt::format(" {} ", last_word) : ", ";
        }
        text += each->name;
    }
    return text;
}

NetworkLibrary described(std::string name, std::string package,
                         const Result<const LoadedLibrary*>& found, const Report& report) {
    NetworkLibrary library{.name = std::move(name), .package = std::move(package)};
    if (found) {
        library.path = (*found)->path;
        library.version = (*found)->version;
    } else {
        library.why_not = report.text();
    }
    return library;
}

}  // namespace

std::string provider_names() { return listed(providers, "and"); }

std::string untrusting_provider_names() {
    return listed(std::views::filter(providers, std::not_fn(&Provider::trusts_its_network)), "or");
}

bool is_provider(std::string_view name) { return find(name) != nullptr; }

bool is_local(std::string_view provider) {
    const Provider* const found = find(provider);
    return found != nullptr && found->carrier == Carrier::memory;
}

bool needs_device(std::string_view provider) {
    const Provider* const found = find(provider);
    return found != nullptr && found->devices != nullptr;
}

bool uses_interface(std::string_view provider) {
    const Provider* const found = find(provider);
    return found != nullptr && found->carrier == Carrier::interface;
}

bool trusts_its_network(std::string_view provider) {
    const Provider* const found = find(provider);
    return found == nullptr || found->trusts_its_network;
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
    const Provider* const found = find(provider);
    if (found == nullptr) {
        return report.fail(Code::unsupported, "there is no provider '{}': choose one of {}",
                           provider, provider_names());
    }
    std::string device = devices;
    if (found->devices != nullptr && devices.contains(',')) {
        ROS2S_TRY_ASSIGN(const auto fit, found->devices(provider, report));
        ROS2S_TRY_ASSIGN(device, choose_device(provider, devices, fit, report));
    }
    return found->open(reactor, provider, device, options, report);
}

std::vector<Availability> look_at_providers() {
    std::vector<Availability> all;
    for (const Provider& each : providers) {
        Availability& one =
            all.emplace_back(Availability{.provider = each.name, .reach = each.reach});
        Report report;
        if (each.devices != nullptr) {
            if (auto devices = each.devices(one.provider, report))
                one.devices = std::move(*devices);
        }
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
