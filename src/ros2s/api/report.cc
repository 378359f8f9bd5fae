#include "ros2s/api/report.h"

#include <fmt/format.h>

namespace ros2s::api {
namespace {

// Bytes of the UTF-8 sequence that `text` starts with; 0 if it is not one.
size_t utf8_length(std::string_view text) {
    const auto first = static_cast<uint8_t>(text[0]);
    const size_t length = first < 0x80         ? 1
                          : first >> 5 == 0x06 ? 2
                          : first >> 4 == 0x0e ? 3
                          : first >> 3 == 0x1e ? 4
                                               : 0;
    if (length == 0 || length > text.size()) return 0;
    uint32_t point = length == 1 ? first : first & (0x7fU >> length);
    for (size_t i = 1; i < length; ++i) {
        const auto next = static_cast<uint8_t>(text[i]);
        if (next >> 6 != 2) return 0;
        point = point << 6 | (next & 0x3fU);
    }
    constexpr uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const bool surrogate = point >= 0xd800 && point < 0xe000;
    return point < least[length] || point > 0x10ffff || surrogate ? 0 : length;
}

}  // namespace

double microseconds(Duration duration) { return static_cast<double>(duration.count()) / 1000.0; }

std::string json_string(std::string_view text, NotUtf8 bytes) {
    std::string out = "\"";
    while (!text.empty()) {
        const size_t length = utf8_length(text);
        const char c = text[0];
        if (length == 0) {
            out += bytes == NotUtf8::replaced ? "\\ufffd"
                                              : fmt::format("\\udc{:02x}", static_cast<uint8_t>(c));
        } else if (c == '"' || c == '\\') {
            out += '\\';
            out += c;
        } else if (static_cast<uint8_t>(c) < 0x20) {
            out += fmt::format("\\u{:04x}", static_cast<uint8_t>(c));
        } else {
            out += text.substr(0, length);
        }
        text.remove_prefix(std::max<size_t>(length, 1));
    }
    return out + '"';
}

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
