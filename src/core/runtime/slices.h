// Long computations on a shared core. A checksum or a copy of megabytes takes as long as hundreds
// of short requests, so it is done in slices, and other ready work runs between them.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <utility>

#include "ros2s/base/bytes.h"
#include "ros2s/base/inline_vector.h"
#include "ros2s/runtime/call.h"
#include "ros2s/runtime/reactor.h"
#include "ros2s/runtime/sync.h"

namespace ros2s {

// A few microseconds of CRC32C or copying: several times the cost of a yield.
inline constexpr size_t slice_bytes = size_t{64} << 10;

// Jobs in slices, one after the other. Side by side all would end together, and what follows each
// of them would wait for the last one. A job lets the others go first after each `turn_bytes`, so
// that they do not wait for all of a long one.
class SliceTurns {
  public:
    static constexpr size_t turn_bytes = size_t{1} << 20;

    explicit SliceTurns(Reactor& reactor) noexcept : reactor_(reactor), one_(reactor, 1) {}
    [[nodiscard]] Reactor& reactor() const noexcept { return reactor_; }

  private:
    friend class SlicedJob;
    Reactor& reactor_;
    Semaphore one_;
};

class SlicedJob {
  public:
    explicit SlicedJob(SliceTurns& turns) noexcept : turns_(turns) {}
    // Before each slice. Waits for the job's turn, and lets other work run.
    Task<> slice(size_t bytes) {
        if (turn_) co_await yield(turns_.reactor_);
        if (!turn_ || done_ >= SliceTurns::turn_bytes) {
            turn_.reset();
            co_await turns_.one_.acquire();
            turn_.emplace(turns_.one_);
            done_ = 0;
        }
        done_ += bytes;
    }

  private:
    SliceTurns& turns_;
    std::optional<SemaphoreHold> turn_;
    size_t done_ = 0;  // in this turn
};

// Calls work(offset, count) for each slice of [0, size), in order. The data must not move until
// this returns. Errors: cancelled, deadline: then the rest was not done.
template <class Work>
Task<Result<>> in_slices(SliceTurns& turns, const Call& call, size_t size, Work work) {
    SlicedJob job(turns);
    for (size_t at = 0; at < size;) {
        const size_t count = std::min(slice_bytes, size - at);
        co_await job.slice(count);
        ROS2S_CO_TRY(call.check(turns.reactor()));
        work(at, count);
        at += count;
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
    Task<> finish(SliceTurns& turns) {
        SlicedJob job(turns);
        for (auto [from, to] : rest_) {
            while (!from.empty()) {
                const size_t count = std::min(slice_bytes, from.size());
                co_await job.slice(count);
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
