#include "ros2s/rpc/trace_wire.h"

#include <algorithm>

#include "fields.h"

namespace ros2s::rpc {
namespace {

constexpr int depth_max = 64;

uint64_t nanoseconds(Duration duration) {
    return static_cast<uint64_t>(std::max(duration, Duration{}).count());
}

}  // namespace

ConstBytes encode_trace(const Trace& trace, Time arrived, Time now, Bytes into) {
    const auto body_of = [&](const TraceStep& step) {
        const Time end = step.end == Time{} ? now : step.end;
        return StepBody{.depth = static_cast<uint8_t>(step.depth),
                        .name = step.name,
                        .begin_ns = nanoseconds(step.begin - arrived),
                        .took_ns = nanoseconds(end - step.begin)};
    };
    const uint64_t took_ns = nanoseconds(now - arrived);
    uint32_t count = 0;
    FieldWriter<Measure> measure;
    trace_fields(measure, took_ns, count);
    for (const TraceStep& step : trace.steps()) {
        if (step.name.size() > step_name_bytes_max || step.depth > depth_max) break;
        const StepBody body = body_of(step);
        step_fields(measure, body);
        if (measure.size() > std::min(into.size(), trace_bytes_max)) break;
        ++count;
    }
    FieldWriter<Encoder> out(into);
    trace_fields(out, took_ns, count);
    for (const TraceStep& step : std::span(trace.steps()).first(count)) {
        const StepBody body = body_of(step);
        step_fields(out, body);
    }
    return into.first(out.size());
}

std::string_view StepNames::keep(std::string_view name) {
    if (const auto found = names_.find(name); found != names_.end()) return *found;
    if (names_.size() >= names_max) return "other";
    return *names_.emplace(name).first;
}

Result<> add_steps(Trace& trace, ConstBytes bytes, Time sent, Time answered, StepNames& names) {
    const Duration waited = answered - sent;
    const auto most = static_cast<uint64_t>(waited.count());
    const auto inside = [most](uint64_t ns) { return Duration(std::min(ns, most)); };
    FieldReader in(bytes);
    uint64_t took_ns = 0;
    uint32_t count = 0;
    trace_fields(in, took_ns, count);
    const Time arrived = sent + (waited - inside(took_ns)) / 2;
    for (uint32_t i = 0; i < count && in.ok(); ++i) {
        StepBody step;
        step_fields(in, step);
        if (!in.ok() || step.depth > depth_max) return fail(Code::corrupt);
        const Time begin = arrived + inside(step.begin_ns);
        trace.add_below(names.keep(step.name), step.depth, begin, begin + inside(step.took_ns));
    }
    if (!in.done()) return fail(Code::corrupt);
    return {};
}

}  // namespace ros2s::rpc
