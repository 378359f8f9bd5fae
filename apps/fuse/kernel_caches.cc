#include "kernel_caches.h"

#include <linux/fuse.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

namespace ros2s::fuse {
namespace {

constexpr Duration kept_most = std::chrono::seconds(1);
// The kernel has long dealt with a reply after this time.
constexpr Duration reply_taken_within = std::chrono::milliseconds(50);

// Of the kernel's interface 7.44 (Linux 6.16), which Debian 12's headers do not have: names that
// were looked up before are looked up again.
constexpr unsigned minor_with_epochs = 44;
constexpr int32_t notify_epoch = 8;

}  // namespace

void KernelCaches::start(int descriptor, unsigned protocol_minor) {
    if (leases_ == nullptr || is_started_) return;
    descriptor_ = descriptor;
    is_started_ = true;
    keeps_names_ = protocol_minor >= minor_with_epochs;
    leases_->observe(*this);
}

Task<> KernelCaches::stop() {
    if (is_started_) leases_->unobserve(*this);
    is_started_ = false;
    while (running_ > 0) co_await idle_;
}

CacheTimes KernelCaches::times(fs::NodeId directory, fs::NodeId node,
                               std::span<const Leased> leases) {
    if (!is_started_ || leases.empty()) return {};
    const Time now = reactor_.now();
    const Duration rest = std::min(leases_->until() - now, kept_most);
    if (rest <= Duration{}) return {};
    const double seconds = std::chrono::duration<double>(rest).count();
    replied_ = now;
    kept_until_ = std::max(kept_until_, now + rest);
    return {.name = keeps_names_ && leases_->held(leases, directory) != 0 ? seconds : 0,
            .attributes = leases_->held(leases, node) != 0 ? seconds : 0};
}

// A negative offset: attributes only. The kernel then waits for no page.
void KernelCaches::drop_attributes(fs::NodeId node) const noexcept {
    fuse_notify_inval_inode_out attributes{.ino = node.value, .off = -1, .len = 0};
    fuse_out_header header{
        .len = sizeof header + sizeof attributes, .error = FUSE_NOTIFY_INVAL_INODE, .unique = 0};
    const iovec parts[] = {{&header, sizeof header}, {&attributes, sizeof attributes}};
    std::ignore = ::writev(descriptor_, parts, 2);
}

void KernelCaches::drop_names() const noexcept {
    if (!is_started_ || !keeps_names_) return;
    const fuse_out_header header{.len = sizeof header, .error = notify_epoch, .unique = 0};
    std::ignore = ::write(descriptor_, &header, sizeof header);
}

Task<> KernelCaches::lost(std::span<const fs::NodeId> nodes) {
    ++running_;
    for (int time = 0; time < 2; ++time) {
        for (const fs::NodeId node : nodes) drop_attributes(node);
        drop_names();
        if (time > 0 || reactor_.now() - replied_ > reply_taken_within) break;
        co_await sleep_for(reactor_, std::chrono::milliseconds(5));
    }
    if (--running_ == 0) idle_.wake_all();
}

// The server may take what ended for given back as soon as it hears from this mount again.
Task<> KernelCaches::lost_all() {
    ++running_;
    drop_names();
    co_await sleep_until(reactor_, kept_until_);
    if (--running_ == 0) idle_.wake_all();
}

}  // namespace ros2s::fuse
