// KeyProvider: holds tenants' keys. It wraps the data keys of containers with a named key. The
// wrapping key need not leave the provider, which can be a PKCS #11 module or a KMIP server.
//
// Calls may block, and a token behind a network may hang. They are therefore made on a helper
// thread (key_calls.h): when a container is opened, created or given another key, and when the last
// answer is too old (CipherStore). A provider is used by one thread at a time, not always by the
// same one.
#pragma once
#include <array>
#include <memory>
#include <string>
#include <string_view>

#include "ros2s/base/result.h"
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

// The content of a small file with a secret, a key or the PIN of a token. The memory is overwritten
// when the object ends. Any thread.
class PrivateText {
  public:
    static constexpr size_t bytes_max = 256;
    PrivateText& operator=(PrivateText&&) = delete;
    ~PrivateText();
    // Without the newline at its end.
    [[nodiscard]] std::string_view text() const;

  private:
    friend Result<> read_private_file(const std::string& path, PrivateText& into, Report& report);
    std::array<char, bytes_max> bytes_{};
    size_t size_ = 0;
};

// Reads a file of open_trusted() that no other user may read. A symbolic link in the last place is
// not followed. A file of more than `bytes_max` is refused.
// Errors: EKEYREJECTED, with a sentence that names the file and what to do.
[[nodiscard]] Result<> read_private_file(const std::string& path, PrivateText& into,
                                         Report& report);

}  // namespace ros2s::cipher
