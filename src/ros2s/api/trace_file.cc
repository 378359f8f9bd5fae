#include "ros2s/api/trace_file.h"

#include <fmt/format.h>

#include <algorithm>

#include "ros2s/api/report.h"

namespace ros2s::api {
namespace {

constexpr std::string_view served = ".serve";

class Events {
  public:
    void add(const RequestTrace& request, std::string_view title, Duration from) {
        ++thread_;
        // The process of each step: that of the nearest server's step above it.
        struct Within {
            int depth;
            size_t process;
        };
        std::vector<Within> open{{.depth = -1, .process = process("host")}};
        for (const auto& step : request.steps) {
            while (open.back().depth >= step.depth) open.pop_back();
            const std::string_view name = step.name;
            if (name.ends_with(served)) {
                open.push_back({.depth = step.depth,
                                .process = process(name.substr(0, name.size() - served.size()))});
            }
            event(fmt::format(
                R"("ph":"X","name":{},"cat":{},"pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f})",
                json_string(name), json_string(title), open.back().process, thread_,
                microseconds(from + step.begin), microseconds(step.takes)));
        }
        for (size_t i = 1; i <= processes_.size(); ++i) {
            event(fmt::format(
                R"("ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":{}}})", i,
                thread_, json_string(title)));
        }
    }
    std::string text() {
        for (size_t i = 0; i < processes_.size(); ++i) {
            event(fmt::format(R"("ph":"M","name":"process_name","pid":{},"args":{{"name":{}}})",
                              i + 1, json_string(processes_[i])));
        }
        return fmt::format("{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n{}\n]}}\n", events_);
    }

  private:
    void event(std::string_view fields) {
        events_ += fmt::format("{}{{{}}}", events_.empty() ? "" : ",\n", fields);
    }
    // Numbered from 1 in the order of appearance, which is the order of the path.
    size_t process(std::string_view name) {
        const auto found = std::ranges::find(processes_, name);
        const auto index = static_cast<size_t>(found - processes_.begin());
        if (found == processes_.end()) processes_.emplace_back(name);
        return index + 1;
    }

    std::string events_;
    std::vector<std::string> processes_;
    int thread_ = 0;
};

}  // namespace

std::string to_trace_file(const FileTrace& trace) {
    Events events;
    events.add(trace.read, fmt::format("read of {} bytes", trace.read.bytes), {});
    if (trace.write) {
        events.add(*trace.write, fmt::format("durable write of {} bytes", trace.write->bytes),
                   trace.read.whole + std::chrono::microseconds(10));
    }
    return events.text();
}

}  // namespace ros2s::api
