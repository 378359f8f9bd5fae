// Bytes: borrowed memory. AlignedBuffer: owned memory fit for O_DIRECT.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string_view>

namespace ros2s {

static_assert(std::endian::native == std::endian::little,
              "formats are little-endian structs copied as they lie in memory");

using Bytes = std::span<std::byte>;
using ConstBytes = std::span<const std::byte>;

// The unit of media, checksums and direct I/O everywhere in ros2store.
inline constexpr uint64_t block_bytes = 4096;

template <class T>
[[nodiscard]] constexpr T round_down(T value, T unit) {
    return value / unit * unit;
}
template <class T>
[[nodiscard]] constexpr T round_up(T value, T unit) {
    return (value + unit - 1) / unit * unit;
}

[[nodiscard]] inline ConstBytes as_bytes(std::string_view text) {
    return std::as_bytes(std::span(text.data(), text.size()));
}
[[nodiscard]] inline std::string_view as_text(ConstBytes bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
template <class T>
    requires std::is_trivially_copyable_v<T>
[[nodiscard]] ConstBytes object_bytes(const T& object) {
    return std::as_bytes(std::span(&object, 1));
}

// Memory aligned to block_bytes, not zeroed. Move-only. An empty buffer has size 0.
class AlignedBuffer {
  public:
    AlignedBuffer() = default;
    explicit AlignedBuffer(size_t size)
        : data_(size == 0
                    ? nullptr
                    : static_cast<std::byte*>(::operator new(size, std::align_val_t{block_bytes}))),
          size_(size) {}
    [[nodiscard]] std::byte* data() const { return data_.get(); }
    [[nodiscard]] size_t size() const { return size_; }
    [[nodiscard]] Bytes bytes() const { return {data_.get(), size_}; }

  private:
    struct Free {
        void operator()(std::byte* p) const noexcept {
            ::operator delete(p, std::align_val_t{block_bytes});
        }
    };
    std::unique_ptr<std::byte[], Free> data_;
    size_t size_ = 0;
};

}  // namespace ros2s
