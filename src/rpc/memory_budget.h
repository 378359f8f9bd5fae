// MemoryBudget: memory for payload that is on its way through a server, bounded in all and for each
// connection, first come first served. Small pieces are used again. Used on one core; outlives what
// it gave.
#pragma once
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

  private:
    friend class PayloadMemory;
    static constexpr uint64_t small_bytes = uint64_t{64} << 10;
    static constexpr size_t small_kept_max = 64;

    const uint64_t bytes_;
    Semaphore free_;
    Counter& held_;
    std::vector<AlignedBuffer> small_;
};

}  // namespace ros2s::rpc
