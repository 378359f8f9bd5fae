#include "write_handles.h"

namespace ros2s::fuse {

void WriteHandles::opened(fs::FileHandle handle, const fs::Caller& user, bool appends) {
    opened_[handle] = {.appends = appends,
                       .uid = user.uid,
                       .gid = user.gid,
                       .groups = {user.groups.begin(), user.groups.end()},
                       .second = {}};
}

Task<Result<fs::FileHandle>> WriteHandles::find(fs::NodeId node, fs::FileHandle opened,
                                                bool appends) {
    const auto known = opened_.find(opened);
    if (known == opened_.end() || known->second.appends == appends) co_return opened;
    if (known->second.second) co_return *known->second.second;
    const std::vector<uint32_t> groups = known->second.groups;
    const fs::Caller user{.uid = known->second.uid, .gid = known->second.gid, .groups = groups};
    const Call call{.caller = &user};
    ROS2S_CO_TRY_ASSIGN(
        const auto second,
        co_await file_system_.open(call, node, {.read = false, .write = true, .append = appends}));
    const auto still = opened_.find(opened);
    if (still != opened_.end() && !still->second.second) {
        still->second.second = second.handle;
        co_return second.handle;
    }
    if (still == opened_.end()) {
        (void)co_await file_system_.close(call, second.handle);
        co_return fail(Code::stale);
    }
    // Another write has opened one meanwhile.
    const fs::FileHandle theirs = *still->second.second;
    (void)co_await file_system_.close(call, second.handle);
    co_return theirs;
}

Task<Result<>> WriteHandles::close(const Call& call, fs::FileHandle opened) {
    if (const auto known = opened_.extract(opened); known && known.mapped().second) {
        (void)co_await file_system_.close(call, *known.mapped().second);
    }
    co_return co_await file_system_.close(call, opened);
}

}  // namespace ros2s::fuse
