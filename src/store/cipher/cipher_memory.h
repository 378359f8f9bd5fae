// CipherMemory: the bytes that all encrypted containers of a process keep. The common limit
// prevents a tenant that mounts many containers from taking all memory of a DPU.
//
// Shared by the stores that use it; on one core.
#pragma once
#include <algorithm>
#include <bit>
#include <cstddef>
#include <list>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "ros2s/base/bytes.h"
#include "ros2s/cipher/block_cipher.h"

namespace ros2s::cipher {

struct CipherMemory {
    static constexpr size_t cells_max = size_t{64} << 20;
    static constexpr size_t buffers_max = size_t{64} << 20;
    size_t cells = 0;    // in all CellCaches
    size_t buffers = 0;  // in all BufferPools, for later requests
};

// BufferPool keeps buffers for ciphertext, so that a large request does not map fresh pages. The
// buffers are private to the store: no other code sees what an earlier request left in one.
//
// Used on one core; outlives its leases.
class BufferPool {
  public:
    static constexpr size_t kept_bytes_max = size_t{16} << 20;

    explicit BufferPool(CipherMemory& memory) : memory_(memory) {}
    BufferPool& operator=(BufferPool&&) = delete;
    ~BufferPool() { memory_.buffers -= kept_bytes_; }

    class Buffer {
      public:
        Buffer() = default;
        Buffer(Buffer&& other) noexcept
            : pool_(std::exchange(other.pool_, nullptr)),
              buffer_(std::move(other.buffer_)),
              size_(other.size_) {}
        Buffer& operator=(Buffer&& other) noexcept {
            std::swap(pool_, other.pool_);
            std::swap(buffer_, other.buffer_);
            std::swap(size_, other.size_);
            return *this;
        }
        ~Buffer() {
            if (pool_ != nullptr) pool_->give_back(std::move(buffer_));
        }
        [[nodiscard]] Bytes bytes() const { return buffer_.bytes().first(size_); }

      private:
        friend class BufferPool;
        Buffer(BufferPool& pool, AlignedBuffer buffer, size_t size)
            : pool_(&pool), buffer_(std::move(buffer)), size_(size) {}
        BufferPool* pool_ = nullptr;
        AlignedBuffer buffer_;
        size_t size_ = 0;
    };

    // Aligned for direct I/O, not zeroed.
    [[nodiscard]] Buffer take(size_t size) {
        const size_t rounded = std::bit_ceil(std::max<size_t>(size, block_bytes));
        const auto found = std::ranges::find_if(
            kept_, [rounded](const AlignedBuffer& buffer) { return buffer.size() == rounded; });
        if (found == kept_.end()) return {*this, AlignedBuffer(rounded), size};
        AlignedBuffer buffer = std::move(*found);
        *found = std::move(kept_.back());
        kept_.pop_back();
        kept_bytes_ -= rounded;
        memory_.buffers -= rounded;
        return {*this, std::move(buffer), size};
    }

  private:
    void give_back(AlignedBuffer buffer) {
        if (kept_bytes_ + buffer.size() > kept_bytes_max ||
            memory_.buffers + buffer.size() > CipherMemory::buffers_max) {
            return;
        }
        kept_bytes_ += buffer.size();
        memory_.buffers += buffer.size();
        kept_.push_back(std::move(buffer));
    }
    CipherMemory& memory_;
    std::vector<AlignedBuffer> kept_;
    size_t kept_bytes_ = 0;
};

// CellCache: cells from earlier fetches. A read whose cells are here fetches only the blocks. It
// compares the array's epoch, which comes with them: if the array has not changed, its cells have
// not either. The cache therefore needs no notice of updates.
//
// Used on one core. Bounded, by itself and together with others (CipherMemory). It drops the least
// recently used arrays first.
class CellCache {
  public:
    static constexpr size_t bytes_max_default = size_t{16} << 20;  // of 0.9 GiB of files

    static constexpr uint64_t blocks_max = 8192;  // of an array; cells of later blocks are not kept

    explicit CellCache(CipherMemory& memory, size_t bytes_max = bytes_max_default)
        : memory_(memory), bytes_max_(bytes_max) {}
    CellCache& operator=(CellCache&&) = delete;
    ~CellCache() { memory_.cells -= bytes_; }

    // Copies the cells of the blocks from `first` on, and returns the epoch of the array to which
    // they belong. Empty if some of them are not here.
    [[nodiscard]] std::optional<object::Epoch> find(object::ObjectId object,
                                                    const object::Dkey& dkey, uint64_t first,
                                                    std::span<Cell> cells);
    // Adds cells of blocks of this epoch. Drops cells of an older epoch.
    void add(object::ObjectId object, const object::Dkey& dkey, object::Epoch epoch, uint64_t first,
             std::span<const Cell> cells);
    [[nodiscard]] size_t bytes() const { return bytes_; }

  private:
    using Name = std::pair<object::ObjectId, object::Dkey>;
    struct Array {
        Name name;
        object::Epoch epoch{};
        std::vector<std::optional<Cell>> cells;
        [[nodiscard]] size_t bytes() const {
            return sizeof(Array) + cells.size() * sizeof(std::optional<Cell>);
        }
    };
    void count(const Array& array);
    void uncount(const Array& array);
    void drop(std::list<Array>::iterator array);

    CipherMemory& memory_;
    size_t bytes_max_;
    size_t bytes_ = 0;
    std::list<Array> arrays_;  // the last used first
    std::map<Name, std::list<Array>::iterator> by_name_;
};

}  // namespace ros2s::cipher
