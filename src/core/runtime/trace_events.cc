#include "ros2s/runtime/trace_events.h"

#include <algorithm>

namespace ros2s {
namespace {

constexpr std::string_view served = ".serve";

}  // namespace

double microseconds(Duration duration) { return static_cast<double>(duration.count()) / 1000.0; }

void TraceEvents::begin_request(std::string_view title) {
    end_request();
    ++thread_;
    title_ = title;
    open_ = {{.depth = -1, .process = process(home_)}};
}

void TraceEvents::add(std::string_view name, int depth, Duration begin, Duration takes) {
    while (open_.back().depth >= depth) open_.pop_back();
    if (name.ends_with(served)) {
        open_.push_back(
            {.depth = depth, .process = process(name.substr(0, name.size() - served.size()))});
    }
    events_.push_back(Json::object({{"ph", "X"},
                                    {"name", {name, NotUtf8::replaced}},
                                    {"cat", {title_, NotUtf8::replaced}},
                                    {"pid", open_.back().process},
                                    {"tid", thread_},
                                    {"ts", microseconds(begin)},
                                    {"dur", microseconds(takes)}}));
}

void TraceEvents::end_request() {
    if (thread_ == 0) return;
    for (size_t i = 1; i <= processes_.size(); ++i) {
        events_.push_back(
            Json::object({{"ph", "M"},
                          {"name", "thread_name"},
                          {"pid", i},
                          {"tid", thread_},
                          {"args", Json::object({{"name", {title_, NotUtf8::replaced}}})}}));
    }
}

std::string TraceEvents::text() {
    end_request();
    for (size_t i = 0; i < processes_.size(); ++i) {
        events_.push_back(
            Json::object({{"ph", "M"},
                          {"name", "process_name"},
                          {"pid", i + 1},
                          {"args", Json::object({{"name", {processes_[i], NotUtf8::replaced}}})}}));
    }
    return Json::object({{"displayTimeUnit", "ns"}, {"traceEvents", Json::array(events_)}}).text() +
           '\n';
}

size_t TraceEvents::process(std::string_view name) {
    const auto found = std::ranges::find(processes_, name);
    const auto index = static_cast<size_t>(found - processes_.begin());
    if (found == processes_.end()) processes_.emplace_back(name);
    return index + 1;
}

}  // namespace ros2s
