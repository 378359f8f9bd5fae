#if !defined(__x86_64__)
#include <openssl/evp.h>

#include "gcm.h"
#include "openssl_bytes.h"
#include "ros2s/base/check.h"

namespace ros2s::cipher {
namespace {

// Sets the nonce and the authenticated bytes, and converts all of `in`.
void convert(EVP_CIPHER_CTX* context, bool seals, const Nonce& nonce, ConstBytes authenticated,
             ConstBytes in, Bytes out) {
    int length = 0;
    ROS2S_CHECK(
        EVP_CipherInit_ex(context, nullptr, nullptr, nullptr, octets(nonce), seals ? 1 : 0) == 1);
    ROS2S_CHECK(EVP_CipherUpdate(context, nullptr, &length, octets(authenticated),
                                 static_cast<int>(authenticated.size())) == 1);
    ROS2S_CHECK(EVP_CipherUpdate(context, octets(out), &length, octets(in),
                                 static_cast<int>(in.size())) == 1);
}

}  // namespace

struct Gcm::Schedule {
    EVP_CIPHER_CTX* context = EVP_CIPHER_CTX_new();
    Schedule& operator=(Schedule&&) = delete;
    ~Schedule() { EVP_CIPHER_CTX_free(context); }  // it overwrites the key
};

Gcm::Gcm(const SecretKey& key) : schedule_(std::make_unique<Schedule>()) {
    ROS2S_CHECK(schedule_->context != nullptr);
    ROS2S_CHECK(EVP_EncryptInit_ex(schedule_->context, EVP_aes_256_gcm(), nullptr,
                                   octets(key.bytes()), nullptr) == 1);
}
Gcm::~Gcm() = default;
Gcm::Gcm(Gcm&&) noexcept = default;
Gcm& Gcm::operator=(Gcm&&) noexcept = default;

void Gcm::seal(const Nonce& nonce, ConstBytes authenticated, ConstBytes plain, Bytes out,
               Tag& tag) {
    EVP_CIPHER_CTX* const context = schedule_->context;
    convert(context, true, nonce, authenticated, plain, out);
    int length = 0;
    ROS2S_CHECK(EVP_EncryptFinal_ex(context, nullptr, &length) == 1);
    ROS2S_CHECK(EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, tag_bytes, tag.data()) == 1);
}

bool Gcm::open(const Nonce& nonce, ConstBytes authenticated, ConstBytes sealed, Bytes out,
               const Tag& tag) {
    EVP_CIPHER_CTX* const context = schedule_->context;
    convert(context, false, nonce, authenticated, sealed, out);
    Tag expected = tag;
    int length = 0;
    ROS2S_CHECK(EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, tag_bytes, expected.data()) ==
                1);
    return EVP_DecryptFinal_ex(context, nullptr, &length) == 1;
}

}  // namespace ros2s::cipher
#endif
