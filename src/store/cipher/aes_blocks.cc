#include "aes_blocks.h"

#include <openssl/evp.h>

#include "openssl_bytes.h"
#include "ros2s/base/check.h"

namespace ros2s::cipher {

void AesBlocks::Free::operator()(evp_cipher_ctx_st* context) const noexcept {
    EVP_CIPHER_CTX_free(context);
}

AesBlocks::AesBlocks(const SecretKey& data_key, std::string_view purpose)
    : context_(EVP_CIPHER_CTX_new()) {
    SecretKey key;
    hkdf_sha256(data_key.bytes(), {}, as_bytes(purpose), key.bytes());
    ROS2S_CHECK(context_ != nullptr);
    ROS2S_CHECK(EVP_EncryptInit_ex(context_.get(), EVP_aes_256_ecb(), nullptr,
                                   octets(ConstBytes(key.bytes())), nullptr) == 1);
    ROS2S_CHECK(EVP_CIPHER_CTX_set_padding(context_.get(), 0) == 1);
}

void AesBlocks::encrypt(Block& block) const {
    int length = 0;
    ROS2S_CHECK(EVP_EncryptUpdate(context_.get(), octets(Bytes(block)), &length,
                                  octets(ConstBytes(block)), block_bytes) == 1);
}

}  // namespace ros2s::cipher
