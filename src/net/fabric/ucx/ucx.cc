#include "ucx.h"

#include "ros2s/fabric/lanes/plain_environment.h"
#include "selection.h"
#include "ucx_lane.h"

namespace ros2s::fabric::ucx {

Result<const LoadedLibrary*> library(Report& report) { return ucx_library(report); }

Result<std::vector<std::string>> devices(const std::string& provider, Report& report) {
    return fitting(provider, look_at_machine(), report);
}

Result<std::unique_ptr<Domain>> open_domain(Reactor& reactor, Options options, Report& report) {
    ROS2S_CHECK(reactor.ring() != nullptr);
    ROS2S_TRY(lanes::ForkedUse::check(options.provider, report));
    ROS2S_TRY_ASSIGN(const Settings settings, select(options, look_at_machine(), report));
    ROS2S_TRY_ASSIGN(Context context, Context::open(options, settings, report));
    return lanes::make_domain(
        reactor, std::move(options), [&](Counters& counters) -> std::unique_ptr<lanes::Worker> {
            return std::make_unique<UcxWorker>(reactor, counters, std::move(context));
        });
}

}  // namespace ros2s::fabric::ucx
