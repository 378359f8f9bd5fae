// PayloadPool: memory for payload that passes through a server. Its amount is decided when the
// request is admitted (ServerGroup). Used on one core; outlives the memory that it gives.
//
// Pieces are reused: new pieces of a MiB are new pages. The kernel clears each page, which costs
// more than copying into it. So up to kept_bytes_max() stay here; all pools of a group keep at most
// ServerGroup::kept_bytes_max. If a server serves one tenant, so does its pool: no other tenant
// gets memory with that tenant's data.
//
// Pieces share pages. Large ones share huge pages: a device then has one address for a read,
// instead of one for each 4 KiB (docs/performance.md). Small ones share pages of 64 KiB; the first
// of these are registered with the ring, so that the kernel does not look up their addresses for
// each read. Pages count as kept also while they are in use.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "ros2s/base/bytes.h"
#include "ros2s/base/check.h"
#include "ros2s/base/metrics.h"
#include "ros2s/base/staging_memory.h"
#include "ros2s/rpc/server_group.h"

namespace ros2s::rpc {

class PayloadPool;

// Memory, aligned to block_bytes, that returns to its pool.
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
    [[nodiscard]] Bytes bytes() const noexcept { return {data_, size_}; }

  private:
    friend class PayloadPool;
    void take(PayloadMemory& other) noexcept;
    void release() noexcept;
    PayloadPool* pool_ = nullptr;
    StagingMemory own_;  // empty: it is a part of a page of the pool
    std::byte* data_ = nullptr;
    size_t size_ = 0;
};

class PayloadPool {
  public:
    PayloadPool(ServerGroup& group, Counter& held) : group_(group), held_(held) {
        group_.pools.push_back(this);
    }
    ~PayloadPool() {
        drop_spare();
        ROS2S_CHECK(kept_bytes_ == 0);
        std::erase(group_.pools, this);
    }
    PayloadPool& operator=(PayloadPool&&) = delete;

    [[nodiscard]] PayloadMemory take(uint64_t size);

    // Frees what it keeps.
    void drop_spare() noexcept;

    [[nodiscard]] static constexpr uint64_t kept_bytes_max() noexcept { return uint64_t{64} << 20; }
    [[nodiscard]] uint64_t kept_bytes() const noexcept { return kept_bytes_; }

  private:
    friend class PayloadMemory;
    // Smaller pieces are whole blocks, the others multiples of large_piece_bytes. Small pieces at
    // multiples of 64 KiB would all use the same lines of the processor's caches.
    static constexpr uint64_t large_piece_bytes = uint64_t{64} << 10;
    [[nodiscard]] static constexpr uint64_t piece_bytes(uint64_t size) noexcept {
        return round_up<uint64_t>(size, size < large_piece_bytes ? block_bytes : large_piece_bytes);
    }
    struct Page {
        StagingMemory memory;
        uint32_t used = 0;  // a bit for each part, the lowest for the first
        bool is_registered = false;
    };
    // Pages with 32 parts or fewer, for pieces of whole parts.
    struct Pages {
        uint64_t part_bytes, page_bytes;
        std::vector<Page> pages{};
        [[nodiscard]] uint32_t parts_of(uint64_t piece) const noexcept {
            return ~uint32_t{0} >> (32 - piece / part_bytes);
        }
        // The first of so many adjacent parts that the page has free; -1: it has not as many.
        [[nodiscard]] int room_in(const Page& page, uint64_t piece) const noexcept;
    };
    // Null: pieces of this size are not parts of pages.
    [[nodiscard]] Pages* pages_for(uint64_t piece) noexcept {
        if (piece < large_piece_bytes) return &small_;
        return piece <= large_.page_bytes ? &large_ : nullptr;
    }

    // A part of a page. Null: no page has it, and there is no room for one more.
    [[nodiscard]] std::byte* take_part(uint64_t piece);
    void give_part(const std::byte* data, uint64_t piece) noexcept;
    [[nodiscard]] StagingMemory take_piece(uint64_t piece);
    void give_piece(StagingMemory memory) noexcept;
    void enlist(Page& page) noexcept;
    // Frees unused pages as long as `lacks()`.
    template <class Lacks>
    void drop_pages(Pages& of, Lacks lacks) noexcept;
    // Frees spare memory until this much more may be kept. False: there is not enough.
    bool make_room(uint64_t bytes) noexcept;
    void count_kept(uint64_t more, uint64_t less) noexcept {
        kept_bytes_ += more - less;
        group_.kept_bytes += more - less;
    }

    ServerGroup& group_;
    Counter& held_;
    std::vector<StagingMemory> kept_;  // those given back last at the end
    Pages small_{.part_bytes = block_bytes, .page_bytes = large_piece_bytes};
    Pages large_{.part_bytes = large_piece_bytes, .page_bytes = StagingMemory::huge_page_bytes};
    static_assert(large_piece_bytes / block_bytes <= 32);
    static_assert(StagingMemory::huge_page_bytes / large_piece_bytes <= 32);
    uint64_t kept_bytes_ = 0;
};

}  // namespace ros2s::rpc
