// Signatures by the key of a certificate over messages other than those of TLS, for a party that
// the TLS connection does not reach.
//
// Plain functions; any thread; they block for the files' sake and for some tens of microseconds.
#pragma once
#include <string>
#include <string_view>

#include "ros2s/base/result.h"
#include "ros2s/base/uuid.h"

namespace ros2s::pki {

// `key`: PEM. Errors: invalid, with a sentence.
[[nodiscard]] Result<std::string> sign(const std::string& key, std::string_view message,
                                       Report& report);
// The subject of the first certificate of `chain` (PEM), if its key signed the message. Whether the
// certificate is valid is checked by verify_client(). Errors: denied, with a sentence.
[[nodiscard]] Result<std::string> signer_of(const std::string& chain, std::string_view message,
                                            std::string_view signature, Report& report);

// 128 bits that represent a name or key of any length, the same in every process: the first half of
// its SHA-256. Collisions do not occur, by chance or by design.
[[nodiscard]] Uuid fingerprint(std::string_view text);

}  // namespace ros2s::pki
