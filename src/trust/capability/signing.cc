#include "signing.h"

#include <openssl/err.h>
#include <openssl/evp.h>

#include <cstring>

#include "ros2s/base/check.h"

namespace ros2s::capability {
namespace {

using Signing = std::unique_ptr<EVP_MD_CTX, pki::FreeBy<EVP_MD_CTX_free>>;

const unsigned char* unsigned_bytes(std::string_view text) {
    return reinterpret_cast<const unsigned char*>(text.data());
}

}  // namespace

SigningKey::SigningKey(const Seed& seed)
    : key_(EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, seed.data(), seed.size())) {
    size_t size = shown_.size();
    ROS2S_CHECK(key_ != nullptr &&
                EVP_PKEY_get_raw_public_key(key_.get(), shown_.data(), &size) == 1 &&
                size == shown_.size());
}

Seed SigningKey::make_seed(const Secrets& secrets) {
    Seed seed;
    for (size_t at = 0; at < seed.size(); at += sizeof(uint64_t)) {
        const uint64_t part = secrets.next();
        std::memcpy(seed.data() + at, &part, sizeof part);
    }
    return seed;
}

std::string SigningKey::sign(std::string_view message) const {
    std::string signature(signature_bytes, '\0');
    size_t size = signature.size();
    const Signing signing(EVP_MD_CTX_new());
    ROS2S_CHECK(signing != nullptr &&
                EVP_DigestSignInit(signing.get(), nullptr, nullptr, nullptr, key_.get()) == 1 &&
                EVP_DigestSign(signing.get(), reinterpret_cast<unsigned char*>(signature.data()),
                               &size, unsigned_bytes(message), message.size()) == 1 &&
                size == signature_bytes);
    return signature;
}

bool is_signed_by(const PublicKey& key, std::string_view message, std::string_view signature) {
    if (signature.size() != signature_bytes) return false;
    const pki::Key theirs(
        EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, key.data(), key.size()));
    const Signing signing(EVP_MD_CTX_new());
    const bool good =
        theirs != nullptr && signing != nullptr &&
        EVP_DigestVerifyInit(signing.get(), nullptr, nullptr, nullptr, theirs.get()) == 1 &&
        EVP_DigestVerify(signing.get(), unsigned_bytes(signature), signature.size(),
                         unsigned_bytes(message), message.size()) == 1;
    ERR_clear_error();
    return good;
}

Hash hash_of(std::string_view bytes) {
    Hash hash{};
    ROS2S_CHECK(
        EVP_Digest(bytes.data(), bytes.size(), hash.data(), nullptr, EVP_sha256(), nullptr) == 1);
    return hash;
}

}  // namespace ros2s::capability
