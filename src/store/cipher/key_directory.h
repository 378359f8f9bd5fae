// KeyDirectory: a KeyProvider that keeps each key in a file, DIR/NAME.key: 64 hexadecimal digits,
// as `openssl rand -hex 32` writes them. Removing the file removes the key.
//
// A file must belong to this process's user or to root, and no other user may read or write it.
// Each call reads the file, so a removed key is not used again.
#pragma once
#include "ros2s/cipher/key_provider.h"

namespace ros2s::cipher {

class KeyDirectory final : public KeyProvider {
  public:
    explicit KeyDirectory(std::string directory) : directory_(std::move(directory)) {}
    Result<WrappedKey> wrap(const std::string& name, const SecretKey& key,
                            Report& report) const override;
    Result<SecretKey> unwrap(const std::string& name, const WrappedKey& wrapped,
                             Report& report) const override;

  private:
    [[nodiscard]] Result<SecretKey> read(const std::string& name, Report& report) const;
    std::string directory_;
};

}  // namespace ros2s::cipher
