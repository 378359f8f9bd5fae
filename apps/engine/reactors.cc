#include "reactors.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>

namespace ros2s::engined {

uint32_t usable_cpus() {
    cpu_set_t set;
    // It fails on machines with more CPUs than the set can hold.
    if (::sched_getaffinity(0, sizeof set, &set) == 0)
        return static_cast<uint32_t>(CPU_COUNT(&set));
    return static_cast<uint32_t>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
}

Result<> Reactors::start(uint32_t more, Duration poll, Report& report) {
    for (uint32_t number = 1; number <= more; ++number) {
        ROS2S_TRY_ASSIGN(
            auto reactor,
            OsReactor::create(
                {.poll_for = poll, .thread_name = fmt::format("ros2store-{}", number)}, report));
        ROS2S_TRY(reactor->start(report));
        pointers_.push_back(reactor.get());
        reactors_.push_back(std::move(reactor));
    }
    return {};
}

std::vector<OsReactor*> Reactors::all() const {
    std::vector<OsReactor*> all;
    for (const auto& reactor : reactors_) all.push_back(reactor.get());
    return all;
}

}  // namespace ros2s::engined
