#include "ofi.h"

#include "message_worker.h"
#include "ofi_worker.h"
#include "ros2s/fabric/lanes/plain_environment.h"
#include "selection.h"

namespace ros2s::fabric::ofi {

Result<const LoadedLibrary*> library(Report& report) { return ofi_library(report); }

Result<std::vector<std::string>> devices(const std::string& provider, Report& report) {
    return fitting(provider, look_at_machine(), report);
}

Result<std::unique_ptr<Domain>> open_domain(Reactor& reactor, Options options, Report& report) {
    ROS2S_CHECK(reactor.ring() != nullptr);
    ROS2S_TRY(lanes::ForkedUse::check(options.provider, report));
    ROS2S_TRY_ASSIGN(const Choice choice, select(options, look_at_machine(), report));
    if (choice.connections) {
        ROS2S_TRY_ASSIGN(MessageContext context, MessageContext::open(options, choice, report));
        return lanes::make_domain(reactor, std::move(options), [&](Counters& counters) {
            return std::make_unique<MessageWorker>(reactor, counters, std::move(context));
        });
    }
    ROS2S_TRY_ASSIGN(Context context, Context::open(options, choice, report));
    return lanes::make_domain(
        reactor, std::move(options), [&](Counters& counters) -> std::unique_ptr<lanes::Worker> {
            return std::make_unique<OfiWorker>(reactor, counters, std::move(context));
        });
}

}  // namespace ros2s::fabric::ofi
