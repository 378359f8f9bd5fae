// Reports about an open file, as text for people or JSON for programs: the path that its I/O takes,
// with the counters of every layer, and the steps of one traced request.
#pragma once
#include <functional>
#include <string>
#include <string_view>

#include "ros2s/base/json.h"
#include "ros2s/base/metrics.h"
#include "ros2s/fs/file_system.h"
#include "ros2s/runtime/trace.h"

namespace ros2s::api {

enum class ReportFormat : uint8_t { text, json };

struct FileReport {
    std::string_view file;        // as it was opened
    std::string_view deployment;  // Deployment::path()
    fs::PathReport io;
    // Calls its visitor for each counter below the file system; empty: there are none.
    std::function<void(const MetricVisitor&)> counters;
};
[[nodiscard]] std::string format_report(const FileReport& report, ReportFormat format);

struct TracedRead {
    std::string_view file;
    uint64_t offset = 0;
    uint64_t bytes = 0;  // number of bytes read
};
[[nodiscard]] std::string format_trace(const TracedRead& read, const Trace& trace,
                                       ReportFormat format);

}  // namespace ros2s::api
