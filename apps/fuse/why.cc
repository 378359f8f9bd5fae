// The questions of `ros2store why` about a file. This process answers them because it has the pool
// (api/mount_trace.h).
#include "request.h"
#include "ros2s/api/mount_trace.h"

namespace ros2s::fuse {

Task<Result<std::string>> answer_why(Server& server, fs::NodeId node, uint64_t offset) {
    const Time arrived = server.reactor().now();
    const Call call;
    fs::FileSystem& file_system = server.file_system();
    ROS2S_CO_TRY_ASSIGN(const fs::Opened opened, co_await file_system.open(call, node, {}));
    auto trace = co_await api::trace_file(call, server.reactor(), file_system, opened.handle,
                                          offset, api::TraceKinds::read);
    ROS2S_CO_TRY(co_await file_system.close(call, opened.handle));
    if (!trace) {
        server.note_failure(node, trace.error());
        co_return fail(trace.error());
    }
    co_return api::to_text(
        {.trace = std::move(*trace), .handled = server.reactor().now() - arrived});
}

}  // namespace ros2s::fuse
