#include "memory_budget.h"

#include <algorithm>
#include <iterator>
#include <ranges>
#include <utility>

namespace ros2s::rpc {
namespace {

#ifdef ROS2S_SANITIZED
constexpr bool keeps = false;  // so that use after free is seen
#else
constexpr bool keeps = true;
#endif

}  // namespace

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
    budget.keep(std::move(buffer_));
    size_ = 0;
}

AlignedBuffer MemoryBudget::piece(uint64_t size) {
    const uint64_t whole = round_up(size, piece_bytes);
    const auto found = std::ranges::find(std::views::reverse(kept_), whole, &AlignedBuffer::size);
    if (found == kept_.rend()) return AlignedBuffer(whole);
    AlignedBuffer buffer = std::move(*found);
    kept_.erase(std::next(found).base());
    kept_bytes_ -= whole;
    return buffer;
}

// The sizes that nobody asks for any more make room for those that somebody does.
void MemoryBudget::keep(AlignedBuffer buffer) noexcept {
    if (!keeps || buffer.size() > kept_bytes_max()) return;
    kept_bytes_ += buffer.size();
    kept_.push_back(std::move(buffer));
    auto kept_from = kept_.begin();
    for (; kept_bytes_ > kept_bytes_max(); ++kept_from) kept_bytes_ -= kept_from->size();
    kept_.erase(kept_.begin(), kept_from);
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
    memory.buffer_ = piece(size);
    co_return memory;
}

}  // namespace ros2s::rpc
