#include "providers.h"

#include <fmt/format.h>

#include "ros2s/fabric/shm/shm.h"
#include "ros2s/fabric/ucx/ucx.h"

namespace ros2s::fabric {

std::string_view provider_names() { return "shm, ucx+tcp, ucx+rc and ucx+dc_x"; }

bool is_provider(std::string_view name) {
    return name == "shm" || name == "ucx+tcp" || name == "ucx+rc" || name == "ucx+dc_x";
}

Result<std::unique_ptr<Domain>> open_domain(Reactor& reactor, const std::string& provider,
                                            const std::string& ucx_device, Report& report) {
    if (provider == "shm") return shm::open_domain(reactor);
    if (is_provider(provider)) {
        return ucx::open_domain(reactor, {.provider = provider, .device = ucx_device}, report);
    }
    return report.fail(Code::unsupported, fmt::format("there is no provider '{}': there are {}",
                                                      provider, provider_names()));
}

Result<UcxLibrary> ucx_library(Report& report) {
    ROS2S_TRY_ASSIGN(const ucx::Library found, ucx::library(report));
    return UcxLibrary{found.path, found.version};
}

}  // namespace ros2s::fabric
