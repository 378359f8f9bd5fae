// tls: the provider for networks that are not trusted. Frames of packets go through TLS 1.3 over
// TCP, with the certificates of the control plane on both sides. Put and get are packets. The
// grantor's own code copies them after it has checked its own table.
//
// A peer has to complete the TLS handshake with a certificate of our authority before it can send a
// hello. The hello must carry its ticket, or it gets no endpoint. TLS handshakes of all listeners
// with the same PendingPeers together use at most a quarter of the core's time.
//
// Addresses are "IP:PORT". There is one TCP connection for each session. Its hang-up means that the
// peer is gone.
#pragma once
#include <memory>
#include <string>

#include "ros2s/base/log.h"
#include "ros2s/fabric/domain.h"
#include "ros2s/pki/certificate.h"

namespace ros2s::fabric::tls {

struct Options {
    // The files are read again when they change.
    pki::Identity identity;
    // The name, or IP address, that a server's certificate must have. For a domain that connects.
    std::string server_name{};
    // A line for each peer that a listener refuses before its hello (PendingPeer::take_line()).
    Log log{};
};

// The reactor must have a Ring: an OsReactor. Errors, with a sentence: those of
// pki::check_identity(); in libros2store.so, which loads the library that has OpenSSL
// (api/c/loaded), also unsupported.
[[nodiscard]] Result<std::unique_ptr<Domain>> open_domain(Reactor& reactor, Options options,
                                                          Report& report);

}  // namespace ros2s::fabric::tls
