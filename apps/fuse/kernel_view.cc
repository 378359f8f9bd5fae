#include "kernel_view.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "kernel_notices.h"
#include "server.h"

namespace ros2s::fuse {
KernelView::KernelView(Server& server)
    : server_(server), dropped_(server.reactor()), turn_(server.reactor(), 1) {}

void KernelView::borrowed(fs::NodeId node) { ++nodes_[node].handles; }

void KernelView::returned(fs::NodeId node) {
    Node* const known = find(node);
    if (known != nullptr && --known->handles == 0) nodes_.erase(node);
}

// A drop in progress may be the one that a write needs: what the kernel gets after it began is
// noted again.
Task<> KernelView::until_dropped(fs::NodeId node) {
    for (const Node* known = find(node); known != nullptr && known->drops > 0; known = find(node)) {
        co_await dropped_;
    }
}

Task<> KernelView::until_set(fs::NodeId node) {
    while (setting_.contains(node)) co_await dropped_;
}

void KernelView::setting_ends(fs::NodeId node) {
    sets_size(node);
    gets_attributes(node);
    const auto found = setting_.find(node);
    if (--found->second > 0) return;
    setting_.erase(found);
    dropped_.wake_all();
}

// On another thread: it waits for pages that are being read, or written back, by other requests.
// It drops attributes, too.
Task<> KernelView::drop(fs::NodeId node, std::optional<Byte> stored) {
    if (is_ending_) co_return;
    Node& known = nodes_.at(node);  // a handle is in use
    known.may_have_pages = known.may_have_attributes = false;
    ++known.drops;
    ++server_.kernel_drops();
    {
        co_await turn_.acquire();
        const SemaphoreHold turn(turn_);
        const int descriptor = server_.kernel_descriptor();
        std::ignore = co_await server_.blocking().run(server_.reactor(), [&]() -> Result<> {
            if (stored) store_byte(descriptor, node, stored->offset, stored->value);
            drop_pages(descriptor, node);
            return {};
        });
    }
    --server_.kernel_drops();
    --known.drops;
    dropped_.wake_all();
}

Task<> KernelView::before(fs::NodeId node) {
    co_await until_dropped(node);
    const Node* const known = find(node);
    if (known != nullptr && known->may_have_pages && server_.is_mappable(node)) {
        co_await drop(node, {});
    }
}

// Where the kernel caches, it appends at the end that it knows.
Task<> KernelView::after_write(fs::NodeId node, uint64_t end, std::byte last) {
    co_await until_set(node);
    co_await until_dropped(node);
    Node* const known = find(node);
    if (known == nullptr) co_return;
    const bool is_longer = server_.caches() && end > known->size_least;
    if (!is_longer && !known->may_have_pages && !known->may_have_attributes) co_return;
    if (is_longer) known->size_least = end;
    co_await drop(node, is_longer ? std::optional(Byte{end - 1, last}) : std::nullopt);
}

}  // namespace ros2s::fuse
