#include "ros2s/rpc/sampled_traces.h"

#include <fmt/format.h>

#include <ranges>

#include "ros2s/runtime/trace_events.h"

namespace ros2s::rpc {

void SampledTraces::add(std::string_view method, std::string_view tenant, const Trace& trace) {
    Sample sample{.method = method, .tenant = std::string(tenant), .steps = {}};
    for (const TraceStep& step : trace.steps() | std::views::take(steps_max)) {
        sample.steps.push_back({.name = std::string(step.name),
                                .depth = step.depth,
                                .begin = step.begin,
                                .end = step.end});
    }
    if (samples_.size() < kept_max) {
        samples_.push_back(std::move(sample));
        return;
    }
    samples_[oldest_] = std::move(sample);
    oldest_ = (oldest_ + 1) % kept_max;
}

std::string SampledTraces::document(std::string_view home) const {
    TraceEvents events(home);
    for (size_t i = 0; i < samples_.size(); ++i) {
        const Sample& sample = samples_[(oldest_ + i) % samples_.size()];
        events.begin_request(fmt::format("{} of {}", sample.method, sample.tenant));
        for (const Step& step : sample.steps) {
            events.add(step.name, step.depth, step.begin.time_since_epoch(), step.end - step.begin);
        }
    }
    return events.text();
}

}  // namespace ros2s::rpc
