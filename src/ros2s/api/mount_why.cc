#include "ros2s/api/mount_why.h"

#include <algorithm>
#include <string_view>

namespace ros2s::api {
namespace {

template <size_t size>
void put(std::array<char, size>& field, std::string_view text) {
    field = {};
    std::ranges::copy(text.substr(0, size), field.begin());
}

template <size_t size>
std::string taken(const std::array<char, size>& field) {
    return {field.begin(), std::ranges::find(field, '\0')};
}

uint64_t nanoseconds(Duration duration) {
    return static_cast<uint64_t>(std::max<Duration::rep>(duration.count(), 0));
}

Duration duration(uint64_t nanoseconds) { return Duration(static_cast<int64_t>(nanoseconds)); }

MountWhyRequest encode(const RequestTrace& request) {
    MountWhyRequest out{.bytes = request.bytes,
                        .whole_ns = nanoseconds(request.whole),
                        .present = 1,
                        .steps = 0,
                        .step = {}};
    for (const RequestTrace::Step& step : request.steps) {
        if (out.steps == MountWhyRequest::steps_max) break;
        MountWhyStep& into = out.step[out.steps++];
        put(into.name, step.name);
        into.depth = static_cast<uint32_t>(step.depth);
        into.begin_ns = nanoseconds(step.begin);
        into.takes_ns = nanoseconds(step.takes);
    }
    return out;
}

RequestTrace decode(const MountWhyRequest& request) {
    RequestTrace out{.bytes = request.bytes, .whole = duration(request.whole_ns), .steps = {}};
    const uint32_t count = std::min(request.steps, MountWhyRequest::steps_max);
    for (uint32_t i = 0; i < count; ++i) {
        const MountWhyStep& step = request.step[i];
        out.steps.push_back({taken(step.name),
                             static_cast<int>(std::min(step.depth, MountWhyRequest::steps_max)),
                             duration(step.begin_ns), duration(step.takes_ns)});
    }
    return out;
}

}  // namespace

MountWhy encode_answer(const MountWhy& question, const FileTrace& trace, Duration handled) {
    MountWhy answer = question;
    answer.handled_ns = nanoseconds(handled);
    answer.staged = trace.io.staged;
    put(answer.io_path, trace.io.path);
    answer.read_request = encode(trace.read);
    answer.write_request = trace.write ? encode(*trace.write) : MountWhyRequest{};
    return answer;
}

FileTrace decode_answer(const MountWhy& answer) {
    FileTrace trace;
    trace.io.path = taken(answer.io_path);
    trace.io.staged = answer.staged;
    trace.read = decode(answer.read_request);
    if (answer.write_request.present != 0) trace.write = decode(answer.write_request);
    return trace;
}

}  // namespace ros2s::api
