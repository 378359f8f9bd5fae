// KeyedDigest: replaces a request's digest in the store below. A host's digest has no key
// (base/digest.h) and contains the CRC of the written bytes. From it, up to 4 bytes can be
// computed, and guesses of more bytes confirmed.
//
// The digest also depends on the request's name, so equal requests have different digests. Its key
// is derived from a data key of the container, so a repetition after a restart has the same digest.
// docs/formats/cipher.md describes it.
//
// Owned by the store that uses it; used on one core. A failure of OpenSSL ends the process.
#pragma once
#include "ros2s/cipher/aes_blocks.h"
#include "ros2s/object/vocabulary.h"

namespace ros2s::cipher {

class KeyedDigest {
  public:
    explicit KeyedDigest(const SecretKey& data_key);
    KeyedDigest& operator=(KeyedDigest&&) = delete;

    // A keyed digest of client, slot, sequence and digest. Never 0.
    [[nodiscard]] uint64_t of(const UpdateName& id);

  private:
    AesBlocks aes_;
};

}  // namespace ros2s::cipher
