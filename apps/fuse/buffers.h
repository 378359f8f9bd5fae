// Buffers of one mount, kept for reuse. A large malloc is a new mapping each time, and its page
// faults would cost more than the copy into it.
#pragma once
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "ros2s/base/bytes.h"

namespace ros2s::fuse {

// The largest read or write that the kernel sends in one request.
inline constexpr size_t transfer_bytes_max = 1 << 20;

// The memory that receives one request. libfuse allocates it (its size is private to libfuse).
struct FreeDeleter {
    void operator()(void* memory) const noexcept { std::free(memory); }
};
using ReceiveBuffer = std::unique_ptr<void, FreeDeleter>;

// Keeps at most `limit` idle objects.
template <class T>
class Spares {
  public:
    explicit Spares(size_t limit) : limit_(limit) { idle_.reserve(limit); }
    // Empty if none is idle.
    [[nodiscard]] T take() {
        if (idle_.empty()) return T{};
        T spare = std::move(idle_.back());
        idle_.pop_back();
        return spare;
    }
    void give(T spare) {
        if (idle_.size() < limit_) idle_.push_back(std::move(spare));
    }
    void drop() noexcept { idle_.clear(); }

  private:
    size_t limit_;
    std::vector<T> idle_;
};

// Aligned memory for reads, in two sizes: most reads are pages, streams are 1 MiB.
class ReadBuffers {
  public:
    explicit ReadBuffers(size_t limit) : small_(limit), large_(limit) {}
    [[nodiscard]] AlignedBuffer take(size_t bytes) {
        const bool is_small = bytes <= small_bytes;
        AlignedBuffer buffer = (is_small ? small_ : large_).take();
        if (buffer.size() == 0) {
            buffer = AlignedBuffer(is_small ? small_bytes : round_up(bytes, transfer_bytes_max));
        }
        return buffer;
    }
    void give(AlignedBuffer buffer) {
        (buffer.size() <= small_bytes ? small_ : large_).give(std::move(buffer));
    }
    void drop() noexcept {
        small_.drop();
        large_.drop();
    }

  private:
    static constexpr size_t small_bytes = 16 * 1024;
    Spares<AlignedBuffer> small_, large_;
};

}  // namespace ros2s::fuse
