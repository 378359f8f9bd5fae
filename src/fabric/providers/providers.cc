#include "providers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "ros2s/fabric/shm/shm.h"
#include "ros2s/fabric/ucx/ucx.h"

namespace ros2s::fabric {

namespace {

constexpr std::array<const char*, 4> names{"shm", "ucx+tcp", "ucx+rc", "ucx+dc_x"};

}  // namespace

std::string_view provider_names() { return "shm, ucx+tcp, ucx+rc and ucx+dc_x"; }

bool is_provider(std::string_view name) { return std::ranges::find(names, name) != names.end(); }

Result<std::unique_ptr<Domain>> open_domain(Reactor& reactor, const std::string& provider,
                                            const std::string& ucx_device, Report& report) {
    if (provider == "shm") return shm::open_domain(reactor);
    if (is_provider(provider)) {
        return ucx::open_domain(reactor, {.provider = provider, .device = ucx_device}, report);
    }
    return report.fail(Code::unsupported, fmt::format("there is no provider '{}': there are {}",
                                                      provider, provider_names()));
}

std::vector<Availability> look_at_providers() {
    std::vector<Availability> all;
    for (const char* name : names) {
        Availability& one = all.emplace_back(Availability{.provider = name});
        if (one.provider == "shm") {
            one.here = true;
            continue;
        }
        Report report;
        if (ucx::library(report)) {
            if (auto devices = ucx::devices(name, report)) one.devices = std::move(*devices);
        }
        one.here = report.empty();
        one.why_not = report.text();
    }
    return all;
}

Result<UcxLibrary> ucx_library(Report& report) {
    ROS2S_TRY_ASSIGN(const ucx::Library found, ucx::library(report));
    return UcxLibrary{found.path, found.version};
}

}  // namespace ros2s::fabric
