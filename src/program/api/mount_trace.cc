#include "ros2s/api/mount_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "ros2s/base/text_parts.h"

namespace ros2s::api {
namespace {

constexpr std::string_view attribute_prefix = "user.ros2store.why.";
constexpr int depth_max = 40;

Duration take_duration(std::istream& in) {
    constexpr Duration::rep most = Duration(std::chrono::hours(1)).count();
    Duration::rep count = 0;
    in >> count;
    if (count < 0 || count > most) in.setstate(std::ios::failbit);
    return Duration(count);
}

RequestTrace take_request(std::istream& in) {
    RequestTrace request;
    size_t steps = 0;
    in >> request.bytes;
    request.whole = take_duration(in);
    for (in >> steps; in && request.steps.size() < steps;) {
        RequestTrace::Step& step = request.steps.emplace_back();
        in >> step.depth;
        step.depth = std::clamp(step.depth, 0, depth_max);
        step.begin = take_duration(in);
        step.takes = take_duration(in);
        in >> step.name;
        step.name = printable(step.name);
    }
    return request;
}

}  // namespace

std::string to_attribute(uint64_t offset) { return fmt::format("{}{}", attribute_prefix, offset); }

std::optional<uint64_t> parse_question(std::string_view attribute) {
    if (!attribute.starts_with(attribute_prefix)) return {};
    attribute.remove_prefix(attribute_prefix.size());
    uint64_t offset = 0;
    if (!parse_number(attribute, offset)) return {};
    return offset;
}

std::string to_text(const FileTrace& trace, Duration handled) {
    const RequestTrace& read = trace.read;
    std::string text =
        fmt::format("{} {} {}\n{} {} {}\n", handled.count(), trace.io.staged, trace.io.path,
                    read.bytes, read.whole.count(), read.steps.size());
    for (const RequestTrace::Step& step : read.steps) {
        text += fmt::format("{} {} {} {}\n", step.depth, step.begin.count(), step.takes.count(),
                            step.name);
    }
    return text;
}

std::optional<FileTrace> parse_answer(const std::string& text, Duration took) {
    std::istringstream in(text);
    FileTrace trace{.fuse = std::max(took - take_duration(in), Duration())};
    std::string path;
    std::getline(in >> trace.io.staged >> std::ws, path);
    trace.io.path = printable(path);
    trace.read = take_request(in);
    if (!in) return {};
    return trace;
}

}  // namespace ros2s::api
