#include "key_calls.h"

#include <fmt/format.h>

namespace ros2s::cipher {

Result<std::unique_ptr<KeyCalls>> KeyCalls::open(const Environment& environment,
                                                 const std::string& place, Report& report) {
    ROS2S_TRY_ASSIGN(std::shared_ptr<const KeyProvider> provider, open_keys(place, report));
    return std::make_unique<KeyCalls>(environment.reactor, environment.blocking,
                                      std::move(provider), place);
}

std::unexpected<Error> KeyCalls::refuse(const Error& error, std::string sentence,
                                        Report& report) const {
    if (!hides_place_) return report.fail(error, std::move(sentence));
    if (error.code != Code::cancelled) report.note(sentence);
    return report.fail(error, "ask the administrator of the DPU, whose log has the reason");
}

std::string KeyCalls::unanswered(const Error& error) const {
    if (error.code != Code::deadline) {
        return fmt::format("the keys at {} were not waited for: {}", place_, describe(error));
    }
    return fmt::format(
        "the keys at {} did not answer in time: check that the token or the file server is "
        "reachable, and try again",
        place_);
}

}  // namespace ros2s::cipher
