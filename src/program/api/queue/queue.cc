#include "ros2s/api/queue/queue.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>

#include "ros2s/api/queue/block_work.h"
#include "ros2s/api/queue/sentence.h"
#include "ros2s/fs/large_read.h"
#include "ros2s/runtime/fork.h"
#include "ros2s/runtime/kept_errno.h"
#include "ros2s/runtime/time.h"

namespace ros2s::api {
namespace {

template <class T>
int64_t as_count(const Result<T>& result) {
    if (!result) return -to_errno(result.error());
    if constexpr (std::is_void_v<T>) {
        return 0;
    } else {
        return static_cast<int64_t>(*result);
    }
}

Time later(Time time, Duration duration) noexcept {
    return time + std::min(duration, Time::max() - time);
}

// So many requests are started when they are submitted. Fewer wait for the next reap, which starts
// them in one turn, unless the device would be idle meanwhile.
constexpr uint32_t begun_at_once = 8;
// Of requests that one turn of the core starts.
constexpr uint64_t bytes_per_turn = 1 << 20;

}  // namespace

Result<std::unique_ptr<Queue>> Queue::create(OsReactor& reactor, fs::FileSystem& file_system,
                                             uint32_t depth, Log log) {
    const int descriptor = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (descriptor < 0) return fail_errno(errno);
    return std::unique_ptr<Queue>(
        new Queue(reactor, file_system, depth, descriptor, std::move(log)));
}

Queue::Queue(OsReactor& reactor, fs::FileSystem& file_system, uint32_t depth, int descriptor,
             Log log)
    : reactor_(reactor),
      file_system_(file_system),
      depth_(depth),
      mask_(std::bit_ceil(depth) - 1),
      descriptor_(descriptor),
      entries_(std::make_unique<QueueEntry[]>(mask_ + size_t{1})),
      slots_(std::make_unique<uint32_t[]>(mask_ + size_t{1})),
      positions_(std::make_unique<uint32_t[]>(mask_ + size_t{1})),
      completions_(std::make_unique<ros2s_completion[]>(mask_ + size_t{1})),
      completed_slots_(std::make_unique<uint32_t[]>(mask_ + size_t{1})),
      log_(std::move(log)),
      nursery_(reactor, depth) {
    close_in_forked_child(descriptor_);
    for (uint32_t i = 0; i <= mask_; ++i) slots_[i] = positions_[i] = i;
}

Queue::~Queue() { close_everywhere(descriptor_); }

Result<std::unique_ptr<Queue>> Queue::cancelled_copy(const Queue& of_parent, OsReactor& reactor,
                                                     fs::FileSystem& file_system, Log log) {
    ROS2S_TRY_ASSIGN(auto made, create(reactor, file_system, of_parent.depth_, std::move(log)));
    const uint32_t first = of_parent.reaped_.load();
    // Another thread may have submitted or reaped during the fork.
    const uint32_t count = std::min(of_parent.submitted_.load() - first, of_parent.depth_);
    for (uint32_t i = 0; i < count; ++i) {
        const uint32_t slot = of_parent.slots_[(first + i) & of_parent.mask_] & of_parent.mask_;
        made->put({.user_data = of_parent.entries_[slot].user_data});
        made->complete(made->slots_[i], -ECANCELED);
    }
    made->taken_ = made->advanced_ = count;
    made->submitted_.store(count);
    made->completed_.store(count);
    return made;
}

void Queue::publish() noexcept {
    const KeptErrno kept;
    const uint32_t before = submitted_.load(std::memory_order_relaxed);
    submitted_.store(unpublished_, std::memory_order_seq_cst);
    if (by_descriptor_.load(std::memory_order_relaxed)) return reactor_.wake();
    const bool was_idle = before == reaped_.load(std::memory_order_relaxed);
    if (was_idle || unpublished_ - advanced_ >= begun_at_once) {
        advanced_ = unpublished_;
        reactor_.advance();
    } else {
        reactor_.announce();
    }
}

bool Queue::poll() noexcept { return take(bytes_per_turn); }
void Queue::take_all() noexcept { take(UINT64_MAX); }

bool Queue::take(uint64_t bytes_max) noexcept {
    tell();
    const uint32_t submitted = submitted_.load(std::memory_order_acquire);
    if (taken_ == submitted) return false;
    // The requests that were taken are started before many more are copied.
    for (uint64_t bytes = 0; taken_ != submitted && bytes < bytes_max;) {
        const uint32_t slot = slots_[taken_++ & mask_];
        const QueueEntry& entry = entries_[slot];
        bytes += std::min(entry.bytes, bytes_per_turn);  // a punch has a length of up to 2^64 - 1
        if (entry.file != nullptr) ++entry.file->requests;
        const bool started = nursery_.try_spawn(serve(slot));
        ROS2S_CHECK(started);
    }
    tell();  // of requests that completed at once
    return true;
}

bool Queue::prepare_sleep() noexcept {
    // Another poller may have finished requests since poll(); the thread that runs the loop may
    // wait for them.
    const bool has_news = completed_.load(std::memory_order_relaxed) != finished_;
    tell();
    return !has_news && taken_ == submitted_.load(std::memory_order_seq_cst);
}

Task<> Queue::drain() { return nursery_.join(); }

Task<> Queue::serve(uint32_t slot) {
    const QueueEntry& entry = entries_[slot];
    const fs::Window window{.address = reinterpret_cast<uint64_t>(entry.address),
                            .length = entry.bytes};
    int64_t result = 0;
    switch (entry.opcode) {
        case ROS2S_OP_NOP: break;
        case ROS2S_OP_READ: {
            const auto bytes = co_await fs::pread_in_parts(
                reactor_, file_system_, call_, entry.file->handle, window, entry.offset);
            if (!bytes) [[unlikely]]
                say_corrupt(*entry.file, "read", bytes.error());
            result = as_count(bytes);
            break;
        }
        case ROS2S_OP_WRITE: {
            const auto bytes =
                co_await file_system_.pwrite(call_, entry.file->handle, window, entry.offset);
            if (!bytes) [[unlikely]]
                say_corrupt(*entry.file, "write", bytes.error());
            result = as_count(bytes);
            break;
        }
        case ROS2S_OP_FSYNC:
            result = as_count(co_await file_system_.fsync(call_, entry.file->handle));
            break;
        case ROS2S_OP_PUNCH_HOLE:
            result = as_count(co_await file_system_.punch_hole(call_, entry.file->handle,
                                                               entry.offset, entry.bytes));
            break;
        default:
            result = as_count(co_await work_on_blocks(
                file_system_, call_, entry.opcode,
                {static_cast<ros2s_block*>(entry.address), entry.bytes}, entry.offset));
            break;
    }
    if (entry.file != nullptr) --entry.file->requests;
    complete(slot, result);
}

// A completion has only a number, and EIO gives no cause.
void Queue::say_corrupt(const CoreFile& file, std::string_view what, const Error& error) {
    constexpr uint32_t lines_max = 100;
    if (error.code != Code::corrupt || ++corrupt_ > lines_max) return;
    log_.error(sentence_of(error, what, file.path));
}

void Queue::complete(uint32_t slot, int64_t result) noexcept {
    const uint32_t at = finished_++ & mask_;
    completions_[at] = {.user_data = entries_[slot].user_data, .result = result};
    completed_slots_[at] = slot;
}

void Queue::release_slot(uint32_t at) noexcept {
    const uint32_t freed = completed_slots_[at & mask_];
    const uint32_t position = positions_[freed];
    const uint32_t moved = slots_[at & mask_];
    slots_[position] = moved;
    positions_[moved] = position;
    slots_[at & mask_] = freed;
    positions_[freed] = at & mask_;
}

void Queue::tell() noexcept {
    if (completed_.load(std::memory_order_relaxed) == finished_) return;
    completed_.store(finished_, std::memory_order_seq_cst);
    const uint32_t wanted = wanted_.load(std::memory_order_seq_cst);
    if (wanted == 0) [[likely]]
        return;
    if (finished_ - reaped_.load(std::memory_order_acquire) < wanted) return;
    if (wanted_.exchange(0, std::memory_order_seq_cst) != 0) {
        [[maybe_unused]] const int failed = ::eventfd_write(descriptor_, 1);
    }
}

bool Queue::ask_for(uint32_t count) noexcept {
    wanted_.store(count, std::memory_order_seq_cst);
    return available() < count;
}

// The core may have read the request for a wake-up and not yet written the eventfd. Then the
// eventfd becomes readable later without a completion. A caller that waits for it finds nothing and
// empties it here again.
void Queue::stop_asking() noexcept {
    wanted_.store(0, std::memory_order_seq_cst);
    eventfd_t count = 0;
    [[maybe_unused]] const int failed = ::eventfd_read(descriptor_, &count);
}

void Queue::arm_descriptor() noexcept {
    if (ask_for(1) || wanted_.exchange(0, std::memory_order_seq_cst) == 0) return;
    [[maybe_unused]] const int failed = ::eventfd_write(descriptor_, 1);
}

void Queue::wait(uint32_t least, int64_t timeout_ns) noexcept {
    const Time until = timeout_ns < 0 ? Time::max() : later(reactor_.now(), Duration(timeout_ns));
    if (Lead lead(reactor_); lead) {
        // The own thread may have led since the caller looked, and finished all there was: then a
        // turn would sleep for ever.
        tell();
        while (available() < least && (until == Time::max() || reactor_.now() < until)) {
            lead.turn(until);
            tell();
        }
    } else {
        const Follow follow(reactor_);
        wait_for_event(least, until);
    }
}

// Waits until the core writes the eventfd.
void Queue::wait_for_event(uint32_t least, Time until) noexcept {
    while (available() < least) {
        const Duration left = until - reactor_.now();
        if (left <= Duration::zero()) return;
        if (ask_for(least)) {
            pollfd readable{.fd = descriptor_, .events = POLLIN, .revents = 0};
            const timespec limit = to_timespec(WallTime(left));
            ::ppoll(&readable, 1, until == Time::max() ? nullptr : &limit, nullptr);
        }
        stop_asking();
    }
}

uint32_t Queue::reap(std::span<ros2s_completion> into, uint32_t least,
                     int64_t timeout_ns) noexcept {
    const KeptErrno kept;
    const uint32_t head = reaped_.load(std::memory_order_relaxed);
    const uint32_t under_way = submitted_.load(std::memory_order_acquire) - head;
    least = std::min({least, static_cast<uint32_t>(into.size()), under_way});
    const bool by_descriptor = by_descriptor_.load(std::memory_order_relaxed);
    if (by_descriptor) stop_asking();
    if (available() < least) {
        if (timeout_ns != 0) {
            wait(least, timeout_ns);
        } else if (!by_descriptor) {
            reactor_.advance();
        }
    }

    const uint32_t count = std::min(available(), static_cast<uint32_t>(into.size()));
    for (uint32_t i = 0; i < count; ++i) {
        into[i] = completions_[(head + i) & mask_];
        release_slot(head + i);
    }
    reaped_.store(head + count, std::memory_order_release);

    if (by_descriptor && count < into.size()) arm_descriptor();
    return count;
}

int Queue::descriptor() noexcept {
    if (!by_descriptor_.exchange(true, std::memory_order_relaxed)) {
        arm_descriptor();
    }
    return descriptor_;
}

}  // namespace ros2s::api
