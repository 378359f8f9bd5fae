// A listing of a container's objects or keys that is read page by page.
#pragma once
#include <utility>
#include <vector>

#include "ros2s/object/object_store.h"
#include "ros2s/runtime/task.h"

namespace ros2s::fs {

struct Listing {
    object::ListRequest request;
    bool more = true;
};

// The next page; it may be empty. Errors: those of list().
[[nodiscard]] inline Task<Result<std::vector<object::ListEntry>>> next_page(
    const Call& call, object::ObjectStore& store, object::ContainerId container, Listing& listing) {
    ROS2S_CO_TRY_ASSIGN(object::ListReply reply,
                        co_await store.list(call, container, listing.request));
    if (!reply.entries.empty()) listing.request.after = reply.entries.back().key;
    listing.more = reply.more;
    co_return std::move(reply.entries);
}

}  // namespace ros2s::fs
