#include "signature.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <algorithm>
#include <array>

#include "openssl.h"
#include "ros2s/base/check.h"

namespace ros2s::pki {
namespace {

using Signing = std::unique_ptr<EVP_MD_CTX, FreeBy<EVP_MD_CTX_free>>;

const EVP_MD* digest_for(const EVP_PKEY* key) {
    const int kind = EVP_PKEY_get_base_id(key);
    return kind == EVP_PKEY_ED25519 || kind == EVP_PKEY_ED448 ? nullptr : EVP_sha256();
}

const unsigned char* unsigned_bytes(std::string_view text) {
    return reinterpret_cast<const unsigned char*>(text.data());
}

}  // namespace

Result<std::string> sign(const std::string& key, std::string_view message, Report& report) {
    ROS2S_TRY_ASSIGN(const Key parsed, parse_key(key, "the key of the certificate", report));
    const Signing signing(EVP_MD_CTX_new());
    size_t size = 0;
    std::string signature;
    bool good =
        signing != nullptr &&
        EVP_DigestSignInit(signing.get(), nullptr, digest_for(parsed.get()), nullptr,
                           parsed.get()) == 1 &&
        EVP_DigestSign(signing.get(), nullptr, &size, unsigned_bytes(message), message.size()) == 1;
    if (good) {
        signature.resize(size);
        good = EVP_DigestSign(signing.get(), reinterpret_cast<unsigned char*>(signature.data()),
                              &size, unsigned_bytes(message), message.size()) == 1;
        signature.resize(size);
    }
    if (good) return signature;
    return report.fail(Code::invalid,
                       "the certificate's key cannot sign a request: " + openssl_error());
}

Result<std::string> signer_of(const std::string& chain, std::string_view message,
                              std::string_view signature, Report& report) {
    Report unused;
    const auto certificate = parse_certificate(chain, "the request", unused);
    const Signing signing(EVP_MD_CTX_new());
    EVP_PKEY* const key = certificate ? X509_get0_pubkey(certificate->get()) : nullptr;
    const bool good =
        key != nullptr && signing != nullptr &&
        EVP_DigestVerifyInit(signing.get(), nullptr, digest_for(key), nullptr, key) == 1 &&
        EVP_DigestVerify(signing.get(), unsigned_bytes(signature), signature.size(),
                         unsigned_bytes(message), message.size()) == 1;
    ERR_clear_error();
    if (good) return name_text(X509_get_subject_name(certificate->get()));
    return report.fail(Code::denied, "the key of the certificate did not sign the request");
}

Uuid fingerprint(std::string_view text) {
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
    ROS2S_CHECK(
        EVP_Digest(text.data(), text.size(), digest.data(), nullptr, EVP_sha256(), nullptr) == 1);
    Uuid uuid;
    std::copy_n(digest.begin(), uuid.bytes.size(), uuid.bytes.begin());
    return uuid;
}

}  // namespace ros2s::pki
