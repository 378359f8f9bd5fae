// Pkcs11Keys: a KeyProvider that leaves wrapping keys in a token: a hardware security module, or
// SoftHSM. The key NAME is the token's secret key with the label NAME, of AES with 256 bits, which
// may wrap and unwrap (CKA_WRAP, CKA_UNWRAP). The key never leaves the token.
//
// It uses CKM_AES_KEY_WRAP (PKCS #11 v2.40, 2.14.3), which is RFC 3394. KeyDirectory makes the same
// wrapped bytes with the same key.
#pragma once
#include <p11-kit/p11-kit.h>
#include <p11-kit/uri.h>

#include "ros2s/cipher/key_provider.h"

namespace ros2s::cipher {

class Pkcs11Keys final : public KeyProvider {
  public:
    // `uri` (RFC 7512) names a token, a file with its PIN, and, unless p11-kit's configuration has
    // it, the module: pkcs11:token=acme?pin-source=/etc/ros2store/pin&module-path=/usr/lib/hsm.so.
    // The token may be absent: it is looked for at each call.
    // Errors: invalid (the URI), EKEYREJECTED (a module cannot be loaded).
    [[nodiscard]] static Result<std::unique_ptr<KeyProvider>> open(std::string uri, Report& report);
    ~Pkcs11Keys() override;
    Pkcs11Keys& operator=(Pkcs11Keys&&) = delete;

    Result<WrappedKey> wrap(const std::string& name, const SecretKey& key,
                            Report& report) const override;
    Result<SecretKey> unwrap(const std::string& name, const WrappedKey& wrapped,
                             Report& report) const override;

  private:
    class Session;
    explicit Pkcs11Keys(std::string uri);
    [[nodiscard]] Result<> parse(Report& report);
    [[nodiscard]] Result<> load(Report& report);
    [[nodiscard]] Result<> find_token(Session& session, Report& report) const;
    // Opens a session with the token and finds the key in it.
    [[nodiscard]] Result<> start(Session& session, const std::string& name, Report& report) const;
    [[nodiscard]] Result<> find_key(Session& session, const std::string& name,
                                    Report& report) const;
    [[nodiscard]] Result<> log_in(const Session& session, Report& report) const;

    std::string shown_;
    P11KitUri* uri_;
    CK_FUNCTION_LIST** modules_ = nullptr;  // ends with null
    CK_FUNCTION_LIST* one_module_[2] = {};  // `modules_`, if the URI names a module
    std::string pin_source_;                // empty: the token wants no PIN
    // A digest of a PIN that the token refused. It is not tried again, because a token locks itself
    // after a few wrong ones.
    mutable std::array<std::byte, 32> refused_pin_{};
};

}  // namespace ros2s::cipher
