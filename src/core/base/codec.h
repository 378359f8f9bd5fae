// Encoder and Decoder: fixed-width little-endian numbers and byte strings in borrowed memory. The
// decoder never reads beyond its input. After the first short read every value is zero and ok() is
// false, so a caller needs to check only at the end. Input of the decoder is untrusted. Measure has
// the functions of Encoder and only counts: one template can write and measure.
#pragma once
#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>

#include "ros2s/base/bytes.h"
#include "ros2s/base/check.h"
#include "ros2s/base/uuid.h"

namespace ros2s {

class Encoder {
  public:
    explicit Encoder(Bytes into) : into_(into) {}
    // Bytes written so far. Writing beyond the end of the memory is a bug: CHECK.
    [[nodiscard]] size_t size() const { return at_; }

    template <class T>
        requires std::is_integral_v<T>
    void number(T value) {
        raw(&value, sizeof value);
    }
    void uuid(const Uuid& uuid) { raw(uuid.bytes.data(), uuid.bytes.size()); }
    // A byte string, preceded by its length.
    void text(std::string_view text) {
        number(static_cast<uint32_t>(text.size()));
        raw(text.data(), text.size());
    }
    void raw(const void* bytes, size_t count) {
        ROS2S_CHECK(count <= into_.size() - at_);
        if (count > 0) std::memcpy(into_.data() + at_, bytes, count);
        at_ += count;
    }

  private:
    Bytes into_;
    size_t at_ = 0;
};

class Measure {
  public:
    [[nodiscard]] size_t size() const { return size_; }

    template <class T>
        requires std::is_integral_v<T>
    void number(T) {
        size_ += sizeof(T);
    }
    void uuid(const Uuid& uuid) { size_ += uuid.bytes.size(); }
    void text(std::string_view text) { size_ += sizeof(uint32_t) + text.size(); }
    void raw(const void*, size_t count) { size_ += count; }

  private:
    size_t size_ = 0;
};

class Decoder {
  public:
    explicit Decoder(ConstBytes from) : from_(from) {}
    [[nodiscard]] bool ok() const { return ok_; }
    // True if the input was read completely and not beyond its end.
    [[nodiscard]] bool done() const { return ok_ && from_.empty(); }
    [[nodiscard]] size_t left() const { return from_.size(); }
    void refuse() { ok_ = false; }

    template <class T>
        requires std::is_integral_v<T>
    T number() {
        T value{};
        raw(&value, sizeof value);
        return value;
    }
    Uuid uuid() {
        Uuid uuid;
        raw(uuid.bytes.data(), uuid.bytes.size());
        return uuid;
    }
    // A view into the input. A length over `most`, or over the rest of the input, fails.
    std::string_view text(size_t most) {
        const auto length = number<uint32_t>();
        if (!ok_ || length > most || length > from_.size()) {
            ok_ = false;
            return {};
        }
        const std::string_view text = as_text(from_.first(length));
        from_ = from_.subspan(length);
        return text;
    }
    void raw(void* into, size_t count) {
        if (!ok_ || count > from_.size()) {
            ok_ = false;
            return;
        }
        std::memcpy(into, from_.data(), count);
        from_ = from_.subspan(count);
    }

  private:
    ConstBytes from_;
    bool ok_ = true;
};

}  // namespace ros2s
