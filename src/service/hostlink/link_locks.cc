// Locks: the server has them. They end with the handles through which they were set, and so with a
// server that was started again: then the calls through such a handle give `io`, until its owner
// unlocks all of the file or the handle is closed.
#include <algorithm>

#include "link_ask.h"
#include "ros2s/fs/lock_wait.h"

namespace ros2s::hostlink {

using object::Lock;
using object::LockMode;

Task<Result<std::optional<Lock>>> LinkClient::lock(const Call& call, fs::FileHandle handle,
                                                   const Lock& lock, fs::LockHow how) {
    const auto once = how == fs::LockHow::test ? how : fs::LockHow::now;
    co_return co_await fs::wait_for_lock(reactor_, call, how,
                                         [&] { return lock_once(call, handle, lock, once); });
}

Task<Result<std::optional<Lock>>> LinkClient::lock_once(const Call& call, fs::FileHandle handle,
                                                        Lock lock, fs::LockHow how) {
    ROS2S_CO_TRY_ASSIGN(Open* const file, opened(handle));
    const LockOwner owner{lock.space, lock.owner};
    const std::pair known{file->node, owner};
    const bool unlocks = lock.mode == LockMode::none;
    const bool is_whole = lock.first == 0 && lock.last == UINT64_MAX;
    if (unlocks && is_whole && std::erase(file->lock_owners, owner) > 0) {
        file->has_lost_lock = file->has_lost_lock && !file->lock_owners.empty();
    }
    if (unlocks && !locked_.contains(known)) co_return std::nullopt;
    // If no answer comes, it may have been set all the same.
    if (!unlocks && how == fs::LockHow::now) {
        locked_.insert(known);
        if (std::ranges::find(file->lock_owners, owner) == file->lock_owners.end())
            file->lock_owners.push_back(owner);
    }
    Buffer body;
    ReadAs<std::optional<Lock>> reader;
    const rpc::CallRequest request{.method = static_cast<uint16_t>(Method::lock),
                                   .repeatable = true};
    const auto encode = [&](const ServerHandle& at) {
        return rpc::build(
            body, lock_body_fields,
            LockBody{.mount = at.place.mount, .handle = at.handle, .how = how, .lock = lock});
    };
    ROS2S_CO_TRY(co_await ask(call, handle, request, reader, encode));
    if (unlocks && is_whole) locked_.erase(known);
    co_return reader.value;
}

void LinkClient::forget_locks(const Open& file) {
    for (const LockOwner& owner : file.lock_owners) locked_.erase({file.node, owner});
}

}  // namespace ros2s::hostlink
