// A development certificate authority in a directory, and the certificates it signs, for the mutual
// TLS of the control plane. EC P-256 keys, SHA-256 signatures, PEM files:
//
//     DIR/ca.crt          the authority's certificate: every machine has a copy
//     DIR/ca.key          signs more certificates: stays where it is
//     DIR/NAME.crt        one per program or person, with
//     DIR/NAME.key        its private key; keys have mode 0600
//
// Sites with an authority of their own use that one's files instead; nothing else here asks who
// signed.
//
// Plain functions that read and write files; any thread. Errors come with one sentence.
//
// Invariants
// - A key is never readable by others, not even for a moment: it is created with its mode.
// - make_authority() makes all of a directory or nothing. No file is overwritten but by
//   `replace`, which puts each new file in the old one's place by rename(2).
#pragma once
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "ros2s/base/result.h"

namespace ros2s::pki {

using Seconds = std::chrono::sys_seconds;

inline constexpr size_t name_bytes_max = 64;

struct CertificateRequest {
    std::string name;  // common name, and of the files: [A-Za-z0-9._-], not "ca"
    // DNS names and IP addresses under which others reach it; servers need at least one.
    std::vector<std::string> alternative_names;
    // It answers as a server and cannot call as a client; otherwise the other way round. A daemon
    // that does both has two.
    bool server = false;
    std::chrono::days lifetime{365};
};

struct IssuedCertificate {
    std::string name;
    std::string certificate_file;
    std::string key_file;
    Seconds expires{};
};

struct AuthorityRequest {
    std::string name = "ros2store development CA";
    std::chrono::days lifetime{3650};
    std::vector<CertificateRequest> certificates;  // issued at once
};

// Makes DIR with the authority and the certificates. `now` becomes the beginning of their lives,
// less an hour for clocks that are behind. Errors: exists (DIR holds something), invalid, those of
// files.
[[nodiscard]] Result<std::vector<IssuedCertificate>> make_authority(const std::string& directory,
                                                                    const AuthorityRequest& request,
                                                                    Seconds now, Report& report);

// One more certificate from the authority in DIR. It ends with the authority's at the latest.
// Errors: not_found (no authority there), exists (unless `replace`), invalid, denied, those of
// files.
[[nodiscard]] Result<IssuedCertificate> issue(const std::string& directory,
                                              const CertificateRequest& request, bool replace,
                                              Seconds now, Report& report);

}  // namespace ros2s::pki
