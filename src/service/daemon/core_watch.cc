#include "core_watch.h"

#include <utility>

namespace ros2s::daemon {

CoreWatch::CoreWatch(std::vector<OsReactor*> reactors) {
    for (OsReactor* reactor : reactors) cores_.push_back({.reactor = reactor, .seen = {}});
}

std::optional<size_t> CoreWatch::stuck() {
    std::optional<size_t> found;
    for (Core& core : cores_) {
        const OsReactorCounters& counters = core.reactor->counters();
        const uint64_t now = counters.resumed.value() + counters.sleeps.value();
        if (std::exchange(core.seen, now) == now && !found) {
            found = static_cast<size_t>(&core - cores_.data());
        }
        // A core that sleeps does one turn and sleeps again.
        core.reactor->wake();
    }
    return found;
}

uint64_t CoreWatch::work() const {
    uint64_t sum = 0;
    for (const Core& core : cores_) sum += core.reactor->counters().resumed.value();
    return sum;
}

}  // namespace ros2s::daemon
