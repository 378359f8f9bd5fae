#include "kernel_caches.h"

#include <algorithm>
#include <chrono>
#include <tuple>

#include "fuse_api.h"

namespace ros2s::fuse {
namespace {

constexpr Duration attributes_most = std::chrono::seconds(1);
// Others wait for its end, which must be a prompt answer (object/leases.cc).
constexpr Duration names_most = std::chrono::milliseconds(5);
// The kernel counts in steps of up to 4 ms, and rounds up twice.
constexpr Duration kernels_step = std::chrono::milliseconds(12);
// The kernel has long dealt with a reply after this time.
constexpr Duration reply_taken_within = std::chrono::milliseconds(50);

double seconds(Duration time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

void KernelCaches::start(fuse_session* session) {
    if (leases_ == nullptr || is_started_) return;
    session_ = session;
    is_started_ = true;
    leases_->observe(*this);
}

Task<> KernelCaches::stop() {
    if (is_started_) leases_->unobserve(*this);
    is_started_ = false;
    while (running_ > 0) co_await idle_;
}

CacheTimes KernelCaches::times(Reply reply, std::span<const Leased> leases) {
    if (!is_started_ || leases.empty()) return {};
    const Time now = reactor_.now();
    const Duration rest = leases_->until() - now;
    if (rest <= Duration{}) return {};
    CacheTimes times;
    if (leases_->held(leases, reply.node) != 0 && !unleased_.contains(reply.node.value)) {
        const Duration kept = std::min(rest, attributes_most);
        attributes_until_ = std::max(attributes_until_, now + kept + kernels_step);
        times.attributes = seconds(kept);
    }
    if (reply.is_directory && leases_->held(leases, reply.directory) != 0) {
        const Duration kept = std::min(rest, names_most);
        names_until_ = std::max(names_until_, now + kept + kernels_step);
        times.name = seconds(kept);
    }
    replied_ = now;
    return times;
}

// A negative offset: attributes only. The kernel then waits for no page.
void KernelCaches::drop_attributes(fs::NodeId node) const noexcept {
    std::ignore = fuse_lowlevel_notify_inval_inode(session_, node.value, -1, 0);
}

// A thread that waits for a page may hold a lock of the mount, for which an unmount waits, and this
// would wait behind that. So would it for an inode that the kernel removes.
Task<> KernelCaches::drop_attributes(std::span<const Leased> leases) {
    const auto drop = [&]() -> Result<> {
        for (const Leased& each : leases) drop_attributes(fs::NodeId{each.node});
        return {};
    };
    if (reads_ == 0 && dropping_ == 0) {
        std::ignore = drop();
    } else {
        std::ignore = co_await blocking_.run(reactor_, drop);
    }
}

// A page that is being read is dropped when its read is answered.
Task<> KernelCaches::drop_pages(std::vector<PageReads::Read> pages) {
    if (pages.empty()) co_return;
    ++dropping_;
    co_await drop_turns_.acquire();
    const SemaphoreHold turn(drop_turns_);
    std::ignore = co_await blocking_.run(reactor_, [&]() -> Result<> {
        for (const auto& each : pages) fuse::drop_pages(fuse_session_fd(session_), each);
        return {};
    });
    --dropping_;
}

Task<> KernelCaches::drop_files(const std::vector<fs::NodeId>& nodes) {
    std::vector<PageReads::Read> pages;
    for (const fs::NodeId node : nodes) pages.push_back({.node = node});
    return drop_pages(std::move(pages));
}

Task<> KernelCaches::drop_unleased(fs::NodeId node, uint64_t offset, uint64_t bytes) {
    ++running_;
    ++unleased_[node.value];
    std::vector<PageReads::Read> pages{{.node = node, .begin = offset, .end = offset + bytes}};
    co_await drop_pages(std::move(pages));
    forget_unleased(node);
    if (--running_ == 0) idle_.wake_all();
}

Task<> KernelCaches::unleased_gone(fs::NodeId node) {
    constexpr Duration at_most = std::chrono::milliseconds(100);
    constexpr Duration pause = std::chrono::microseconds(50);
    const Time late = reactor_.now() + at_most;
    while (unleased_.contains(node.value) && reactor_.now() < late) {
        co_await sleep_for(reactor_, pause);
    }
}

Task<> KernelCaches::lost(std::span<const Leased> leases) {
    ++running_;
    std::vector<fs::NodeId> paged;
    co_await drop_attributes(leases);
    for (const Leased& each : leases) {
        if (pages_.take_leased({each.node})) paged.push_back({each.node});
    }
    co_await drop_files(paged);
    const Time now = reactor_.now();
    const bool is_late = now - replied_ > reply_taken_within;
    const Time again = std::max(names_until_, is_late ? now : now + std::chrono::milliseconds(5));
    if (again > now) {
        co_await sleep_until(reactor_, again);
        co_await drop_attributes(leases);
    }
    if (--running_ == 0) idle_.wake_all();
}

// The server may take what ended for given back as soon as it hears from this mount again.
Task<> KernelCaches::lost_all() {
    ++running_;
    co_await drop_files(pages_.take_all_leased());
    co_await sleep_until(reactor_, std::max(attributes_until_, names_until_));
    if (--running_ == 0) idle_.wake_all();
}

}  // namespace ros2s::fuse
