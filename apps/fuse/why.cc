// The questions of `ros2store why` about a file. This process answers them because it has the pool
// (api/mount_trace.h).
#include "request.h"
#include "ros2s/api/mount_trace.h"

namespace ros2s::fuse {
namespace {

// Our write could undo a concurrent one of the file's users, so it needs the caller's own, unlinked
// file.
Task<Result<>> check_scratch(fs::FileSystem& file_system, fs::NodeId node, uid_t asker) {
    const Call call;
    ROS2S_CO_TRY_ASSIGN(const auto attributes, co_await file_system.get_attributes(call, node));
    const bool may = attributes.links == 0 && (asker == 0 || asker == attributes.uid);
    co_return may ? Result<>() : fail(Code::denied);
}

}  // namespace

Task<Result<std::string>> answer_why(Server& server, fs::NodeId node, uid_t asker,
                                     api::MountQuestion question) {
    const Time arrived = server.reactor().now();
    const Call call;
    fs::FileSystem& file_system = server.file_system();
    const bool writes = question.kinds == api::TraceKinds::read_and_write;
    if (writes && server.options().read_only) co_return fail(Code::read_only);
    if (writes) ROS2S_CO_TRY(co_await check_scratch(file_system, node, asker));
    ROS2S_CO_TRY_ASSIGN(const fs::Opened opened,
                        co_await file_system.open(call, node, {.write = writes}));
    auto trace = co_await api::trace_file(call, server.reactor(), file_system, opened.handle,
                                          question.offset, question.kinds);
    ROS2S_CO_TRY(co_await file_system.close(call, opened.handle));
    if (!trace) {
        server.note_failure(node, trace.error());
        co_return fail(trace.error());
    }
    co_return api::to_text(
        {.trace = std::move(*trace), .handled = server.reactor().now() - arrived});
}

}  // namespace ros2s::fuse
