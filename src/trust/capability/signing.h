// Keys of Ed25519 and what they sign, by OpenSSL. Signing and verifying take tens of microseconds
// each, so a server that peers can make verify does it on the blocking pool.
//
// Any thread. A key is used by one thread at a time.
#pragma once
#include <string>
#include <string_view>

#include "ros2s/base/random.h"
#include "ros2s/capability/capability.h"
#include "ros2s/pki/openssl_objects.h"

namespace ros2s::capability {

using Seed = std::array<uint8_t, 32>;  // the private key

class SigningKey {
  public:
    explicit SigningKey(const Seed& seed);
    [[nodiscard]] static Seed make_seed(const Secrets& secrets);
    [[nodiscard]] const PublicKey& shown() const { return shown_; }
    // The signature of this message.
    [[nodiscard]] std::string sign(std::string_view message) const;

  private:
    pki::Key key_;
    PublicKey shown_{};
};

[[nodiscard]] bool is_signed_by(const PublicKey& key, std::string_view message,
                                std::string_view signature);
[[nodiscard]] Hash hash_of(std::string_view bytes);

}  // namespace ros2s::capability
