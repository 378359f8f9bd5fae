#include "frame_reader.h"

namespace ros2s::fabric::tls {

Bytes FrameReader::wanted() noexcept {
    if (size_ == 0) return Bytes(length_).subspan(have_);
    return Bytes(frame_.get(), size_).subspan(have_);
}

Result<> FrameReader::took(size_t count) noexcept {
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

}  // namespace ros2s::fabric::tls
