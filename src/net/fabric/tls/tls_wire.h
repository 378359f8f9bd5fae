// TlsWire: the frames of one session over its TLS connection. Frames are encrypted and sent at once
// as long as the socket takes them. The rest waits for it.
//
// The hang-up of the socket means that the peer is gone: within moments if the process died, within
// ten seconds if the machine did, within 30 s if it did while bytes were on their way to it. Bytes
// that arrived before the hang-up are received first.
#pragma once
#include <memory>

#include "frame_reader.h"
#include "ros2s/fabric/packet/wire.h"
#include "ros2s/fabric/socket/socket.h"
#include "secure_socket.h"
#include "sockets.h"

namespace ros2s::fabric::tls {

class TlsWire final : public Wire {
  public:
    TlsWire(Sockets& sockets, Descriptor socket, std::unique_ptr<SecureSocket> secure);
    ~TlsWire() override;
    void start(WireUser& user) noexcept override;
    void write(Frame& frame) noexcept override;
    Task<> farewell() override;
    void shut() noexcept override;
    Task<> close() override;

    // Used by Sockets.
    bool queued = false;
    void happened(uint32_t events) noexcept;
    // Receives what is there, within a bound, and calls the user.
    void turn() noexcept;

  private:
    // Received in a turn, so that others have theirs.
    static constexpr size_t turn_bytes_max = size_t{256} << 10;
    // A read takes one TLS record. One with few bytes costs about as much as one with these.
    static constexpr size_t read_bytes_least = 1024;

    void queue() noexcept;
    void send_waiting() noexcept;
    void receive() noexcept;
    void give_back() noexcept;
    void failed(Progress progress) noexcept;
    struct Frames {
        Frame* first = nullptr;
        Frame* last = nullptr;
        void push(Frame& frame) noexcept;
        [[nodiscard]] Frame* pop() noexcept;
    };

    Sockets& sockets_;
    Descriptor socket_;
    std::unique_ptr<SecureSocket> secure_;
    WireUser* user_ = nullptr;

    Frames waiting_;
    size_t first_sent_ = 0;  // of the first one, with its length
    Frames sent_;
    bool output_blocked_ = false;

    FrameReader reader_;
    bool readable_ = false;
    bool input_needs_output_ = false;

    End failure_ = End::none;
    bool shut_ = false;
    Event shut_event_;
};

}  // namespace ros2s::fabric::tls
