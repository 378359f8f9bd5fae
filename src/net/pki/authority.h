// A development certificate authority in a directory, and the certificates that it signs, for the
// mutual TLS of the control plane. EC P-256 keys, SHA-256 signatures, PEM files:
//
//     DIR/ca.crt          the authority's certificate: every machine has a copy
//     DIR/ca.key          signs further certificates: never leaves this directory
//     DIR/ca.crl          what it has revoked, if anything: every server has a copy
//     DIR/NAME.crt        one certificate per program or person
//     DIR/NAME.key        its private key, mode 0600
//
// Sites that have an authority use its files instead. No other code here depends on the signer.
//
// All functions read and write files and may be called on any thread. An error comes with one
// sentence.
//
// Invariants
// - A key is never readable by others: it is created with its final mode.
// - make_authority() creates a complete directory or nothing. No file is overwritten, except by
//   `replace` and revoke(), which put the new file in place by rename(2).
#pragma once
#include <chrono>
#include <string>
#include <vector>

#include "ros2s/base/result.h"

namespace ros2s::pki {

using Seconds = std::chrono::sys_seconds;

inline constexpr size_t name_bytes_max = 64;

struct CertificateRequest {
    std::string name;  // common name, and base name of the files: [A-Za-z0-9._-], not "ca"
    // DNS names and IP addresses of the holder. A server needs at least one.
    std::vector<std::string> alternative_names;
    // True: the holder can act as a server and not as a client. False: the reverse. A daemon that
    // does both has two certificates.
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

// Creates DIR with the authority and the certificates. They are valid from one hour before `now`,
// for machines whose clocks are behind. Errors: exists (DIR is not empty), invalid, those of files.
[[nodiscard]] Result<std::vector<IssuedCertificate>> make_authority(const std::string& directory,
                                                                    const AuthorityRequest& request,
                                                                    Seconds now, Report& report);

// Issues one more certificate from the authority in DIR. It expires with the authority's
// certificate at the latest. Errors: not_found (no authority there), exists (unless `replace`),
// invalid, denied, those of files.
[[nodiscard]] Result<IssuedCertificate> issue(const std::string& directory,
                                              const CertificateRequest& request, bool replace,
                                              Seconds now, Report& report);

struct RevokedCertificate {
    std::string subject;    // "CN=host-1"
    std::string serial;     // "5B0C…", as openssl prints it
    std::string list_file;  // DIR/ca.crl
    bool server = false;    // a server's; clients do not read the list
};

// Adds a certificate that the authority in DIR issued to its list of revoked certificates, and
// makes the list if there is none. `certificate`: the name of a pair in DIR, or the path of a file,
// with a '/': after `replace`, DIR no longer has the earlier certificate of the name. Errors:
// not_found (no authority there, no such certificate), invalid (another authority's, or a damaged
// list), exists (it was revoked before), those of files.
[[nodiscard]] Result<RevokedCertificate> revoke(const std::string& directory,
                                                const std::string& certificate, Seconds now,
                                                Report& report);

}  // namespace ros2s::pki
