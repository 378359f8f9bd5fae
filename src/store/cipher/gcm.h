// Gcm: AES-256-GCM under one key, with a prepared key schedule. It uses Intel's IPsec library on
// x86-64, because Debian's OpenSSL (3.0) does not use the vector instructions for AES, and OpenSSL
// elsewhere.
//
// One core uses it. A failure of a library itself (not of a tag) is a bug or a lack of memory: it
// ends the process.
#pragma once
#include <memory>

#include "ros2s/cipher/secret_key.h"

namespace ros2s::cipher {

inline constexpr size_t tag_bytes = 16;
inline constexpr size_t nonce_bytes = 12;
using Tag = std::array<std::byte, tag_bytes>;
using Nonce = std::array<std::byte, nonce_bytes>;

class Gcm {
  public:
    explicit Gcm(const SecretKey& key);
    ~Gcm();
    Gcm(Gcm&&) noexcept;
    Gcm& operator=(Gcm&&) noexcept;

    // `out` has the length of `plain`, and does not overlap it. A nonce is used once per key.
    void seal(const Nonce& nonce, ConstBytes authenticated, ConstBytes plain, Bytes out, Tag& tag);
    // False: the bytes are not the sealed ones. `out` is then not valid: erase it.
    [[nodiscard]] bool open(const Nonce& nonce, ConstBytes authenticated, ConstBytes sealed,
                            Bytes out, const Tag& tag);

  private:
    struct Schedule;
    std::unique_ptr<Schedule> schedule_;
};

}  // namespace ros2s::cipher
