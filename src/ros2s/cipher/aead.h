// The cryptography of encrypted containers, on OpenSSL: AES-256-GCM over blocks, HKDF-SHA256 for
// the keys of blocks, and AES key wrap (RFC 3394) for data keys.
//
// A failure of OpenSSL itself (not of a tag) is a bug or a lack of memory: it ends the process.
#pragma once
#include <array>
#include <cstdint>
#include <memory>

#include "ros2s/base/bytes.h"
#include "ros2s/base/result.h"

struct evp_cipher_ctx_st;

namespace ros2s::cipher {

inline constexpr size_t key_bytes = 32;
inline constexpr size_t tag_bytes = 16;
inline constexpr size_t nonce_bytes = 12;
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

using Tag = std::array<std::byte, tag_bytes>;
using Nonce = std::array<std::byte, nonce_bytes>;

// AES-256-GCM under one key, in one direction, with the key's schedule ready. One core uses it.
class Gcm {
  public:
    enum class Direction : uint8_t { seal, open };
    Gcm(const SecretKey& key, Direction direction);
    ~Gcm();
    Gcm(Gcm&&) noexcept;
    Gcm& operator=(Gcm&&) noexcept;

    // `out` has the length of `plain`. A nonce is used once per key.
    void seal(const Nonce& nonce, ConstBytes authenticated, ConstBytes plain, Bytes out, Tag& tag);
    // False: the bytes are not what was sealed. `out` then holds nothing of use: erase it.
    [[nodiscard]] bool open(const Nonce& nonce, ConstBytes authenticated, ConstBytes sealed,
                            Bytes out, const Tag& tag);

  private:
    struct Free {
        void operator()(evp_cipher_ctx_st* context) const noexcept;
    };
    std::unique_ptr<evp_cipher_ctx_st, Free> context_;
};

}  // namespace ros2s::cipher
