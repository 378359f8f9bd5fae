#include "ros2s/daemon/reactor_source.h"

#include <string>

namespace ros2s::daemon {

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

}  // namespace ros2s::daemon
