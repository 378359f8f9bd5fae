// Chains of capabilities: a chain proves to its verifier what its holder may do, and that the
// holder shows it now.
//
//     engine's key ─► capability ─ holder's key ─► narrower capability ─ holder's key ─► proof
//
// Plain functions; any thread.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "ros2s/base/random.h"
#include "ros2s/capability/capability.h"
#include "ros2s/pki/openssl_objects.h"

namespace ros2s::capability {

// Keys of Ed25519 and what they sign, by OpenSSL. Signing and verifying take tens of microseconds
// each, so a server that peers can make verify does it on the blocking pool.
//
// Any thread. A key is used by one thread at a time.
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

using Chain = std::vector<std::string>;  // encoded and signed, the engine's first

// Encoded and signed, as it is in a chain.
[[nodiscard]] std::string sign(const Capability& capability, const SigningKey& key);

// The values that the verifier has from other sources than the chain.
struct Expected {
    Uuid audience;
    std::vector<PublicKey> issuers;  // of the engine
    WallTime now{};                  // by the engine's clock
};
// The last capability of the chain, which is what its holder may do. Each link is signed by the
// holder of the one before, for the same pool, tenant and generation, and has no more rights, no
// more containers and no more time than that. Whether the tenant still has these rights is the
// caller's to check. Errors: denied; then `why` is the reason, for the log.
[[nodiscard]] Result<Capability> verify(const Chain& chain, const Expected& expected,
                                        std::string& why);

// The text that the holder of a chain signs to show it in a session: it is not valid in another
// session, over another provider or at another time. `nonce`: drawn by the server, for this one
// proof.
inline constexpr size_t nonce_bytes = 32;
[[nodiscard]] std::string proof_message(std::string_view nonce, uint64_t session,
                                        std::string_view provider, const Chain& chain);

// The text that the key of a certificate signs to request a capability. `pool`: its name, which the
// program has from another source than the DPU that forwards the request.
[[nodiscard]] std::string request_message(std::string_view wanted, std::string_view pool);

}  // namespace ros2s::capability
