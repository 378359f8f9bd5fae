#include "payload_pool.h"

#include <bit>
#include <iterator>
#include <ranges>
#include <utility>

#include "ros2s/runtime/ring.h"

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

int PayloadPool::Pages::room_in(const Page& page, uint64_t piece) const noexcept {
    uint32_t free = ~page.used & parts_of(page_bytes);
    for (uint64_t more = 1; more < piece / part_bytes; ++more) free &= free >> 1;
    return free == 0 ? -1 : std::countr_zero(free);
}

std::byte* PayloadPool::take_part(uint64_t piece) {
    Pages* const of = pages_for(piece);
    if (!keeps || of == nullptr) return nullptr;
    const auto take = [&](Page& page, int at) {
        page.used |= of->parts_of(piece) << at;
        return page.memory.data() + static_cast<uint64_t>(at) * of->part_bytes;
    };
    for (Page& page : of->pages) {
        if (const int at = of->room_in(page, piece); at >= 0) return take(page, at);
    }
    if (!make_room(of->page_bytes)) return nullptr;
    count_kept(of->page_bytes, 0);
    Page& page = of->pages.emplace_back(Page{.memory = StagingMemory(of->page_bytes)});
    if (of == &small_) enlist(page);
    return take(page, 0);
}

void PayloadPool::give_part(const std::byte* data, uint64_t piece) noexcept {
    Pages& of = *pages_for(piece);
    const auto page = std::ranges::find_if(of.pages, [&](const Page& each) {
        return data >= each.memory.data() && data < each.memory.data() + of.page_bytes;
    });
    const auto at = static_cast<uint64_t>(data - page->memory.data()) / of.part_bytes;
    page->used &= ~(of.parts_of(piece) << at);
}

void PayloadPool::enlist(Page& page) noexcept {
    if (group_.payload_ring == nullptr) return;
    if (group_.registered_pages == ServerGroup::registered_pages_max) return;
    page.is_registered =
        group_.payload_ring->register_memory({page.memory.data(), page.memory.size()});
    if (page.is_registered) ++group_.registered_pages;
}

template <class Lacks>
void PayloadPool::drop_pages(Pages& of, Lacks lacks) noexcept {
    std::erase_if(of.pages, [&](const Page& each) {
        if (each.used != 0 || !lacks()) return false;
        count_kept(0, of.page_bytes);
        if (each.is_registered) {
            group_.payload_ring->unregister_memory({each.memory.data(), each.memory.size()});
            --group_.registered_pages;
        }
        return true;
    });
}

// The smallest that is kept and large enough, and not much larger.
StagingMemory PayloadPool::take_piece(uint64_t piece) {
    auto found = kept_.end();
    for (auto each = kept_.begin(); each != kept_.end(); ++each) {
        const bool fits = each->size() >= piece && each->size() <= piece + piece / 4;
        if (fits && (found == kept_.end() || each->size() <= found->size())) found = each;
    }
    if (found == kept_.end()) return StagingMemory(piece);
    StagingMemory memory = std::move(*found);
    kept_.erase(found);
    count_kept(0, memory.size());
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
    drop_pages(large_, lacks);
    drop_pages(small_, lacks);
    return !lacks();
}

void PayloadPool::drop_spare() noexcept {
    for (const StagingMemory& each : kept_) count_kept(0, each.size());
    std::vector<StagingMemory>().swap(kept_);
    const auto always = [] { return true; };
    drop_pages(large_, always);
    drop_pages(small_, always);
}

void ServerGroup::drop_spare() noexcept {
    for (PayloadPool* pool : pools) pool->drop_spare();
}

}  // namespace ros2s::rpc
