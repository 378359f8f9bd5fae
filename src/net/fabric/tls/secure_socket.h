// SecureSocket: TLS 1.3 over a connected, non-blocking TCP socket. The provider uses OpenSSL only
// through this class, so libros2store.so can load the library that contains it (api/c/loaded).
//
// The socket is the caller's and outlives it. Nothing here waits: a function that finds the socket
// not ready returns that, and is called again when it is. Used on one core.
//
// Both sides must have a certificate of the authority in the caller's files, and speak our protocol
// (ALPN): a certificate is also good for the control plane, whose peers are refused here.
#pragma once
#include <memory>
#include <string>

#include "ros2s/base/bytes.h"
#include "ros2s/base/log.h"
#include "ros2s/base/result.h"
#include "ros2s/pki/certificate.h"

namespace ros2s::fabric::tls {

enum class Progress : uint8_t {
    done,
    wants_input,   // the socket has no more bytes now
    wants_output,  // the socket takes no more bytes now
    ended,         // the peer hung up
    refused,       // by us or the peer; why() has the reason. Nothing more can be done.
};
struct Moved {
    Progress progress = Progress::done;
    size_t bytes = 0;  // done: at least 1
};

class SecureSocket {
  public:
    virtual ~SecureSocket() = default;
    // A step of the handshake. A server is done when it has verified the client's certificate, a
    // client before the server has verified its own: it receives a refusal when it reads.
    virtual Progress shake_hands() noexcept = 0;
    virtual Moved read(Bytes into) noexcept = 0;
    // Takes no more than write_bytes_max. After `wants_output` the same bytes must be given again.
    // `more`: the caller will write more at once.
    virtual Moved write(ConstBytes from, bool more) noexcept = 0;
    static constexpr size_t write_bytes_max = 16384;

    // After the handshake: the subject of the peer's certificate, as the control plane writes it.
    [[nodiscard]] virtual const std::string& peer_subject() const noexcept = 0;
    [[nodiscard]] virtual const std::string& why() const noexcept = 0;

    // From now on it takes from the socket what is there, and not only what it needs next. The
    // caller must then report when the socket has become readable.
    virtual void read_ahead() = 0;
    virtual void became_readable(bool hung_up) noexcept = 0;
    // Exposed for tests: changes its key after that many records, instead of 2^23.
    virtual void change_key_every(uint64_t records) noexcept = 0;
};

class SecureSockets {
  public:
    virtual ~SecureSockets() = default;
    // Looks whether the certificate files have changed, at most once in a second. Errors: invalid,
    // no_memory.
    [[nodiscard]] virtual Result<std::unique_ptr<SecureSocket>> accept(int fd, Report& report) = 0;
    // `server_name`: a name or an IP address that the server's certificate must have.
    [[nodiscard]] virtual Result<std::unique_ptr<SecureSocket>> connect(
        int fd, const std::string& server_name, Report& report) = 0;
};

// Errors, with a sentence: those of pki::check_identity().
[[nodiscard]] Result<std::unique_ptr<SecureSockets>> open_secure_sockets(pki::Identity identity,
                                                                         Log log, Report& report);

}  // namespace ros2s::fabric::tls
