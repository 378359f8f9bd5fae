#include "write_handles.h"

namespace ros2s::fuse {

Task<Result<fs::FileHandle>> WriteHandles::find(const Call& call, fs::NodeId node,
                                                fs::FileHandle opened, bool appends) {
    if (appending_.contains(opened) == appends) co_return opened;
    if (const auto known = second_.find(opened); known != second_.end()) co_return known->second;
    ROS2S_CO_TRY_ASSIGN(
        const auto second,
        co_await file_system_.open(call, node, {.read = false, .write = true, .append = appends}));
    const auto [kept, is_new] = second_.emplace(opened, second.handle);
    const fs::FileHandle handle = kept->second;
    // Another write has opened one meanwhile.
    if (!is_new) (void)co_await file_system_.close(call, second.handle);
    co_return handle;
}

Task<Result<>> WriteHandles::close(const Call& call, fs::FileHandle opened) {
    appending_.erase(opened);
    if (const auto second = second_.extract(opened)) {
        (void)co_await file_system_.close(call, second.mapped());
    }
    co_return co_await file_system_.close(call, opened);
}

}  // namespace ros2s::fuse
