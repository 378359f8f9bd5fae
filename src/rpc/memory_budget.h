// MemoryBudget: memory for payload that is on its way through a server, bounded in all and for each
// connection, first come first served. Used on one core; outlives what it gave.
//
// Pieces are used again: new ones of a MiB are new pages, which the kernel clears one by one, and
// that costs more than copying into them. So up to kept_bytes_max() beyond the budget stay with it.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "ros2s/base/bytes.h"
#include "ros2s/base/metrics.h"
#include "ros2s/base/result.h"
#include "ros2s/runtime/sync.h"
#include "ros2s/runtime/task.h"

namespace ros2s::rpc {

class MemoryBudget;

// Memory, aligned to block_bytes, that goes back to its budget.
class [[nodiscard]] PayloadMemory {
  public:
    PayloadMemory() = default;
    PayloadMemory(PayloadMemory&& other) noexcept { take(other); }
    PayloadMemory& operator=(PayloadMemory&& other) noexcept {
        if (this != &other) {
            release();
            take(other);
        }
        return *this;
    }
    ~PayloadMemory() { release(); }
    [[nodiscard]] Bytes bytes() const noexcept { return buffer_.bytes().first(size_); }

  private:
    friend class MemoryBudget;
    void take(PayloadMemory& other) noexcept;
    void release() noexcept;
    MemoryBudget* budget_ = nullptr;
    Semaphore* share_ = nullptr;
    AlignedBuffer buffer_;
    size_t size_ = 0;
};

class MemoryBudget {
  public:
    MemoryBudget(Reactor& reactor, uint64_t bytes, Counter& held)
        : bytes_(bytes), free_(reactor, bytes), held_(held) {}

    // Suspends while there is none. `share` is the connection's part. Errors: too_large (more than
    // budget or share ever have; detail = which that is).
    Task<Result<PayloadMemory>> take(uint64_t size, Semaphore& share, uint64_t share_bytes);

    [[nodiscard]] uint64_t kept_bytes_max() const noexcept {
        return std::min(bytes_ / 4, uint64_t{64} << 20);
    }
    [[nodiscard]] uint64_t kept_bytes() const noexcept { return kept_bytes_; }

  private:
    friend class PayloadMemory;
    // Pieces are multiples of it, so that requests of about the same size share them.
    static constexpr uint64_t piece_bytes = uint64_t{64} << 10;

    [[nodiscard]] AlignedBuffer piece(uint64_t size);
    void keep(AlignedBuffer buffer) noexcept;

    const uint64_t bytes_;
    Semaphore free_;
    Counter& held_;
    std::vector<AlignedBuffer> kept_;  // those given back last at the end
    uint64_t kept_bytes_ = 0;
};

}  // namespace ros2s::rpc
