#include "payload_pool.h"

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
    own_ = std::move(other.own_);
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
}

void PayloadMemory::release() noexcept {
    if (pool_ == nullptr) return;
    PayloadPool& pool = *std::exchange(pool_, nullptr);
    pool.held_.subtract(size_);
    if (own_.size() > 0) {
        pool.give_piece(std::move(own_));
    } else {
        pool.give_part(data_, PayloadPool::piece_bytes(size_));
    }
    data_ = nullptr;
    size_ = 0;
}

PayloadMemory PayloadPool::take(uint64_t size) {
    PayloadMemory memory;
    if (size == 0) return memory;
    held_.add(size);
    memory.pool_ = this;
    memory.size_ = size;
    const uint64_t piece = piece_bytes(size);
    memory.data_ = take_part(piece);
    if (memory.data_ == nullptr) {
        memory.own_ = take_piece(piece);
        memory.data_ = memory.own_.data();
    }
    return memory;
}

std::byte* PayloadPool::take_part(uint64_t piece) {
    if (!keeps || piece < large_piece_bytes || piece > huge_page_bytes) return nullptr;
    const uint32_t parts = parts_of(piece);
    const auto last = static_cast<unsigned>((huge_page_bytes - piece) / large_piece_bytes);
    for (HugePage& page : pages_) {
        for (unsigned at = 0; at <= last; ++at) {
            if ((page.used & parts << at) != 0) continue;
            page.used |= parts << at;
            return page.memory.data() + at * large_piece_bytes;
        }
    }
    if (!make_room(huge_page_bytes)) return nullptr;
    count_kept(huge_page_bytes, 0);
    return pages_.emplace_back(HugePage{StagingMemory(huge_page_bytes), parts}).memory.data();
}

void PayloadPool::give_part(const std::byte* data, uint64_t piece) noexcept {
    const auto page = std::ranges::find_if(pages_, [&](const HugePage& each) {
        return data >= each.memory.data() && data < each.memory.data() + huge_page_bytes;
    });
    const auto at = static_cast<uint64_t>(data - page->memory.data()) / large_piece_bytes;
    page->used &= ~(parts_of(piece) << at);
}

StagingMemory PayloadPool::take_piece(uint64_t piece) {
    const auto found = std::ranges::find(std::views::reverse(kept_), piece, &StagingMemory::size);
    if (found == kept_.rend()) return StagingMemory(piece);
    StagingMemory memory = std::move(*found);
    kept_.erase(std::next(found).base());
    count_kept(0, piece);
    return memory;
}

void PayloadPool::give_piece(StagingMemory memory) noexcept {
    if (!keeps || !make_room(memory.size())) return;
    count_kept(memory.size(), 0);
    kept_.push_back(std::move(memory));
}

// Sizes that are not requested any more make room for those that are.
bool PayloadPool::make_room(uint64_t bytes) noexcept {
    const auto lacks = [&] {
        return kept_bytes_ + bytes > kept_bytes_max() ||
               group_.kept_bytes + bytes > ServerGroup::kept_bytes_max;
    };
    auto kept_from = kept_.begin();
    for (; kept_from != kept_.end() && lacks(); ++kept_from) count_kept(0, kept_from->size());
    kept_.erase(kept_.begin(), kept_from);
    std::erase_if(pages_, [&](const HugePage& each) {
        const bool drops = each.used == 0 && lacks();
        if (drops) count_kept(0, huge_page_bytes);
        return drops;
    });
    return !lacks();
}

void PayloadPool::drop_spare() noexcept {
    std::vector<StagingMemory>().swap(kept_);
    std::erase_if(pages_, [](const HugePage& each) { return each.used == 0; });
    count_kept(pages_.size() * huge_page_bytes, kept_bytes_);
}

void ServerGroup::drop_spare() noexcept {
    for (PayloadPool* pool : pools) pool->drop_spare();
}

}  // namespace ros2s::rpc
