// FrameReader: cuts a stream of bytes into frames. Each frame follows its length
// (docs/formats/fabric.md). The bytes are a peer's: any length that is not a frame's is an error.
//
//     length ──► bytes ──► whole ──next()──► length
#pragma once
#include <array>
#include <cstring>
#include <memory>

#include "ros2s/base/bytes.h"
#include "ros2s/base/result.h"
#include "ros2s/fabric/packet/wire.h"

namespace ros2s::fabric::tls {

// Before each frame.
struct FrameLength {
    uint32_t bytes = 0;  // 1 to frame_bytes
    uint32_t zero = 0;
};
static_assert(sizeof(FrameLength) == frame_head_bytes &&
              std::has_unique_object_representations_v<FrameLength>);

class FrameReader {
  public:
    FrameReader() : frame_(std::make_unique_for_overwrite<std::byte[]>(frame_bytes)) {}

    // Returns the memory for the next bytes of the stream. Not empty unless a frame is complete.
    [[nodiscard]] Bytes wanted() noexcept {
        return (size_ == 0 ? Bytes(length_) : Bytes(frame_.get(), size_)).subspan(have_);
    }
    // Call it after that many of them were received. Errors: corrupt (the length is not a valid
    // one).
    [[nodiscard]] Result<> took(size_t count) noexcept {
        have_ += count;
        if (size_ > 0 || have_ < length_.size()) return {};
        FrameLength length;
        std::memcpy(&length, length_.data(), sizeof length);
        if (length.bytes == 0 || length.bytes > frame_bytes || length.zero != 0) {
            return fail(Code::corrupt);
        }
        size_ = length.bytes;
        have_ = 0;
        return {};
    }
    [[nodiscard]] bool is_whole() const noexcept { return size_ > 0 && have_ == size_; }
    [[nodiscard]] ConstBytes frame() const noexcept { return {frame_.get(), have_}; }
    void next() noexcept { have_ = size_ = 0; }

  private:
    std::array<std::byte, sizeof(FrameLength)> length_{};
    std::unique_ptr<std::byte[]> frame_;
    size_t have_ = 0;  // of the length, then of the frame
    size_t size_ = 0;  // of the frame; 0: its length is not known
};

}  // namespace ros2s::fabric::tls
