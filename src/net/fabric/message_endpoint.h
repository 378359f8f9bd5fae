// MessageEndpoint: the half of an Endpoint that carries messages, for every transport: messages
// that wait for room, in order and until they are stopped; messages that arrive in pieces; the use
// of the incoming budget. A transport writes messages and their pieces, and reports what arrives.
#pragma once
#include "ros2s/fabric/endpoint.h"

namespace ros2s::fabric {

class MessageEndpoint : public Endpoint {
  public:
    // In the incoming budget a message counts its bytes and this overhead.
    static constexpr uint64_t message_overhead = 64;
    // A smaller piece waits for more room, so that a message is not cut into tiny pieces.
    static constexpr size_t piece_bytes_least = 4096;

    // The limits in effect: incoming_bytes_max is at least two messages.
    [[nodiscard]] static Limits normalized(Limits limits) noexcept;
    Task<Result<>> send(ConstBytes head, ConstBytes body, StopToken stop) final;
    bool send_at_once(ConstBytes head, ConstBytes body) noexcept final;

  protected:
    using Endpoint::Endpoint;
    ~MessageEndpoint() override;

    // A message to send. Is part of send()'s frame, or owns its bytes (queue_copy()).
    struct Outgoing {
        ConstBytes head, body;
        uint64_t sent = 0;
        bool done = false;
        std::coroutine_handle<> waiter{};  // none: owned
        Outgoing* next = nullptr;
        [[nodiscard]] uint64_t size() const noexcept { return head.size() + body.size(); }
        // The parts of the next `count` bytes that are in head and in body.
        [[nodiscard]] std::pair<ConstBytes, ConstBytes> piece(uint64_t count) const noexcept;
    };

    // The transport's part of send(). Writes all of it now. False if there is no room, or if others
    // wait.
    [[nodiscard]] virtual bool write_at_once(ConstBytes head, ConstBytes body) noexcept = 0;
    // first() has changed, or a message was queued behind it.
    virtual void queue_changed(bool grew) noexcept = 0;

    // The message that is sent next; null: no message waits.
    [[nodiscard]] Outgoing* first() const noexcept { return first_; }
    void queue_copy(ConstBytes head, ConstBytes body);
    // The whole message was written.
    void finish(Outgoing& outgoing) noexcept;
    // The connection has ended: all waits end.
    void end_queue() noexcept;

    // True if the incoming budget has room for a message of `size` (at most message_bytes_max).
    [[nodiscard]] bool has_budget(uint64_t size) const noexcept {
        return held_ + size + message_overhead <= limits_.incoming_bytes_max;
    }
    // Memory for a message that arrives in one piece. It takes budget and is passed to deliver().
    [[nodiscard]] std::byte* begin_whole(uint64_t size);
    // A message that arrives in pieces; one at a time.
    void begin_pieces(uint64_t size);
    [[nodiscard]] bool in_pieces() const noexcept { return assembling_ != nullptr; }
    // Returns the memory for the next piece of it; null if this is not the next one. Call
    // took_piece() after it was filled.
    [[nodiscard]] std::byte* place_of_piece(uint64_t size, uint64_t offset) const noexcept;
    void took_piece(uint64_t count);

    uint64_t held_ = 0;  // of our incoming budget, in the peer's count

  private:
    struct Wait;
    void push(Outgoing& outgoing) noexcept;
    void unlink(Outgoing& outgoing) noexcept;
    void release(Outgoing& outgoing) noexcept;

    Outgoing* first_ = nullptr;
    Outgoing* last_ = nullptr;
    std::byte* assembling_ = nullptr;
    uint64_t assembling_size_ = 0;
    uint64_t assembling_have_ = 0;
};

}  // namespace ros2s::fabric
