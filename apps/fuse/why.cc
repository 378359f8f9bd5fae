// ioctl: the questions of `ros2store why` about an open file (api/mount_why.h) and of `ros2store
// status` about the pool (api/mount_status.h), which this process answers because it has the pool.
// No other ioctl is known.
#include <cerrno>
#include <cstring>

#include "request.h"
#include "ros2s/api/mount_why.h"

namespace ros2s::fuse {
namespace {

// A write of ours could undo one of the file's users: only on a file that has none but the asker.
Task<Result<>> check_nameless(fs::FileSystem& file_system, fs::NodeId node) {
    const Call call;
    ROS2S_CO_TRY_ASSIGN(const auto attributes, co_await file_system.get_attributes(call, node));
    if (attributes.links != 0) co_return fail(Code::denied);
    co_return Result<>{};
}

Task<Result<api::FileTrace>> traced(Server& server, fs::NodeId node, fs::FileHandle handle,
                                    api::MountWhy question) {
    if (question.version != api::mount_why_version) co_return fail(Code::unsupported);
    auto kinds = api::TraceKinds::read;
    if (question.write != 0) {
        ROS2S_CO_TRY(co_await check_nameless(server.file_system(), node));
        kinds = api::TraceKinds::read_and_write;
    }
    co_return co_await api::trace_file(Call{}, server.reactor(), server.file_system(), handle,
                                       question.offset, kinds);
}

Task<> why_task(Server& server, fuse_req_t request, fs::NodeId node, fs::FileHandle handle,
                api::MountWhy question) {
    const Time arrived = server.reactor().now();
    const auto trace = co_await traced(server, node, handle, question);
    if (!trace) {
        server.note_failure(node, trace.error());
        reply_error(request, trace.error());
        co_return;
    }
    const api::MountWhy answer =
        api::encode_answer(question, *trace, server.reactor().now() - arrived);
    fuse_reply_ioctl(request, 0, &answer, sizeof answer);
}

void ioctl(fuse_req_t request, fuse_ino_t node, unsigned number, void*, fuse_file_info* file,
           unsigned flags, const void* in, size_t in_bytes, size_t out_bytes) {
    Server& server = server_of(request);
    if (number == api::mount_status_ioctl && node == FUSE_ROOT_ID && server.options().status) {
        const api::MountStatus status = server.options().status();
        fuse_reply_ioctl(request, 0, &status, sizeof status);
        return;
    }
    api::MountWhy question;
    if (number != api::mount_why_ioctl || (flags & FUSE_IOCTL_DIR) != 0 ||
        in_bytes != sizeof question || out_bytes != sizeof question) {
        fuse_reply_err(request, ENOTTY);
        return;
    }
    std::memcpy(&question, in, sizeof question);
    server.run(why_task(server, request, node_of(node), handle_of(*file), question));
}

}  // namespace

void add_why_operation(fuse_lowlevel_ops& table) noexcept { table.ioctl = ioctl; }

}  // namespace ros2s::fuse
