// MessageEndpoint: the half of an Endpoint that carries messages, for every transport: those that
// wait for room, in order and until they are stopped; those that come in pieces; what of the
// incoming budget is held. A transport writes messages and pieces of them, and says what came.
#pragma once
#include "ros2s/fabric/endpoint.h"

namespace ros2s::fabric {

class MessageEndpoint : public Endpoint {
  public:
    // A message counts so much more than its bytes in the incoming budget.
    static constexpr uint64_t message_overhead = 64;
    // A smaller piece waits for more room rather than cut a message into crumbs.
    static constexpr size_t piece_bytes_least = 4096;

    // Limits as they are kept: incoming_bytes_max is at least two messages.
    [[nodiscard]] static Limits settle(Limits limits) noexcept;
    Task<Result<>> send(ConstBytes head, ConstBytes body, StopToken stop) final;

  protected:
    using Endpoint::Endpoint;
    ~MessageEndpoint() override;

    // A message on its way out. Lives in send()'s frame, or owns its bytes (queue_copy()).
    struct Outgoing {
        ConstBytes head, body;
        uint64_t sent = 0;
        bool done = false;
        std::coroutine_handle<> waiter{};  // none: owned
        Outgoing* next = nullptr;
        [[nodiscard]] uint64_t size() const noexcept { return head.size() + body.size(); }
        // Of the next `count` bytes what is in head and what in body.
        [[nodiscard]] std::pair<ConstBytes, ConstBytes> piece(uint64_t count) const noexcept;
    };

    // What a transport does for send(). Writes all of it now; false where there is no room, or
    // where others wait.
    [[nodiscard]] virtual bool write_at_once(ConstBytes head, ConstBytes body) noexcept = 0;
    // first() is another, or a message waits behind it.
    virtual void queue_changed(bool grew) noexcept = 0;

    // The message that goes next; none: nobody waits.
    [[nodiscard]] Outgoing* first() const noexcept { return first_; }
    void queue_copy(ConstBytes head, ConstBytes body);
    // It was written, whole.
    void finish(Outgoing& outgoing) noexcept;
    // The connection has ended: nothing waits any more.
    void end_queue() noexcept;

    // The incoming budget has room for a message of `size`, which is none over message_bytes_max.
    [[nodiscard]] bool has_budget(uint64_t size) const noexcept {
        return held_ + size + message_overhead <= limits_.incoming_bytes_max;
    }
    // Memory for one that comes whole; it takes budget and is given to deliver().
    [[nodiscard]] std::byte* begin_whole(uint64_t size);
    // One that comes in pieces; there is one at a time.
    void begin_pieces(uint64_t size);
    [[nodiscard]] bool in_pieces() const noexcept { return assembling_ != nullptr; }
    // Where the next piece of it goes; null for one that is not the next. Then took_piece().
    [[nodiscard]] std::byte* place_of_piece(uint64_t size, uint64_t offset) const noexcept;
    void took_piece(uint64_t count);

    uint64_t held_ = 0;  // of our incoming budget, as the peer knows it

  private:
    struct Wait;
    void push(Outgoing& outgoing) noexcept;
    void unlink(Outgoing& outgoing) noexcept;
    void let_go(Outgoing& outgoing) noexcept;

    Outgoing* first_ = nullptr;
    Outgoing* last_ = nullptr;
    std::byte* assembling_ = nullptr;
    uint64_t assembling_size_ = 0;
    uint64_t assembling_have_ = 0;
};

}  // namespace ros2s::fabric
