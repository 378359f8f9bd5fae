// Stream: the bytes of a connection while it is being set up: as they are (PlainStream), or through
// a layer that protects them (tls). The socket is the caller's, and outlives the stream.
//
// Errors of the functions that wait: cancelled (the token fired), disconnected (the peer hung up),
// io, and those of the layer.
#pragma once
#include <sys/socket.h>

#include "ros2s/fabric/socket/socket.h"

namespace ros2s::fabric {

class Stream {
  public:
    virtual ~Stream() = default;
    virtual Task<Result<>> send(ConstBytes bytes, StopToken stop) = 0;
    virtual Task<Result<>> receive(Bytes into, StopToken stop) = 0;
    // As much as the socket takes without waiting. For answers to peers that are refused: one that
    // does not read finds the socket closed.
    virtual void send_now(ConstBytes bytes) noexcept = 0;
};

class PlainStream final : public Stream {
  public:
    PlainStream(Reactor& reactor, int fd) noexcept : reactor_(reactor), fd_(fd) {}
    Task<Result<>> send(ConstBytes bytes, StopToken stop) override {
        return send_all(reactor_, fd_, bytes, stop);
    }
    Task<Result<>> receive(Bytes into, StopToken stop) override {
        return receive_all(reactor_, fd_, into, stop);
    }
    void send_now(ConstBytes bytes) noexcept override {
        (void)::send(fd_, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    }

  private:
    Reactor& reactor_;
    int fd_;
};

}  // namespace ros2s::fabric
