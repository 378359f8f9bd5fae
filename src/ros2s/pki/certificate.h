// What a PEM file of a certificate says, for people: doctor's and the daemons' messages.
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
    std::vector<std::string> alternative_names;  // "localhost", "127.0.0.1"
    Seconds begins{}, expires{};
    bool authority = false;
};

// The first certificate of the file. Errors: not_found, denied, invalid (no certificate in it).
[[nodiscard]] Result<CertificateFacts> read_certificate(const std::string& file, Report& report);

// The three files by which a program speaks mutual TLS.
struct Identity {
    std::string authority_file;    // whom it believes: one or more CA certificates
    std::string certificate_file;  // who it is
    std::string key_file;
    friend bool operator==(const Identity&, const Identity&) = default;
};

// ca.crt, NAME.crt and NAME.key of a directory, as make_authority() makes them.
[[nodiscard]] Identity identity_in(const std::string& directory, const std::string& name);

// That they are there, belong together, are in their time at `now` and chain to the authority;
// otherwise a sentence that says which is wrong and what to do. Errors: not_found, denied, invalid,
// deadline (expired, or not valid yet).
[[nodiscard]] Result<> check_identity(const Identity& identity, Seconds now, Report& report);

// Whether one of `authorities` signed a client's certificate, which stands first in `chain`,
// perhaps by way of those behind it; both are PEM. Returns when the first of those that vouch for
// it ends. Errors, with what is wrong: invalid, deadline (expired, or not valid yet).
[[nodiscard]] Result<Seconds> verify_client(const std::string& chain,
                                            const std::string& authorities, Seconds now,
                                            Report& report);

// "2027-11-20 12:00 UTC"
[[nodiscard]] std::string to_string(Seconds time);

}  // namespace ros2s::pki
