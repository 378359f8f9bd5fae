#include "kernel_caches.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <tuple>

#include "fuse_api.h"
#include "kernel_notices.h"

namespace ros2s::fuse {
namespace {

constexpr Duration kept_most = std::chrono::seconds(1);
// Others may wait for the end of names. A tenant for whose hosts others wait longer gets no leases
// for a while.
constexpr Duration names_most = std::chrono::milliseconds(400);
constexpr Duration directories_most = std::chrono::milliseconds(5);
// The kernel counts in steps of up to 4 ms, and rounds up twice.
constexpr Duration kernels_step = std::chrono::milliseconds(12);
// The kernel has long dealt with a reply after this time.
constexpr Duration reply_taken_within = std::chrono::milliseconds(50);

double seconds(Duration time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

void KernelCaches::start(fuse_session* session, bool drops_names) {
    if (leases_ == nullptr || is_started_) return;
    session_ = session;
    drops_names_ = drops_names;
    is_started_ = true;
    leases_->observe(*this);
}

Task<> KernelCaches::stop() {
    if (is_started_) leases_->unobserve(*this);
    is_started_ = false;
    while (running_ > 0) co_await idle_;
    co_await drops_.join();
}

CacheTimes KernelCaches::times(Reply reply, std::span<const Leased> leases) {
    if (!is_started_ || leases.empty()) return {};
    const Time now = reactor_.now();
    const Duration rest = leases_->until() - now;
    if (rest <= Duration{}) return {};
    CacheTimes times;
    if (leases_->held(leases, reply.node) != 0 && !old_pages_.contains(reply.node.value)) {
        const Duration kept = std::min(rest, kept_most);
        kept_until_ = std::max(kept_until_, now + kept + reply_taken_within);
        times.attributes = seconds(kept);
    }
    if (leases_->held(leases, reply.directory) != 0) {
        times.name = seconds(name_time(reply, now, rest));
    }
    replied_ = now;
    return times;
}

Duration KernelCaches::name_time(const Reply& reply, Time now, Duration rest) {
    if (reply.is_directory) {
        const Duration kept = std::min(rest, directories_most);
        directories_until_ = std::max(directories_until_, now + kept + kernels_step);
        kept_until_ = std::max(kept_until_, directories_until_);
        return kept;
    }
    if (reply.name.empty() || !drops_names_) return {};
    const Duration kept =
        names_.note(now, reply.directory, reply.name, std::min(rest, names_most), reply.unchanged);
    kept_until_ = std::max(kept_until_, now + kept + reply_taken_within);
    return kept;
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
    if (reads_ == 0 && kernel_drops_ == 0) {
        std::ignore = drop();
    } else {
        std::ignore = co_await blocking_.run(reactor_, drop);
    }
}

// A page that is being read is dropped when its read is answered.
Task<> KernelCaches::drop_pages(std::vector<PageReads::Read> pages) {
    if (pages.empty()) co_return;
    ++kernel_drops_;
    co_await drop_turns_.acquire();
    const SemaphoreHold turn(drop_turns_);
    std::ignore = co_await blocking_.run(reactor_, [&]() -> Result<> {
        for (const auto& each : pages) {
            fuse::drop_pages(fuse_session_fd(session_), each.node, each.begin, each.end);
        }
        return {};
    });
    --kernel_drops_;
}

Task<> KernelCaches::drop_files(std::vector<fs::NodeId> nodes) {
    ++running_;
    std::vector<PageReads::Read> pages;
    for (const fs::NodeId node : nodes) {
        pages.push_back({.node = node});
        ++old_pages_[node.value].leased;
    }
    co_await drop_pages(std::move(pages));
    for (const fs::NodeId node : nodes) forget_old_pages(node, &OldPages::leased);
    if (--running_ == 0) idle_.wake_all();
}

Task<> KernelCaches::drop_unleased(fs::NodeId node, uint64_t offset, uint64_t bytes) {
    ++running_;
    ++old_pages_[node.value].unleased;
    std::vector<PageReads::Read> pages{{.node = node, .begin = offset, .end = offset + bytes}};
    co_await drop_pages(std::move(pages));
    forget_old_pages(node, &OldPages::unleased);
    if (--running_ == 0) idle_.wake_all();
}

void KernelCaches::forget_old_pages(fs::NodeId node, size_t OldPages::* which) {
    OldPages& pages = old_pages_[node.value];
    if (--(pages.*which) == 0 && pages.leased + pages.unleased == 0) old_pages_.erase(node.value);
}

Task<> KernelCaches::attributes_asked(fs::NodeId node) {
    constexpr Duration at_most = std::chrono::seconds(1);
    if (!is_started_) co_return;
    // This process may have been stopped, and the server not have said so yet.
    const bool is_lost = leases_->number_of(node) == 0 && drops_.running() < drops_.limit();
    if (is_lost && pages_.take_leased(node)) std::ignore = drops_.try_spawn(drop_files({node}));
    co_await old_pages_gone(node, false, reactor_.now() + at_most);
}

Task<> KernelCaches::old_pages_gone(fs::NodeId node, bool leased_only, Time late) {
    constexpr Duration pause = std::chrono::microseconds(50);
    while (reactor_.now() < late) {
        const auto found = old_pages_.find(node.value);
        if (found == old_pages_.end() || (leased_only && found->second.leased == 0)) co_return;
        co_await sleep_for(reactor_, pause);
    }
}

struct KernelCaches::NameDrop {
    std::vector<LeasedNames::Taken> directories;
    uint64_t moves = 0;  // before
    StopSource done;
};

Task<> KernelCaches::drop_names(std::span<const Leased> leases) {
    auto drop = std::make_shared<NameDrop>();
    drop->moves = names_.moves();
    const Time now = reactor_.now();
    Time until{};
    for (const Leased& each : leases) {
        auto taken = names_.take(now, {each.node});
        // The kernel counts from the moment at which it deals with the reply.
        const bool has_ended = now >= taken.until + LeasedNames::taken_within;
        if (taken.names.empty() || has_ended) continue;
        until = std::max(until, taken.until + reply_taken_within);
        drop->directories.push_back(std::move(taken));
    }
    if (drop->directories.empty()) co_return;
    // Without room for one more, their time ends by itself.
    const StopToken done = drop->done.token();
    std::ignore = drops_.try_spawn(run(drop));
    std::ignore = co_await sleep_until(reactor_, until, done);
}

Task<> KernelCaches::run(std::shared_ptr<NameDrop> drop) {
    ++kernel_drops_;
    co_await name_turns_.acquire();
    const SemaphoreHold turn(name_turns_);
    const Time now = reactor_.now();
    std::ignore = co_await blocking_.run(reactor_, [&]() -> Result<> {
        for (const auto& [directory, names, until] : drop->directories) {
            for (const auto& [text, told] : names) {
                const bool is_new = now - told < LeasedNames::taken_within;
                drop_name(fuse_session_fd(session_), directory, text, !is_new);
            }
        }
        return {};
    });
    --kernel_drops_;
    // A name that this mount has moved meanwhile was not found.
    if (names_.moves() == drop->moves) drop->done.request_stop();
}

Task<> KernelCaches::lost(std::span<const Leased> leases) {
    ++running_;
    std::vector<fs::NodeId> paged;
    for (const Leased& each : leases) {
        if (pages_.take_leased({each.node})) paged.push_back({each.node});
    }
    co_await drop_attributes(leases);
    co_await drop_names(leases);
    co_await drop_files(std::move(paged));
    // Perhaps by a call that found the lease lost before this heard of it.
    for (const Leased& each : leases) co_await old_pages_gone({each.node}, true, Time::max());
    const Time now = reactor_.now();
    const bool is_late = now - replied_ > reply_taken_within;
    const Time again =
        std::max(directories_until_, is_late ? now : now + std::chrono::milliseconds(5));
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
    names_.clear();
    co_await sleep_until(reactor_, kept_until_);
    if (--running_ == 0) idle_.wake_all();
}

}  // namespace ros2s::fuse
