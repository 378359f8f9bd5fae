#include "chain.h"

#include <openssl/err.h>
#include <openssl/evp.h>

#include <algorithm>
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

namespace {

// A signature of one kind is no signature of another.
constexpr std::string_view capability_context = "ros2store capability, version 1\n";
constexpr std::string_view proof_context = "ros2store proof of a holder, version 1\n";
constexpr std::string_view request_context = "ros2store wish for a capability, version 1\n";

std::string message_of(std::string_view signed_bytes) {
    return std::string(capability_context) + std::string(signed_bytes);
}

// Empty: nothing.
std::string_view wrong_with(const Capability& link, const Expected& expected) {
    if (link.audience != expected.audience) return "it is for another pool";
    if (expected.now < link.not_before) return "it is not valid yet";
    if (expected.now >= link.expires) return "it has expired";
    if (link.expires - link.not_before > life_max + clock_slack) return "it is valid for too long";
    return {};
}

std::string_view wrong_between(const Capability& parent, const std::string& parent_bytes,
                               const Capability& child) {
    if (child.issuer != parent.holder) return "the holder of the previous one did not sign it";
    if (child.parent != hash_of(parent_bytes)) return "it narrows another capability";
    if (child.tenant != parent.tenant) return "it is for another tenant";
    if (child.generation != parent.generation) return "it is for another generation";
    if (!parent.use.covers(child.use)) return "it has more rights than the previous one";
    if (child.not_before < parent.not_before || child.expires > parent.expires) {
        return "it is valid outside the time of the previous one";
    }
    return {};
}

}  // namespace

std::string sign(const Capability& capability, const SigningKey& key) {
    std::string bytes = encode(capability);
    bytes += key.sign(message_of(bytes));
    return bytes;
}

Result<Capability> verify(const Chain& chain, const Expected& expected, std::string& why) {
    const auto refuse = [&why](std::string_view what) {
        why = what;
        return fail(Code::denied);
    };
    if (chain.empty() || chain.size() > depth_max) return refuse("a chain has one or two links");
    Capability last;
    for (size_t i = 0; i < chain.size(); ++i) {
        const std::string& bytes = chain[i];
        auto link = decode(bytes);
        if (!link || link->depth != i + 1) return refuse("it is not a capability");
        if (const auto wrong = wrong_with(*link, expected); !wrong.empty()) return refuse(wrong);
        if (i == 0) {
            if (std::ranges::find(expected.issuers, link->issuer) == expected.issuers.end()) {
                return refuse("the engine did not issue it, or its key is no longer used");
            }
        } else if (const auto wrong = wrong_between(last, chain[i - 1], *link); !wrong.empty()) {
            return refuse(wrong);
        }
        if (!is_signed_by(link->issuer, message_of(signed_part(bytes)), signature_part(bytes))) {
            return refuse("its signature is wrong");
        }
        last = std::move(*link);
    }
    return last;
}

std::string proof_message(std::string_view nonce, uint64_t session, std::string_view provider,
                          const Chain& chain) {
    ROS2S_CHECK(!chain.empty() && nonce.size() == nonce_bytes);
    std::string message(proof_context);
    message += nonce;
    message.append(reinterpret_cast<const char*>(&session), sizeof session);
    const Hash of_last = hash_of(chain.back());
    message.append(reinterpret_cast<const char*>(of_last.data()), of_last.size());
    message += provider;
    return message;
}

std::string request_message(std::string_view wanted, std::string_view pool) {
    return std::string(request_context) + std::string(pool) + '\n' + std::string(wanted);
}

}  // namespace ros2s::capability
