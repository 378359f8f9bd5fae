// KeyedDigest: what the store below gets in place of a request's digest. A host's digest has the
// CRC of what it writes, from which up to 4 bytes can be computed and longer ones confirmed
// (base/digest.h has no key).
//
// It is a function of the name, too: equal digests of two requests do not show. Its key is derived
// from a data key of the container, so that a repetition after a restart has the same one.
// docs/formats/cipher.md describes it.
//
// Owned by the store that uses it; used on one core. A failure of OpenSSL ends the process.
#pragma once
#include <memory>

#include "ros2s/cipher/secret_key.h"
#include "ros2s/object/vocabulary.h"

namespace ros2s::cipher {

class KeyedDigest {
  public:
    explicit KeyedDigest(const SecretKey& data_key);
    ~KeyedDigest();
    KeyedDigest(const KeyedDigest&) = delete;
    KeyedDigest& operator=(const KeyedDigest&) = delete;

    // Of the client, slot, sequence and digest. Never 0.
    [[nodiscard]] uint64_t of(const object::OperationId& id);

  private:
    struct Schedule;
    std::unique_ptr<Schedule> schedule_;
};

}  // namespace ros2s::cipher
