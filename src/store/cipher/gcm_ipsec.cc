#if defined(__x86_64__)
#include <intel-ipsec-mb.h>
#include <openssl/crypto.h>

#include "gcm.h"
#include "ros2s/base/check.h"

namespace ros2s::cipher {
namespace {

// The functions for this processor. They change nothing in it, so all cores share it.
const IMB_MGR& functions() {
    static const IMB_MGR* const known = [] {
        IMB_MGR* const made = alloc_mb_mgr(0);
        ROS2S_CHECK(made != nullptr);
        init_mb_mgr_auto(made, nullptr);
        ROS2S_CHECK(imb_get_errno(made) == 0);
        return made;
    }();
    return *known;
}

const uint8_t* of(ConstBytes bytes) { return reinterpret_cast<const uint8_t*>(bytes.data()); }
uint8_t* of(Bytes bytes) { return reinterpret_cast<uint8_t*>(bytes.data()); }

}  // namespace

struct alignas(64) Gcm::Schedule {
    gcm_key_data key{};
    ~Schedule() { OPENSSL_cleanse(&key, sizeof(key)); }
};

Gcm::Gcm(const SecretKey& key) : schedule_(std::make_unique<Schedule>()) {
    IMB_AES256_GCM_PRE(&functions(), of(key.bytes()), &schedule_->key);
}
Gcm::~Gcm() = default;
Gcm::Gcm(Gcm&&) noexcept = default;
Gcm& Gcm::operator=(Gcm&&) noexcept = default;

void Gcm::seal(const Nonce& nonce, ConstBytes authenticated, ConstBytes plain, Bytes out,
               Tag& tag) {
    gcm_context_data state;
    IMB_AES256_GCM_ENC(&functions(), &schedule_->key, &state, of(out), of(plain), plain.size(),
                       of(nonce), of(authenticated), authenticated.size(), of(Bytes(tag)),
                       tag_bytes);
}

bool Gcm::open(const Nonce& nonce, ConstBytes authenticated, ConstBytes sealed, Bytes out,
               const Tag& tag) {
    gcm_context_data state;
    Tag made{};
    IMB_AES256_GCM_DEC(&functions(), &schedule_->key, &state, of(out), of(sealed), sealed.size(),
                       of(nonce), of(authenticated), authenticated.size(), of(Bytes(made)),
                       tag_bytes);
    return CRYPTO_memcmp(made.data(), tag.data(), tag_bytes) == 0;
}

}  // namespace ros2s::cipher
#endif
