#include "secret_key.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>

#include <algorithm>

#include "openssl_bytes.h"
#include "ros2s/base/check.h"

namespace ros2s::cipher {
namespace {

using Context = std::unique_ptr<EVP_CIPHER_CTX, decltype(&EVP_CIPHER_CTX_free)>;

Context wrapping_context() {
    Context context(EVP_CIPHER_CTX_new(), &EVP_CIPHER_CTX_free);
    ROS2S_CHECK(context != nullptr);
    EVP_CIPHER_CTX_set_flags(context.get(), EVP_CIPHER_CTX_FLAG_WRAP_ALLOW);
    return context;
}

}  // namespace

SecretKey::SecretKey(std::span<const std::byte, key_bytes> bytes) {
    std::ranges::copy(bytes, bytes_.begin());
}
SecretKey::~SecretKey() { OPENSSL_cleanse(bytes_.data(), bytes_.size()); }

void hkdf_sha256(ConstBytes key, ConstBytes salt, ConstBytes purpose, Bytes out) {
    const std::unique_ptr<EVP_KDF, decltype(&EVP_KDF_free)> kdf(
        EVP_KDF_fetch(nullptr, "HKDF", nullptr), &EVP_KDF_free);
    const std::unique_ptr<EVP_KDF_CTX, decltype(&EVP_KDF_CTX_free)> context(
        EVP_KDF_CTX_new(kdf.get()), &EVP_KDF_CTX_free);
    ROS2S_CHECK(context != nullptr);
    char digest[] = "SHA256";
    const auto parameter = [](const char* name, ConstBytes bytes) {
        // OpenSSL only reads it, and takes no null pointer.
        static std::byte none{};
        std::byte* const data = bytes.empty() ? &none : const_cast<std::byte*>(bytes.data());
        return OSSL_PARAM_construct_octet_string(name, data, bytes.size());
    };
    const OSSL_PARAM parameters[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
        parameter(OSSL_KDF_PARAM_KEY, key), parameter(OSSL_KDF_PARAM_SALT, salt),
        parameter(OSSL_KDF_PARAM_INFO, purpose), OSSL_PARAM_construct_end()};
    ROS2S_CHECK(EVP_KDF_derive(context.get(), octets(out), out.size(), parameters) == 1);
}

WrappedKey wrap(const SecretKey& wrapping, const SecretKey& key) {
    const Context context = wrapping_context();
    WrappedKey wrapped;
    int length = 0, rest = 0;
    ROS2S_CHECK(EVP_EncryptInit_ex(context.get(), EVP_aes_256_wrap(), nullptr,
                                   octets(wrapping.bytes()), nullptr) == 1);
    ROS2S_CHECK(EVP_EncryptUpdate(context.get(), octets(Bytes(wrapped)), &length,
                                  octets(key.bytes()), key_bytes) == 1);
    ROS2S_CHECK(EVP_EncryptFinal_ex(context.get(), octets(Bytes(wrapped)) + length, &rest) == 1);
    ROS2S_CHECK(length + rest == wrapped_bytes);
    return wrapped;
}

Result<SecretKey> unwrap(const SecretKey& wrapping, const WrappedKey& wrapped) {
    const Context context = wrapping_context();
    // The wrapped length: OpenSSL may write as much before it finds the check value wrong.
    std::array<std::byte, wrapped_bytes> plain{};
    int length = 0;
    ROS2S_CHECK(EVP_DecryptInit_ex(context.get(), EVP_aes_256_wrap(), nullptr,
                                   octets(wrapping.bytes()), nullptr) == 1);
    const bool good = EVP_DecryptUpdate(context.get(), octets(Bytes(plain)), &length,
                                        octets(ConstBytes(wrapped)), wrapped_bytes) == 1 &&
                      length == key_bytes;
    SecretKey key;
    if (good) key = SecretKey(std::span(plain).first<key_bytes>());
    OPENSSL_cleanse(plain.data(), plain.size());
    if (!good) return fail(Code::corrupt);
    return key;
}

}  // namespace ros2s::cipher
