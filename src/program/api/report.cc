#include "ros2s/api/report.h"

#include <fmt/format.h>

#include "ros2s/runtime/trace_events.h"

namespace ros2s::api {

std::string format_report(const FileReport& report, ReportFormat format) {
    const auto& io = report.io;
    if (format == ReportFormat::json) {
        std::vector<Json::Member> counters;
        if (report.counters) {
            report.counters([&](std::string_view name, std::string_view, uint64_t value) {
                counters.emplace_back(name, value);
            });
        }
        return Json::object({{"file", {report.file, NotUtf8::replaced}},
                             {"set_up", {report.deployment, NotUtf8::replaced}},
                             {"path", {io.path, NotUtf8::replaced}},
                             {"reads", io.reads},
                             {"read_bytes", io.read_bytes},
                             {"writes", io.writes},
                             {"written_bytes", io.written_bytes},
                             {"staged", io.staged},
                             {"counters", Json::object(counters)}})
                   .text() +
               '\n';
    }
    std::string out = fmt::format(
        "file      {}\nset-up    {}\npath      {}\nreads     {} ({} bytes)\n"
        "writes    {} ({} bytes)\nstaged    {} (copied once more, because unaligned)\n",
        report.file, report.deployment, io.path, io.reads, io.read_bytes, io.writes,
        io.written_bytes, io.staged);
    if (report.counters) {
        out += "below the file system, since the pool was opened:\n";
        report.counters([&](std::string_view name, std::string_view help, uint64_t value) {
            out += fmt::format("  {:<44} {:>14}  {}\n", name, value, help);
        });
    }
    return out;
}

std::string format_trace(const TracedRead& read, const Trace& trace, ReportFormat format) {
    const auto& steps = trace.steps();
    const Time start = steps.empty() ? Time{} : steps.front().begin;
    if (format == ReportFormat::json) {
        std::vector<Json> all;
        for (const auto& step : steps) {
            all.push_back(Json::object({{"name", {step.name, NotUtf8::replaced}},
                                        {"depth", step.depth},
                                        {"start_us", microseconds(step.begin - start)},
                                        {"took_us", microseconds(step.end - step.begin)}}));
        }
        return Json::object({{"file", {read.file, NotUtf8::replaced}},
                             {"offset", read.offset},
                             {"bytes", read.bytes},
                             {"steps", Json::array(all)}})
                   .text() +
               '\n';
    }
    std::string out = fmt::format("one read of {} bytes at {} of {}\n  start µs   took µs  step\n",
                                  read.bytes, read.offset, read.file);
    for (const auto& step : steps) {
        out += fmt::format("{:>10.1f}{:>10.1f}  {:>{}}{}\n", microseconds(step.begin - start),
                           microseconds(step.end - step.begin), "", step.depth * 2, step.name);
    }
    return out;
}

}  // namespace ros2s::api
