#include "ros2s/api/file_trace.h"

#include <fmt/format.h>

#include "ros2s/base/bytes.h"
#include "ros2s/runtime/trace_events.h"

namespace ros2s::api {
namespace {

RequestTrace told(const Trace& trace, uint64_t bytes, Duration whole) {
    RequestTrace request{.bytes = bytes, .whole = whole, .steps = {}};
    for (const TraceStep& step : trace.steps()) {
        request.steps.push_back({std::string(step.name), step.depth,
                                 step.begin - trace.steps().front().begin, step.end - step.begin});
    }
    return request;
}

}  // namespace

Task<Result<FileTrace>> trace_file(Call call, Reactor& reactor, fs::FileSystem& file_system,
                                   fs::FileHandle handle, uint64_t offset, TraceKinds kinds) {
    const AlignedBuffer buffer(block_bytes);
    const fs::Window window = fs::Window::local(buffer.bytes());
    FileTrace found;
    ROS2S_CO_TRY(co_await file_system.pread(call, handle, window, offset));
    Trace read;
    call.trace = &read;
    Time begin = reactor.now();
    ROS2S_CO_TRY_ASSIGN(const uint64_t bytes,
                        co_await file_system.pread(call, handle, window, offset));
    found.read = told(read, bytes, reactor.now() - begin);
    if (kinds == TraceKinds::read_and_write && bytes > 0) {
        Trace write;
        call.trace = &write;
        begin = reactor.now();
        ROS2S_CO_TRY_ASSIGN(
            const uint64_t written,
            co_await file_system.pwrite(call, handle, window.slice(0, bytes), offset));
        found.write = told(write, written, reactor.now() - begin);
    }
    ROS2S_CO_TRY_ASSIGN(found.io, file_system.path_report(handle));
    co_return found;
}

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
