// Secret keys and their functions, on OpenSSL: HKDF-SHA256 derives the keys of blocks, and AES key
// wrap (RFC 3394) wraps data keys.
//
// A failure of OpenSSL itself is a bug or a lack of memory: it ends the process.
#pragma once
#include <array>
#include <cstdint>

#include "ros2s/base/bytes.h"
#include "ros2s/base/result.h"

namespace ros2s::cipher {

inline constexpr size_t key_bytes = 32;
inline constexpr size_t wrapped_bytes = key_bytes + 8;

// 256 secret bits. The memory is overwritten when the object ends.
class SecretKey {
  public:
    SecretKey() = default;
    explicit SecretKey(std::span<const std::byte, key_bytes> bytes);
    SecretKey(const SecretKey&) = default;
    SecretKey& operator=(const SecretKey&) = default;
    ~SecretKey();
    // From the kernel's generator of the reactor, or any source of 64-bit secrets.
    template <class Source>
    [[nodiscard]] static SecretKey make(const Source& secrets) {
        SecretKey key;
        for (size_t at = 0; at < key_bytes; at += sizeof(uint64_t)) {
            const uint64_t word = secrets.next();
            std::memcpy(key.bytes_.data() + at, &word, sizeof(word));
        }
        return key;
    }
    [[nodiscard]] std::span<const std::byte, key_bytes> bytes() const { return bytes_; }
    [[nodiscard]] std::span<std::byte, key_bytes> bytes() { return bytes_; }

  private:
    std::array<std::byte, key_bytes> bytes_{};
};

// HKDF (RFC 5869) with SHA-256. `out` has at most 8160 bytes.
void hkdf_sha256(ConstBytes key, ConstBytes salt, ConstBytes purpose, Bytes out);

using WrappedKey = std::array<std::byte, wrapped_bytes>;
[[nodiscard]] WrappedKey wrap(const SecretKey& wrapping, const SecretKey& key);
// Errors: corrupt (another wrapping key, or changed bytes).
[[nodiscard]] Result<SecretKey> unwrap(const SecretKey& wrapping, const WrappedKey& wrapped);

}  // namespace ros2s::cipher
