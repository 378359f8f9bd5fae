// AesBlocks: AES-256 of single blocks, under a key that is derived from a data key for one purpose.
// The CBC-MACs of this module are made of it.
//
// One core uses it. A failure of OpenSSL ends the process.
#pragma once
#include <array>
#include <memory>
#include <string_view>

#include "ros2s/cipher/secret_key.h"

struct evp_cipher_ctx_st;

namespace ros2s::cipher {

class AesBlocks {
  public:
    static constexpr size_t block_bytes = 16;
    using Block = std::array<std::byte, block_bytes>;

    AesBlocks(const SecretKey& data_key, std::string_view purpose);
    void encrypt(Block& block) const;

  private:
    struct Free {
        void operator()(evp_cipher_ctx_st* context) const noexcept;
    };
    std::unique_ptr<evp_cipher_ctx_st, Free> context_;
};

}  // namespace ros2s::cipher
