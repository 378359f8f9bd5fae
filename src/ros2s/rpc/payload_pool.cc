#include "payload_pool.h"

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
    pool_ = std::exchange(other.pool_, nullptr);
    buffer_ = std::move(other.buffer_);
    size_ = std::exchange(other.size_, 0);
}

void PayloadMemory::release() noexcept {
    if (pool_ == nullptr) return;
    PayloadPool& pool = *std::exchange(pool_, nullptr);
    pool.held_.subtract(size_);
    pool.keep(std::move(buffer_));
    size_ = 0;
}

PayloadMemory PayloadPool::take(uint64_t size) {
    PayloadMemory memory;
    if (size == 0) return memory;
    held_.add(size);
    memory.pool_ = this;
    memory.size_ = size;
    memory.buffer_ = piece(size);
    return memory;
}

AlignedBuffer PayloadPool::piece(uint64_t size) {
    const uint64_t whole = piece_bytes(size);
    const auto found = std::ranges::find(std::views::reverse(kept_), whole, &AlignedBuffer::size);
    if (found == kept_.rend()) return AlignedBuffer(whole);
    AlignedBuffer buffer = std::move(*found);
    kept_.erase(std::next(found).base());
    kept_bytes_ -= whole;
    group_.kept_bytes -= whole;
    return buffer;
}

// Sizes that are not requested any more make room for those that are.
void PayloadPool::keep(AlignedBuffer buffer) noexcept {
    if (!keeps || buffer.size() > kept_bytes_max()) return;
    kept_bytes_ += buffer.size();
    group_.kept_bytes += buffer.size();
    kept_.push_back(std::move(buffer));
    auto kept_from = kept_.begin();
    const auto is_over = [this] {
        return kept_bytes_ > kept_bytes_max() || group_.kept_bytes > ServerGroup::kept_bytes_max;
    };
    for (; kept_from != kept_.end() && is_over(); ++kept_from) {
        kept_bytes_ -= kept_from->size();
        group_.kept_bytes -= kept_from->size();
    }
    kept_.erase(kept_.begin(), kept_from);
}

void PayloadPool::drop_spare() noexcept {
    group_.kept_bytes -= std::exchange(kept_bytes_, 0);
    std::vector<AlignedBuffer>().swap(kept_);
}

void ServerGroup::drop_spare() noexcept {
    for (PayloadPool* pool : pools) pool->drop_spare();
}

}  // namespace ros2s::rpc
