// Reads PEM certificate files for messages, checks a program's identity files, and verifies a
// client's certificate chain.
#pragma once
#include <chrono>
#include <string>
#include <vector>

#include "ros2s/base/result.h"
#include "ros2s/pki/authority.h"

namespace ros2s::pki {

struct CertificateFacts {
    std::string subject;  // "CN=engine-1"
    std::string issuer;
    std::string serial;                          // "5B0C…", as openssl prints it
    std::vector<std::string> alternative_names;  // "localhost", "127.0.0.1"
    Seconds begins{}, expires{};
    bool authority = false;
};

// The first certificate of the file. Errors: not_found, denied, invalid (the file has no
// certificate).
[[nodiscard]] Result<CertificateFacts> read_certificate(const std::string& file, Report& report);

// The three files that a program needs for mutual TLS.
struct Identity {
    std::string authority_file;    // one or more CA certificates that it trusts
    std::string certificate_file;  // its own certificate
    std::string key_file;
    friend bool operator==(const Identity&, const Identity&) = default;
};

// ca.crt, NAME.crt and NAME.key of a directory, with the names that make_authority() uses.
[[nodiscard]] Identity identity_in(const std::string& directory, const std::string& name);

// Checks that the files exist, belong together, are valid at `now`, and chain to the authority.
// Lists of revoked certificates beside the authority (revocation.h) must be readable. Otherwise the
// report names the wrong file and the remedy. Errors: not_found, denied, invalid, deadline
// (expired, or not valid yet).
[[nodiscard]] Result<> check_identity(const Identity& identity, Seconds now, Report& report);

// Checks that one of `authorities` signed a client's certificate. It is the first one in `chain`;
// the ones after it may be intermediates. Both are PEM. Returns the time at which the first
// certificate of the verified chain expires. `revocations`: lists of revoked certificates, as
// read_revocations() returns them. Errors, with a sentence: denied (revoked), deadline (expired, or
// not valid yet), invalid.
[[nodiscard]] Result<Seconds> verify_client(const std::string& chain,
                                            const std::string& authorities,
                                            const std::string& revocations, Seconds now,
                                            Report& report);

// "2027-11-20 12:00 UTC"
[[nodiscard]] std::string to_string(Seconds time);

}  // namespace ros2s::pki
