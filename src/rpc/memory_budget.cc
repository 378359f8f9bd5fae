#include "memory_budget.h"

#include <algorithm>
#include <utility>

namespace ros2s::rpc {

void PayloadMemory::take(PayloadMemory& other) noexcept {
    budget_ = std::exchange(other.budget_, nullptr);
    share_ = std::exchange(other.share_, nullptr);
    buffer_ = std::move(other.buffer_);
    size_ = std::exchange(other.size_, 0);
}

void PayloadMemory::release() noexcept {
    if (budget_ == nullptr) return;
    MemoryBudget& budget = *std::exchange(budget_, nullptr);
    budget.held_.subtract(size_);
    share_->release(size_);
    budget.free_.release(size_);
    if (buffer_.size() == MemoryBudget::small_bytes &&
        budget.small_.size() < MemoryBudget::small_kept_max) {
        budget.small_.push_back(std::move(buffer_));
    }
    buffer_ = {};
    size_ = 0;
}

Task<Result<PayloadMemory>> MemoryBudget::take(uint64_t size, Semaphore& share,
                                               uint64_t share_bytes) {
    PayloadMemory memory;
    if (size == 0) co_return memory;
    if (const uint64_t most = std::min(bytes_, share_bytes); size > most) {
        co_return fail(Code::too_large, most);
    }
    // The share first: a connection that waits for itself keeps nobody else waiting.
    co_await share.acquire(size);
    co_await free_.acquire(size);
    held_.add(size);
    memory.budget_ = this;
    memory.share_ = &share;
    memory.size_ = size;
    if (size > small_bytes) {
        memory.buffer_ = AlignedBuffer(size);
    } else if (small_.empty()) {
        memory.buffer_ = AlignedBuffer(small_bytes);
    } else {
        memory.buffer_ = std::move(small_.back());
        small_.pop_back();
    }
    co_return memory;
}

}  // namespace ros2s::rpc
