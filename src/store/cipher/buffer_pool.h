// BufferPool keeps buffers for ciphertext, so that a large request does not map fresh pages. The
// buffers are private to the store: no other code sees what an earlier request left in one.
//
// Used on one core; outlives its leases.
#pragma once
#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "ros2s/base/bytes.h"
#include "ros2s/cipher/cipher_memory.h"

namespace ros2s::cipher {

class BufferPool {
  public:
    static constexpr size_t kept_bytes_max = size_t{16} << 20;

    explicit BufferPool(CipherMemory& memory) : memory_(memory) {}
    BufferPool(const BufferPool&) = delete;
    BufferPool& operator=(const BufferPool&) = delete;
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

}  // namespace ros2s::cipher
