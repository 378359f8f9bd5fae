#include "ros2s/api/trace_file.h"

#include <fmt/format.h>

#include "ros2s/runtime/trace_events.h"

namespace ros2s::api {
namespace {

void add(TraceEvents& events, const RequestTrace& request, std::string_view title, Duration from) {
    events.begin_request(title);
    for (const auto& step : request.steps) {
        events.add(step.name, step.depth, from + step.begin, step.takes);
    }
}

}  // namespace

std::string to_trace_file(const FileTrace& trace) {
    TraceEvents events("host");
    add(events, trace.read, fmt::format("read of {} bytes", trace.read.bytes), {});
    if (trace.write) {
        add(events, *trace.write, fmt::format("durable write of {} bytes", trace.write->bytes),
            trace.read.whole + std::chrono::microseconds(10));
    }
    return events.text();
}

}  // namespace ros2s::api
