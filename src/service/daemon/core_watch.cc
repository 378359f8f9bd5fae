#include "core_watch.h"

#include <string>
#include <utility>

#include "daemon.h"
#include "ros2s/runtime/rest.h"

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

exporter::Source reactor_source(const OsReactor& reactor, uint32_t number) {
    return {.labels = {{"reactor", std::to_string(number)}},
            .list = [&counters = reactor.counters()](const MetricVisitor& visit) {
                visit("ros2store_reactor_steps_total", "Coroutines that were resumed.",
                      counters.resumed.value());
                visit("ros2store_reactor_arrivals_total", "Coroutines that another thread resumed.",
                      counters.remote_posts.value());
                visit("ros2store_reactor_sleeps_total", "Times that it slept for lack of work.",
                      counters.sleeps.value());
                visit("ros2store_reactor_polls_contended_total",
                      "Yields while polling after which another process used a whole time slice.",
                      counters.polls_contended.value());
            }};
}

IdleMemory::IdleMemory(Reactor& reactor, BlockingPool& blocking, CoreWatch cores, Daemon& daemon)
    : reactor_(reactor),
      blocking_(blocking),
      cores_(std::move(cores)),
      daemon_(daemon),
      watching_(reactor, 1) {}

Task<> IdleMemory::begin() { co_await watching_.spawn(watch(*this)); }

Task<> IdleMemory::stop() {
    closing_.request_stop();
    co_await watching_.join();
}

Task<> IdleMemory::watch(IdleMemory& self) {
    RestWatch rest;
    while (co_await sleep_for(self.reactor_, std::chrono::seconds(5), self.closing_.token())) {
        if (!rest.came_to_rest(self.cores_.work())) continue;
        self.daemon_.drop_spare();
        (void)co_await self.blocking_.run(self.reactor_, [] {
            give_free_memory_back();
            return Result<>{};
        });
    }
}

}  // namespace ros2s::daemon
