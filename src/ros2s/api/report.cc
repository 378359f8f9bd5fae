#include "ros2s/api/report.h"

#include <fmt/format.h>

namespace ros2s::api {

double microseconds(Duration duration) { return static_cast<double>(duration.count()) / 1000.0; }

std::string format_report(const FileReport& report, ReportFormat format) {
    const auto& io = report.io;
    std::string out;
    if (format == ReportFormat::json) {
        out = fmt::format(
            R"({{"file":{},"set_up":{},"path":{},"reads":{},"read_bytes":{},"writes":{},)"
            R"("written_bytes":{},"staged":{},"counters":{{)",
            json_string(report.file), json_string(report.deployment), json_string(io.path),
            io.reads, io.read_bytes, io.writes, io.written_bytes, io.staged);
        bool first = true;
        if (report.counters) {
            report.counters([&](std::string_view name, std::string_view, uint64_t value) {
                out += fmt::format("{}{}:{}", first ? "" : ",", json_string(name), value);
                first = false;
            });
        }
        return out + "}}\n";
    }
    out = fmt::format(
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
        std::string out = fmt::format(R"({{"file":{},"offset":{},"bytes":{},"steps":[)",
                                      json_string(read.file), read.offset, read.bytes);
        bool first = true;
        for (const auto& step : steps) {
            out +=
                fmt::format(R"({}{{"name":{},"depth":{},"start_us":{:.3f},"took_us":{:.3f}}})",
                            first ? "" : ",", json_string(step.name), step.depth,
                            microseconds(step.begin - start), microseconds(step.end - step.begin));
            first = false;
        }
        return out + "]}\n";
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
