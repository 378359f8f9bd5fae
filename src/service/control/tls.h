// Mutual TLS, 1.3 at least, as gRPC's credentials.
//
// At each handshake a server checks whether its files have changed, and then reads them again. If
// they do not fit together (between the two renames of a rotation, or by mistake), it continues
// with the old ones and logs that once. Existing connections are not affected. A handshake does not
// look at lists of revoked certificates: trust.h does at each call, and the client gets a sentence.
#pragma once
#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "ros2s/base/log.h"
#include "ros2s/pki/certificate.h"

namespace ros2s::control {

// Credentials for one listening address; each address needs its own. Clients must show a
// certificate that the authority signed. The files have been checked.
[[nodiscard]] std::shared_ptr<grpc::ServerCredentials> server_credentials(
    const pki::Identity& identity, Log log);

// Before gRPC is used for the first time: it waits for ever for threads that it could not start,
// and ends the process if it cannot open files or has no memory. Errors: those of check_threads(),
// check_descriptors(), check_address_space().
[[nodiscard]] Result<> check_grpc_needs(Report& report);

// A channel that shows the identity's certificate and trusts only its authority. The files are read
// now. Errors: those of check_identity().
[[nodiscard]] Result<std::shared_ptr<grpc::Channel>> open_channel(const std::string& address,
                                                                  const pki::Identity& identity,
                                                                  grpc::ChannelArguments arguments,
                                                                  Report& report);

// Returns why OpenSSL refused a client's certificate on this thread just now, and its subject: "of
// CN=host-1: certificate has expired". Empty if it refused none since the last call.
[[nodiscard]] std::string take_refused_certificate();

// The peer's certificate, and those that came with it, as PEM.
[[nodiscard]] std::string chain_of(const grpc::AuthContext& peer);

// The subject of the peer's certificate, as "CN=host-1"; empty if there is none.
[[nodiscard]] std::string subject_of(const grpc::AuthContext& peer);

}  // namespace ros2s::control
