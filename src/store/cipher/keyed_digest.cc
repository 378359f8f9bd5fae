#include "keyed_digest.h"

#include <cstring>

namespace ros2s::cipher {
namespace {

constexpr std::string_view digest_key_purpose = "ros2store digest key, version 1";

// All inputs have this length, so a CBC-MAC of it is a pseudorandom function.
struct DigestInput {
    std::array<uint8_t, 16> client;
    uint64_t sequence;
    uint64_t digest;
    uint32_t slot;
    std::array<uint8_t, 12> zeros;
};
static_assert(sizeof(DigestInput) == 3 * AesBlocks::block_bytes);

}  // namespace

KeyedDigest::KeyedDigest(const SecretKey& data_key) : aes_(data_key, digest_key_purpose) {}

uint64_t KeyedDigest::of(const UpdateName& id) {
    const DigestInput input{.client = id.client.bytes,
                            .sequence = id.sequence,
                            .digest = id.digest,
                            .slot = id.slot,
                            .zeros = {}};
    const ConstBytes bytes = object_bytes(input);
    AesBlocks::Block chain{};
    for (size_t at = 0; at < bytes.size(); at += chain.size()) {
        for (size_t i = 0; i < chain.size(); ++i) chain[i] ^= bytes[at + i];
        aes_.encrypt(chain);
    }
    uint64_t digest = 0;
    std::memcpy(&digest, chain.data(), sizeof(digest));
    return digest == 0 ? 1 : digest;
}

}  // namespace ros2s::cipher
