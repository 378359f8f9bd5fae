// shake_hands() does one TLS 1.3 handshake with a server, as a client of its control plane does. It
// finds out which side refuses what, and why. It sends no request and ignores the server's data.
#pragma once
#include <chrono>
#include <string>

#include "ros2s/base/result.h"
#include "ros2s/pki/certificate.h"

namespace ros2s::pki {

struct ServerShown {
    CertificateFacts certificate;
    std::string name;  // the name that was expected
    // The problem with the server's certificate: "certificate has expired", "hostname mismatch".
    // Empty if it is valid.
    std::string doubt;
};

// Works on a connected stream socket, which stays the caller's. Blocks up to `within` for each
// message of the server. `name`: a host name or an IP address that the server's certificate must
// have. An invalid server certificate is not an error here, so that the caller gets both sides'
// verdicts. Errors, with a sentence: those of check_identity(), denied (the server refuses our
// certificate), disconnected (it closes the connection, or has no TLS), deadline.
[[nodiscard]] Result<ServerShown> shake_hands(int socket, const Identity& identity,
                                              const std::string& name, Seconds now,
                                              std::chrono::milliseconds within, Report& report);

}  // namespace ros2s::pki
