// KeyProvider: holds tenants' keys. It wraps the data keys of containers with a named key. The
// wrapping key need not leave the provider, which can be a PKCS #11 module or a KMIP server.
//
// Calls may block, and a token behind a network may hang. They are therefore made on a helper
// thread (key_calls.h): when a container is opened, created or given another key, and when the last
// answer is too old (CipherStore). A provider is used by one thread at a time, not always by the
// same one.
#pragma once
#include <memory>
#include <string>

#include "ros2s/cipher/secret_key.h"

namespace ros2s::cipher {

class KeyProvider {
  public:
    virtual ~KeyProvider() = default;
    // Errors, each with a sentence: EKEYREJECTED (it has no such key, the key is not the wrapping
    // key, or the key may not be used), io.
    virtual Result<WrappedKey> wrap(const std::string& name, const SecretKey& key,
                                    Report& report) const = 0;
    virtual Result<SecretKey> unwrap(const std::string& name, const WrappedKey& wrapped,
                                     Report& report) const = 0;
};

// Opens the provider at a location: "pkcs11:token=acme?pin-source=/etc/ros2store/pin" is a
// Pkcs11Keys, anything else a KeyDirectory. Errors: those of Pkcs11Keys::open().
[[nodiscard]] Result<std::unique_ptr<KeyProvider>> open_keys(const std::string& place,
                                                             Report& report);

// For providers. Errors: invalid (the name cannot be the label of an object).
[[nodiscard]] Result<> check_key_name(const std::string& name, Report& report);
// EKEYREJECTED with a sentence.
[[nodiscard]] std::unexpected<Error> reject_key(Report& report, std::string sentence);

}  // namespace ros2s::cipher
