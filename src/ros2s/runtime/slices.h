// Long computations on a shared core. A checksum or a copy of megabytes takes as long as hundreds
// of short requests, so it is done in slices, and other ready work runs between them.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "ros2s/base/bytes.h"
#include "ros2s/base/inline_vector.h"
#include "ros2s/runtime/call.h"
#include "ros2s/runtime/reactor.h"

namespace ros2s {

// A few microseconds of CRC32C or copying: several times the cost of a yield.
inline constexpr size_t slice_bytes = size_t{64} << 10;

// Calls work(offset, count) for each slice of [0, size), in order. The data must not move until
// this returns. Errors: cancelled, deadline: then the rest was not done.
template <class Work>
Task<Result<>> in_slices(Reactor& reactor, const Call& call, size_t size, Work work) {
    for (size_t at = 0; at < size;) {
        ROS2S_CO_TRY(call.check(reactor));
        const size_t count = std::min(slice_bytes, size - at);
        work(at, count);
        at += count;
        if (at < size) co_await yield(reactor);
    }
    co_return Result<>{};
}

// Copies: the first slice at once, the rest in finish(), in slices.
class SlicedCopies {
  public:
    void add(ConstBytes from, Bytes to) {
        const size_t now = std::min(slice_bytes - done_, from.size());
        if (now > 0) std::memcpy(to.data(), from.data(), now);
        done_ += now;
        if (now < from.size()) rest_.emplace_back(from.subspan(now), to.subspan(now));
    }
    [[nodiscard]] bool done() const noexcept { return rest_.empty(); }
    // Must be called unless done(). All memory passed to add() must not move until it returns.
    Task<> finish(Reactor& reactor) {
        for (auto [from, to] : rest_) {
            while (!from.empty()) {
                co_await yield(reactor);
                const size_t count = std::min(slice_bytes, from.size());
                std::memcpy(to.data(), from.data(), count);
                from = from.subspan(count);
                to = to.subspan(count);
            }
        }
        rest_.clear();
    }

  private:
    size_t done_ = 0;
    InlineVector<std::pair<ConstBytes, Bytes>, 1> rest_;
};

// For loops over many short pieces: yields whenever one slice of work has been done.
class SliceCount {
  public:
    explicit SliceCount(Reactor& reactor) noexcept : reactor_(reactor) {}
    // co_await slices.add(bytes), before working on that many bytes.
    [[nodiscard]] auto add(size_t bytes) noexcept {
        struct Awaiter {
            Reactor& reactor;
            bool ready;
            bool await_ready() const noexcept { return ready; }
            void await_suspend(std::coroutine_handle<> handle) const noexcept {
                reactor.post(handle);
            }
            void await_resume() const noexcept {}
        };
        const bool ready = done_ + bytes <= slice_bytes || done_ == 0;
        done_ = ready ? done_ + bytes : bytes;
        return Awaiter{reactor_, ready};
    }

  private:
    Reactor& reactor_;
    size_t done_ = 0;
};

}  // namespace ros2s
