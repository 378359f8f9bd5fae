#include "request_ring.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>

#include "ros2s/runtime/run_blocking.h"

namespace ros2s::usrbio {
namespace {

// < 0: no limit.
int64_t nanoseconds_until(const timespec* until) {
    constexpr int64_t seconds_max = int64_t{1} << 32;
    if (until == nullptr) return -1;
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    const int64_t seconds = std::clamp<int64_t>(until->tv_sec - now.tv_sec, -1, seconds_max);
    return std::max<int64_t>(seconds * 1'000'000'000 + until->tv_nsec - now.tv_nsec, 0);
}

Task<> attach(OsReactor& reactor, api::Queue& queue) {
    reactor.attach(queue);
    co_return;
}

Task<> drain_and_detach(OsReactor& reactor, api::Queue& queue) {
    queue.take_all();
    co_await queue.drain();
    reactor.detach(queue);
}

}  // namespace

Result<std::unique_ptr<RequestRing>> RequestRing::create(std::shared_ptr<MountLink> link,
                                                         uint32_t entries) {
    OsReactor& reactor = link->reactor();
    ROS2S_TRY_ASSIGN(auto queue,
                     api::Queue::create(reactor, link->files(), entries, log_to_stderr()));
    std::unique_ptr<RequestRing> ring(new RequestRing(std::move(link)));
    ring->queue_ = std::move(queue);
    ring->slots_.resize(entries);
    for (int each = static_cast<int>(entries); each > 0;) ring->free_.push_back(--each);
    run_blocking(reactor, [&] { return attach(reactor, *ring->queue_); });
    return ring;
}

RequestRing::~RequestRing() {
    OsReactor& reactor = link_->reactor();
    run_blocking(reactor, [&] { return drain_and_detach(reactor, *queue_); });
}

int RequestRing::prepare(Request request) {
    const std::scoped_lock lock(mutex_);
    if (free_.empty()) return -1;
    const int index = free_.back();
    free_.pop_back();
    queue_->put({.opcode = request.is_read ? ROS2S_OP_READ : ROS2S_OP_WRITE,
                 .file = &request.file->core,
                 .address = request.address,
                 .bytes = request.bytes,
                 .offset = request.offset,
                 .user_data = static_cast<uint64_t>(index)});
    slots_[static_cast<size_t>(index)] = {std::move(request.file), std::move(request.memory),
                                          request.userdata};
    ++prepared_;
    return index;
}

void RequestRing::submit_prepared() {
    if (std::exchange(prepared_, 0) == 0) return;
    queue_->publish();
    ++submissions_;
    submitted_.notify_all();
}

void RequestRing::submit() {
    const std::scoped_lock lock(mutex_);
    submit_prepared();
}

void RequestRing::take(std::span<const ros2s_completion> completions, hf3fs_cqe* into) {
    std::vector<RequestSlot> ended;  // without the lock
    ended.reserve(completions.size());
    const std::scoped_lock lock(mutex_);
    for (const ros2s_completion& each : completions) {
        const auto index = static_cast<int>(each.user_data);
        RequestSlot& slot = slots_[each.user_data];
        *into++ = {.index = index, .reserved = 0, .result = each.result, .userdata = slot.userdata};
        ended.push_back(std::exchange(slot, {}));
        free_.push_back(index);
    }
}

int RequestRing::wait(std::span<hf3fs_cqe> into, int least, const timespec* until) {
    std::array<ros2s_completion, 64> reaped;
    size_t filled = 0;
    for (;;) {
        uint64_t seen = 0;
        {
            // Programs may rely on requests that start without being submitted.
            const std::scoped_lock lock(mutex_);
            submit_prepared();
            seen = submissions_;
        }
        const size_t most = std::min(reaped.size(), into.size() - filled);
        const auto missing = static_cast<size_t>(std::max(least - static_cast<int>(filled), 0));
        const int64_t left = nanoseconds_until(until);
        const uint32_t count = queue_->reap(std::span(reaped).first(most),
                                            static_cast<uint32_t>(std::min(missing, most)), left);
        take(std::span(reaped).first(count), into.data() + filled);
        filled += count;
        if (filled == into.size()) break;
        if (count > 0) continue;
        if (static_cast<int>(filled) >= least || left == 0) break;
        // All that were submitted are done. Another thread may submit more.
        std::unique_lock lock(mutex_);
        const auto is_new = [&] { return submissions_ != seen || prepared_ > 0; };
        if (left < 0) {
            submitted_.wait(lock, is_new);
        } else {
            submitted_.wait_for(lock, std::chrono::nanoseconds(left), is_new);
        }
    }
    return static_cast<int>(filled);
}

}  // namespace ros2s::usrbio
