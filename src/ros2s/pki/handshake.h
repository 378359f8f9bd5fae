// One TLS 1.3 handshake with a server, as a client of its control plane makes it, to tell a person
// which side refuses what and why. Nothing is asked of the server, and what it says is not used.
#pragma once
#include <chrono>
#include <string>

#include "ros2s/base/result.h"
#include "ros2s/pki/certificate.h"

namespace ros2s::pki {

struct ServerShown {
    CertificateFacts certificate;
    std::string name;  // that it was asked for
    // What is wrong with the certificate in our eyes: "certificate has expired", "hostname
    // mismatch"; empty where it is good.
    std::string doubt;
};

// On a connected stream socket, which stays the caller's. Blocks up to `within` for each thing that
// the server has to say. `name`: a host name or an IP address that its certificate must have.
// A server whose certificate is not good is no error here, so that both sides' opinions are heard.
// Errors, with a sentence: those of check_identity(), denied (it refuses our certificate),
// disconnected (it hangs up, or speaks no TLS), deadline.
[[nodiscard]] Result<ServerShown> shake_hands(int socket, const Identity& identity,
                                              const std::string& name, Seconds now,
                                              std::chrono::milliseconds within, Report& report);

}  // namespace ros2s::pki
