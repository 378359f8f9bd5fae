// TlsStream: a SecureSocket as the Stream of a connection's set-up. It waits on the reactor's Ring.
#pragma once
#include <memory>

#include "ros2s/fabric/socket/stream.h"
#include "secure_socket.h"

namespace ros2s::fabric::tls {

class TlsStream final : public Stream {
  public:
    TlsStream(Reactor& reactor, int fd, std::unique_ptr<SecureSocket> secure) noexcept
        : reactor_(reactor), fd_(fd), secure_(std::move(secure)) {}

    // One step of the handshake, and the wait for the socket after it. True: the handshake is done.
    // Errors of these: denied (ours or the peer's refusal; why() has the reason), disconnected,
    // cancelled, io.
    [[nodiscard]] Result<bool> step();
    Task<Result<>> wait_after_step(StopToken stop);

    Task<Result<>> send(ConstBytes bytes, StopToken stop) override;
    Task<Result<>> receive(Bytes into, StopToken stop) override;
    void send_now(ConstBytes bytes) noexcept override;

    [[nodiscard]] const SecureSocket& secure() const noexcept { return *secure_; }
    // For the wire, after the set-up.
    [[nodiscard]] std::unique_ptr<SecureSocket> take() noexcept { return std::move(secure_); }

  private:
    Task<Result<>> wait(Progress for_what, StopToken stop);
    [[nodiscard]] static std::unexpected<Error> error_of(Progress progress);

    Reactor& reactor_;
    int fd_;
    std::unique_ptr<SecureSocket> secure_;
    Progress last_ = Progress::done;
};

}  // namespace ros2s::fabric::tls
