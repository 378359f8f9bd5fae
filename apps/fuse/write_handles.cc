#include "write_handles.h"

#include <algorithm>

namespace ros2s::fuse {
namespace {

bool serves(WriteHandles::Kind kind, WriteHandles::Kind wanted) {
    return kind.appends == wanted.appends && (wanted.keeps_set_ids || !kind.keeps_set_ids);
}

}  // namespace

void WriteHandles::opened(fs::FileHandle handle, const fs::Caller& user, Kind kind) {
    opened_[handle] = {.kind = kind,
                       .uid = user.uid,
                       .gid = user.gid,
                       .groups = {user.groups.begin(), user.groups.end()},
                       .others = {}};
}

void WriteHandles::may_be_locked(fs::FileHandle handle) {
    if (const auto found = opened_.find(handle); found != opened_.end()) {
        found->second.may_be_locked = true;
    }
}

const WriteHandles::Other* WriteHandles::find_other(const Opened& file, Kind wanted) {
    const auto found = std::ranges::find_if(
        file.others, [wanted](const Other& other) { return serves(other.kind, wanted); });
    return found == file.others.end() ? nullptr : &*found;
}

Task<Result<fs::FileHandle>> WriteHandles::find(fs::NodeId node, fs::FileHandle opened,
                                                Kind wanted) {
    auto known = opened_.find(opened);
    if (known == opened_.end() || serves(known->second.kind, wanted)) co_return opened;
    if (known->second.may_be_locked) {
        const Call asking;
        const auto nothing = fs::Window::local(Bytes{});
        ROS2S_CO_TRY(co_await file_system_.pwrite(asking, opened, nothing, 0));
        known = opened_.find(opened);
        if (known == opened_.end()) co_return fail(Code::stale);
    }
    if (const Other* const other = find_other(known->second, wanted)) co_return other->handle;
    wanted.keeps_set_ids = wanted.keeps_set_ids && known->second.kind.keeps_set_ids;
    const std::vector<uint32_t> groups = known->second.groups;
    const fs::Caller user{.uid = known->second.uid, .gid = known->second.gid, .groups = groups};
    const Call call{.caller = &user};
    ROS2S_CO_TRY_ASSIGN(const auto more,
                        co_await file_system_.open(call, node,
                                                   {.read = false,
                                                    .write = true,
                                                    .append = wanted.appends,
                                                    .keeps_set_ids = wanted.keeps_set_ids}));
    const auto still = opened_.find(opened);
    if (still == opened_.end()) {
        (void)co_await file_system_.close(call, more.handle);
        co_return fail(Code::stale);
    }
    const Other* const theirs = find_other(still->second, wanted);
    if (theirs == nullptr) {
        still->second.others.push_back({wanted, more.handle});
        co_return more.handle;
    }
    // Another write has opened one meanwhile.
    const fs::FileHandle handle = theirs->handle;
    (void)co_await file_system_.close(call, more.handle);
    co_return handle;
}

Task<Result<>> WriteHandles::close(const Call& call, fs::FileHandle opened) {
    if (const auto known = opened_.extract(opened); known) {
        for (const Other& other : known.mapped().others) {
            (void)co_await file_system_.close(call, other.handle);
        }
    }
    co_return co_await file_system_.close(call, opened);
}

}  // namespace ros2s::fuse
