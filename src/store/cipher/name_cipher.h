// NameCipher: encrypts the keys of a cache's blocks (object/blocks.h), and the checksums in their
// heads, which could confirm a guess of the bytes. A sealed key is as long as the key, and equal
// keys have equal ones, so that blocks are found by it. docs/formats/cipher.md describes both.
//
// Owned by the store that uses it; used on one core. A failure of OpenSSL ends the process.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "ros2s/cipher/secret_key.h"
#include "ros2s/object/blocks.h"

namespace ros2s::cipher {

class NameCipher {
  public:
    explicit NameCipher(const SecretKey& data_key);
    ~NameCipher();
    NameCipher& operator=(NameCipher&&) = delete;

    // Of 1 to block_key_bytes_max bytes.
    [[nodiscard]] std::string seal(std::string_view key);
    [[nodiscard]] std::string open(std::string_view sealed);
    // Seals or opens the head of the block with this sealed key.
    void turn(object::BlockHead& head, std::string_view sealed);

  private:
    // Changes one half of a key by the other.
    void round(int number, std::string& key);

    struct Schedule;
    std::unique_ptr<Schedule> schedule_;
};

}  // namespace ros2s::cipher
