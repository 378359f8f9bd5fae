// Reports about a file's I/O.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "handles.h"
#include "ros2s/api/report.h"

using namespace ros2s;
using namespace ros2s::api::c;

namespace ros2s::api::c {
namespace {

constexpr uint64_t traced_bytes_max = 16 << 20;

ReportFormat format_of(ros2s_format format) {
    return format == ROS2S_JSON ? ReportFormat::json : ReportFormat::text;
}

Task<Result<std::string>> report_path(ros2s_file& file, ReportFormat format) {
    ROS2S_CO_TRY_ASSIGN(auto io, file.fs.file_system().path_report(file.core.handle));
    const Deployment& deployment = file.fs.instance().deployment();
    FileReport report{.file = file.path, .deployment = deployment.path(), .io = std::move(io)};
    if (deployment.mount_point().empty()) {
        report.counters = [&](const MetricVisitor& visit) { deployment.visit_metrics(visit); };
    }
    co_return format_report(report, format);
}

Task<Result<std::string>> trace_read(ros2s_file& file, uint64_t offset, uint64_t length,
                                     ReportFormat format) {
    const AlignedBuffer buffer(std::max<uint64_t>(length, 1));
    Trace trace;
    Call call;
    call.trace = &trace;
    uint64_t bytes = 0;
    {
        const Span span(&trace, file.fs.instance().reactor(), "api.pread");
        ROS2S_CO_TRY_ASSIGN(bytes, co_await file.fs.file_system().pread(
                                       call, file.core.handle,
                                       fs::Window::local(Bytes(buffer.data(), length)), offset));
    }
    co_return format_trace({.file = file.path, .offset = offset, .bytes = bytes}, trace, format);
}

ssize_t hand_out(const std::string& text, char* out, size_t bytes) {
    if (out != nullptr && bytes > 0) {
        const size_t length = std::min(text.size(), bytes - 1);
        std::memcpy(out, text.data(), length);
        out[length] = '\0';
    }
    return static_cast<ssize_t>(text.size());
}

}  // namespace
}  // namespace ros2s::api::c

ssize_t ros2s_path_report(ros2s_file* file, ros2s_format format, char* out, size_t bytes) {
    if (const int rc = check(file, "report the path of a file"); rc < 0) return rc;
    const auto text = file->fs.run([&] { return report_path(*file, format_of(format)); });
    if (!text) return refuse(text.error(), "report the path of", file->path);
    return hand_out(*text, out, bytes);
}

ssize_t ros2s_trace_read(ros2s_file* file, uint64_t offset, uint64_t length, ros2s_format format,
                         char* out, size_t bytes) {
    if (const int rc = check(file, "trace a read"); rc < 0) return rc;
    if (length > traced_bytes_max) {
        return refuse(EINVAL, "trace a read: at most 16 MiB can be read at once");
    }
    const auto text =
        file->fs.run([&] { return trace_read(*file, offset, length, format_of(format)); });
    if (!text) return refuse(text.error(), "trace a read of", file->path);
    return hand_out(*text, out, bytes);
}
