#include "ros2s/runtime/trace_events.h"

#include <fmt/format.h>

#include <algorithm>

#include "ros2s/base/json.h"

namespace ros2s {
namespace {

constexpr std::string_view served = ".serve";

double microseconds(Duration duration) { return static_cast<double>(duration.count()) / 1000.0; }

}  // namespace

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
    event(fmt::format(R"("ph":"X","name":{},"cat":{},"pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f})",
                      json_string(name), json_string(title_), open_.back().process, thread_,
                      microseconds(begin), microseconds(takes)));
}

void TraceEvents::end_request() {
    if (thread_ == 0) return;
    for (size_t i = 1; i <= processes_.size(); ++i) {
        event(fmt::format(R"("ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":{}}})",
                          i, thread_, json_string(title_)));
    }
}

std::string TraceEvents::text() {
    end_request();
    for (size_t i = 0; i < processes_.size(); ++i) {
        event(fmt::format(R"("ph":"M","name":"process_name","pid":{},"args":{{"name":{}}})", i + 1,
                          json_string(processes_[i])));
    }
    return fmt::format("{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n{}\n]}}\n", events_);
}

void TraceEvents::event(std::string_view fields) {
    events_ += fmt::format("{}{{{}}}", events_.empty() ? "" : ",\n", fields);
}

size_t TraceEvents::process(std::string_view name) {
    const auto found = std::ranges::find(processes_, name);
    const auto index = static_cast<size_t>(found - processes_.begin());
    if (found == processes_.end()) processes_.emplace_back(name);
    return index + 1;
}

}  // namespace ros2s
