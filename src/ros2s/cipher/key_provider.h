// KeyProvider: where tenants' keys are. It wraps the data keys of containers with a key that it has
// under a name. That key need not leave it, so a module of PKCS#11 or a KMIP server fits.
//
// Calls may block, and a token behind a network may hang. So they are made on a helper thread
// (key_calls.h): when a container is opened, created or given another key, and when the time of the
// last answer is over (CipherStore). A provider is used by one thread at a time, not always by the
// same one.
#pragma once
#include <memory>
#include <string>

#include "ros2s/cipher/secret_key.h"

namespace ros2s::cipher {

class KeyProvider {
  public:
    virtual ~KeyProvider() = default;
    // Errors, each with a sentence: EKEYREJECTED (it has no such key; the key is not the one that
    // wrapped; the key may not be used), io.
    virtual Result<WrappedKey> wrap(const std::string& name, const SecretKey& key,
                                    Report& report) const = 0;
    virtual Result<SecretKey> unwrap(const std::string& name, const WrappedKey& wrapped,
                                     Report& report) const = 0;
};

// The provider at a place: "pkcs11:token=acme?pin-source=/etc/ros2store/pin" is a Pkcs11Keys,
// anything else a KeyDirectory. Errors: those of Pkcs11Keys::open().
[[nodiscard]] Result<std::unique_ptr<KeyProvider>> open_keys(const std::string& place,
                                                             Report& report);

// For providers. Errors: invalid (no label of an object is this name).
[[nodiscard]] Result<> check_key_name(const std::string& name, Report& report);
// EKEYREJECTED with a sentence.
[[nodiscard]] std::unexpected<Error> reject_key(Report& report, std::string sentence);

}  // namespace ros2s::cipher
