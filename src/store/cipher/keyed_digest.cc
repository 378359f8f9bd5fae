#include "keyed_digest.h"

#include <openssl/evp.h>

#include "openssl_bytes.h"
#include "ros2s/base/check.h"

namespace ros2s::cipher {
namespace {

constexpr std::string_view digest_key_purpose = "ros2store digest key, version 1";
constexpr size_t aes_block_bytes = 16;
using AesBlock = std::array<std::byte, aes_block_bytes>;

// All inputs have this length, so a CBC-MAC of it is a pseudorandom function.
struct DigestInput {
    std::array<uint8_t, 16> client;
    uint64_t sequence;
    uint64_t digest;
    uint32_t slot;
    std::array<uint8_t, 12> zeros;
};
static_assert(sizeof(DigestInput) == 3 * aes_block_bytes);

}  // namespace

struct KeyedDigest::Schedule {
    std::unique_ptr<EVP_CIPHER_CTX, decltype(&EVP_CIPHER_CTX_free)> context{EVP_CIPHER_CTX_new(),
                                                                            &EVP_CIPHER_CTX_free};
};

KeyedDigest::KeyedDigest(const SecretKey& data_key) : schedule_(std::make_unique<Schedule>()) {
    SecretKey key;
    hkdf_sha256(data_key.bytes(), {}, as_bytes(digest_key_purpose), key.bytes());
    EVP_CIPHER_CTX* const context = schedule_->context.get();
    ROS2S_CHECK(context != nullptr);
    ROS2S_CHECK(EVP_EncryptInit_ex(context, EVP_aes_256_ecb(), nullptr,
                                   octets(ConstBytes(key.bytes())), nullptr) == 1);
    ROS2S_CHECK(EVP_CIPHER_CTX_set_padding(context, 0) == 1);
}
KeyedDigest::~KeyedDigest() = default;

uint64_t KeyedDigest::of(const UpdateName& id) {
    const DigestInput input{.client = id.client.bytes,
                            .sequence = id.sequence,
                            .digest = id.digest,
                            .slot = id.slot,
                            .zeros = {}};
    const ConstBytes bytes = object_bytes(input);
    AesBlock chain{};
    for (size_t at = 0; at < bytes.size(); at += aes_block_bytes) {
        for (size_t i = 0; i < aes_block_bytes; ++i) chain[i] ^= bytes[at + i];
        int length = 0;
        ROS2S_CHECK(EVP_EncryptUpdate(schedule_->context.get(), octets(Bytes(chain)), &length,
                                      octets(ConstBytes(chain)), aes_block_bytes) == 1);
    }
    uint64_t digest = 0;
    std::memcpy(&digest, chain.data(), sizeof(digest));
    return digest == 0 ? 1 : digest;
}

}  // namespace ros2s::cipher
