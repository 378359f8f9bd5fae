#include "ros2s/rpc/trace_wire.h"

#include <algorithm>

#include "ros2s/base/codec.h"

namespace ros2s::rpc {
namespace {

constexpr size_t name_bytes_max = 64;
constexpr size_t head_bytes = sizeof(uint64_t) + sizeof(uint32_t);
constexpr int depth_max = 64;

constexpr size_t bytes_of(const TraceStep& step) {
    return sizeof(uint8_t) + sizeof(uint32_t) + step.name.size() + 2 * sizeof(uint64_t);
}

uint64_t nanoseconds(Duration duration) {
    return static_cast<uint64_t>(std::max(duration, Duration{}).count());
}

}  // namespace

ConstBytes encode_trace(const Trace& trace, Time arrived, Time now, Bytes into) {
    size_t size = head_bytes;
    uint32_t count = 0;
    for (const TraceStep& step : trace.steps()) {
        if (step.name.size() > name_bytes_max || step.depth > depth_max ||
            size + bytes_of(step) > std::min(into.size(), trace_bytes_max)) {
            break;
        }
        size += bytes_of(step);
        ++count;
    }
    Encoder encoder(into);
    encoder.number(nanoseconds(now - arrived));
    encoder.number(count);
    for (const TraceStep& step : std::span(trace.steps()).first(count)) {
        const Time end = step.end == Time{} ? now : step.end;
        encoder.number(static_cast<uint8_t>(step.depth));
        encoder.text(step.name);
        encoder.number(nanoseconds(step.begin - arrived));
        encoder.number(nanoseconds(end - step.begin));
    }
    return into.first(size);
}

std::string_view StepNames::keep(std::string_view name) {
    if (const auto found = names_.find(name); found != names_.end()) return *found;
    if (names_.size() >= names_max) return "other";
    return *names_.emplace(name).first;
}

Result<> add_steps(Trace& trace, ConstBytes bytes, Time sent, Time answered, StepNames& names) {
    Decoder decoder(bytes);
    const Duration waited = answered - sent;
    const auto most = static_cast<uint64_t>(waited.count());
    const auto inside = [most](uint64_t ns) { return Duration(std::min(ns, most)); };
    const Duration took = inside(decoder.number<uint64_t>());
    const Time arrived = sent + (waited - took) / 2;
    const auto count = decoder.number<uint32_t>();
    for (uint32_t i = 0; i < count && decoder.ok(); ++i) {
        const int depth = decoder.number<uint8_t>();
        const std::string_view name = decoder.text(name_bytes_max);
        const Time begin = arrived + inside(decoder.number<uint64_t>());
        const Duration takes = inside(decoder.number<uint64_t>());
        if (!decoder.ok() || depth > depth_max) return fail(Code::corrupt);
        trace.add_below(names.keep(name), depth, begin, begin + takes);
    }
    if (!decoder.done()) return fail(Code::corrupt);
    return {};
}

}  // namespace ros2s::rpc
