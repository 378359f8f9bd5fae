// Request: a request as a Service gets it: the decoded frame, access to its payload, and the reply.
//
// Owned by its connection. The service may use it until its serve() returns, on the server's core.
// If the connection ends before, the call's stop token fires and every transfer fails with
// `disconnected`. The service still replies; the reply is dropped.
//
// Invariants
// - It gets exactly one reply.
// - After a cancellation, or the deadline, no put or get begins.
// - decode_frame() has checked that lengths and windows are consistent. The fabric checks the keys
//   of windows at every use.
#pragma once
#include <coroutine>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "ros2s/fabric/endpoint.h"
#include "ros2s/rpc/frame.h"
#include "ros2s/rpc/options.h"
#include "ros2s/rpc/payload_pool.h"
#include "ros2s/rpc/rpc_metrics.h"
#include "ros2s/rpc/trace_wire.h"
#include "ros2s/runtime/call.h"

namespace ros2s::rpc {

// The client may not do it, or has no room left: counted as a refusal of its tenant, and audited.
[[nodiscard]] constexpr bool is_refusal(Code code) noexcept {
    return code == Code::denied || code == Code::read_only || code == Code::busy ||
           code == Code::over_cap;
}

// The client could have known that the request fails, or asks for what it may not have. It pays for
// that (admission::Line::charge_refusal()). Not `over_cap`, `busy` and `read_only`: a client that
// serves others, such as a DPU, passes on what they do not know.
[[nodiscard]] constexpr bool is_charged_refusal(Code code) noexcept {
    return code == Code::denied || code == Code::corrupt || code == Code::invalid ||
           code == Code::too_large || code == Code::unsupported;
}

// The client at the other end, as the gate identified it.
struct Guest {
    uint64_t session = 0;
    uint64_t tenant = 0;
    Uuid owner{};                             // of its clients' update names (UpdateName::owner)
    std::shared_ptr<GuestMetrics> metrics{};  // null: they are not counted
};

class Gate;

// Common to the requests of a connection, which owns it.
struct RequestEnvironment {
    fabric::Endpoint& endpoint;
    const ServerOptions& options;
    ServerMetrics& metrics;
    PayloadPool& memory;
    Gate& gate;
    admission::Line& line;
    uint32_t session = 0;
};

class Request {
  public:
    Request(RequestEnvironment& environment, Guest guest)
        : environment_(environment), guest_(guest) {}
    Request& operator=(Request&&) = delete;

    [[nodiscard]] const Guest& guest() const { return guest_; }
    [[nodiscard]] uint16_t method() const { return frame_.header.method; }
    [[nodiscard]] UpdateName operation() const { return frame_.header.operation(); }
    // It was sent before, and may have been done.
    [[nodiscard]] bool repeated() const { return frame_.header.has(Flag::repeated); }
    // Its deadline, stop token and tenant; a counter of entries that it looks at; a trace, if the
    // client requests one or it is a sample.
    [[nodiscard]] const Call& call() const { return call_; }
    [[nodiscard]] ConstBytes body() const { return body_; }
    // Also of a body that has not arrived yet.
    [[nodiscard]] uint64_t body_bytes() const { return frame_.header.body_bytes; }
    [[nodiscard]] uint64_t payload_bytes() const { return frame_.header.payload_bytes; }
    // The largest payload that the reply may have.
    [[nodiscard]] uint64_t sink_bytes() const { return frame_.header.sink_bytes; }

    // Memory for payload. In all at most body, payload and sink of the request, for which it was
    // admitted, and a quarter of the sink and two blocks for gaps.
    [[nodiscard]] PayloadMemory memory(uint64_t size) {
        ROS2S_CHECK(size <= bytes_most() + sink_bytes() / 4 + 2 * block_bytes);
        return environment_.memory.take(size);
    }
    // Moves the payload (payload_bytes()) into memory that the client cannot access. Errors: those
    // of fabric::Endpoint::get(), cancelled, deadline.
    Task<Result<>> receive_payload(Bytes into);

    // Maps the payload, or the whole sink, in the client's memory. The grant is in use until the
    // mapping ends; end it before the reply. The client may change the memory at any time.
    // Errors: unsupported (it is not in one window, or the provider cannot map it: use
    // receive_payload() and place()), those of fabric::Endpoint::map(), cancelled,
    // deadline.
    [[nodiscard]] Result<fabric::Mapping> map_payload();
    [[nodiscard]] Result<fabric::Mapping> map_sink();

    // True when a reply of these sizes goes inline.
    [[nodiscard]] bool fits_inline(uint64_t body_bytes, uint64_t payload_bytes) const;
    // The payload of its reply has no other place.
    [[nodiscard]] bool has_no_sink_windows() const { return frame_.header.sink_windows == 0; }
    // Bytes of the largest body that a reply can have.
    [[nodiscard]] uint64_t reply_body_bytes_max() const;
    // Puts bytes at `offset` of the sink. They arrive before the reply. Errors: those of
    // fabric::Endpoint::put(), invalid (beyond the sink), too_large (no windows came with the
    // request, so it must go inline), cancelled, deadline.
    Task<Result<>> place(uint64_t offset, ConstBytes bytes);

    // Sends the reply, with inline payload (fits_inline()), or with the size of placed payload.
    Task<> reply(ConstBytes body, ConstBytes inline_payload = {});
    Task<> reply_placed(ConstBytes body, uint64_t payload_bytes);
    // reply(), without a coroutine. False: there is no room for it now, and the request is not
    // answered.
    [[nodiscard]] bool reply_at_once(ConstBytes body, ConstBytes inline_payload);
    // Sends an error as the reply, with a sentence for people.
    Task<> fail(Error error, std::string_view text = {});
    [[nodiscard]] bool answered() const { return answered_; }
    // The request costs the server this much more than the work() of its Service
    // (admission/cost.h). Call it as soon as the cost is known: its tenant's next requests wait for
    // it.
    void charge(uint64_t cost_ns) { charged_ns_ += cost_ns; }
    // The request concerns this many more names, which count for the tenant's rate of names.
    void charge_names(uint64_t names) { charged_names_ += names; }
    // The code that refuses it writes an audit line of its own: Service::refused() is not called.
    void mark_refusal_reported() { refusal_is_reported_ = true; }
    // From now on it waits for others: it takes no part of what its tenant may have inside, and is
    // stopped when the server closes.
    void leave_turn() {
        if (permit_ != nullptr && *permit_) {
            permit_->correct_cost(charged_ns_);
            permit_->release();
        }
        left_turn_ = true;
    }
    [[nodiscard]] Time arrived() const { return arrived_; }
    // From its arrival until its reply was queued. Call it after that.
    [[nodiscard]] Duration took() const { return took_; }

  private:
    friend class ServerConnection;
    // Begins with a received frame. fetch_body() gets a body that is in the source windows.
    // `sampled`: it has a trace also if the client requests none.
    void begin(fabric::Message message, const Frame& frame, bool sampled);
    // Call::check(). Without a deadline it reads no clock.
    [[nodiscard]] Result<> check() const;
    // The most payload memory that it may use.
    [[nodiscard]] uint64_t bytes_most() const {
        return payload_bytes() + sink_bytes() + body_bytes_in_front();
    }
    // A reply that fills the sink could not be delivered: it does not fit inline and has no window.
    [[nodiscard]] bool is_undeliverable() const {
        return sink_bytes() > 0 && frame_.header.sink_windows == 0 && !fits_inline(0, sink_bytes());
    }
    [[nodiscard]] bool has_body_in_source() const {
        return frame_.header.has(Flag::body_in_source);
    }
    [[nodiscard]] bool client_wants_trace() const { return frame_.header.trace != 0; }
    // The bytes of the reply that the trace may take.
    [[nodiscard]] size_t trace_bytes() const { return client_wants_trace() ? trace_bytes_max : 0; }
    Task<Result<>> fetch_body();
    void end();
    [[nodiscard]] bool refusal_is_reported() const { return refusal_is_reported_; }
    // The error with which it was refused (is_refusal()), or ended its connection because it is
    // malformed.
    [[nodiscard]] const std::optional<Error>& refusal() const { return refusal_; }
    [[nodiscard]] bool sampled() const { return sampled_; }
    [[nodiscard]] uint64_t number() const { return frame_.header.request; }
    [[nodiscard]] bool is_live() const { return stop_.has_value(); }
    void give_up() {
        if (stop_) stop_->request_stop();
    }

    enum class Way : uint8_t { get, put };
    [[nodiscard]] uint64_t body_bytes_in_front() const {
        return has_body_in_source() ? frame_.header.body_bytes : 0;
    }
    Result<fabric::Mapping> map(Way way, uint64_t offset, uint64_t size);
    // Between [offset, offset + memory) of the windows and memory.
    Task<Result<>> move(Way way, uint64_t offset, Bytes memory);
    Task<Result<>> move_part(Way way, WindowDescriptor window, uint64_t offset, Bytes memory);
    // A window that the client never granted ends the connection.
    std::unexpected<Error> end_for_false_window();
    // A reply for which there is no room. It waits for the client to read.
    Task<Result<>> send_large(ConstBytes head, ConstBytes payload);
    Task<> answer(FrameHeader header, ConstBytes body, ConstBytes inline_payload);
    // The frame of the answer, without the payload.
    ConstBytes encode_answer(FrameHeader header, ConstBytes body, uint64_t inline_payload);
    // Errors: too_large (not in the room that it has), disconnected.
    Result<> send_answer(ConstBytes head, ConstBytes inline_payload);
    void end_answer(const Result<>& sent);

    RequestEnvironment& environment_;
    const Guest guest_;
    fabric::Message message_;
    Frame frame_;
    ConstBytes body_;
    PayloadMemory body_memory_;
    std::optional<StopSource> stop_;  // while it is being served
    Call call_;
    std::optional<Trace> trace_;
    Time arrived_{};
    Duration took_{};
    bool answered_ = false;
    std::optional<Error> refusal_;
    admission::Permit* permit_ = nullptr;  // while it is served
    bool left_turn_ = false;
    bool sampled_ = false;
    bool refusal_is_reported_ = false;
    uint64_t cost_ns_ = 0;  // as far as it was known before it began
    uint64_t charged_ns_ = 0;
    uint64_t charged_names_ = 0;
    uint64_t entries_looked_ = 0;
    std::vector<std::byte> head_;  // of the reply; its memory is reused, unless it is large
};

// Answers requests. Owned by the code that composes it; outlives the servers that use it.
class Service {
  public:
    virtual ~Service() = default;
    // Its number in the hello.
    [[nodiscard]] virtual uint32_t number() const = 0;
    // Replies before it returns. Many run concurrently.
    virtual Task<> serve(Request& request) = 0;
    // Begins to serve it without a coroutine, and posts `waiter` at the end. If it is not answered
    // then, or if this returns false (nothing was begun): serve().
    [[nodiscard]] virtual bool serve_straight(Request& /*request*/,
                                              std::coroutine_handle<> /*waiter*/) {
        return false;
    }
    // The kind of work of a request, before its body is decoded.
    [[nodiscard]] virtual admission::Work work(const Request& request) const {
        if (request.payload_bytes() > 0) return admission::Work::write;
        return request.sink_bytes() > 0 ? admission::Work::read : admission::Work::look;
    }
    // Others wait for what the request says: it begins without a turn (admission::Line::pass()).
    [[nodiscard]] virtual bool is_awaited(const Request& /*request*/) const { return false; }
    // The most memory that the reply's body may need, with what it is made from. Before the request
    // is admitted: a body in the client's windows has not arrived yet.
    [[nodiscard]] virtual uint64_t reply_memory_bytes(const Request& /*request*/) const {
        return 0;
    }
    // The request was refused, and is answered: for the audit log.
    virtual void refused(const Request& /*request*/, const Error& /*why*/) {}
    // The name of the step that represents it in traces; a literal.
    [[nodiscard]] virtual std::string_view name() const { return "server.serve"; }
    // A literal, for sampled traces.
    [[nodiscard]] virtual std::string_view method_name(uint16_t /*method*/) const {
        return "request";
    }
};

// Decides which clients are admitted.
class Gate {
  public:
    virtual ~Gate() = default;
    // Checks a client's hello, before anything is set up for it. Errors: denied, busy.
    [[nodiscard]] virtual Result<Guest> admit(const HelloBody& hello, const fabric::Peer& peer) = 0;
    // For the audit log: a request named memory that does not belong to its client, or must not be
    // used that way.
    virtual void misused(const Guest& /*guest*/, const fabric::Peer& /*peer*/) {}
    // A client whose ticket is valid, or was not looked at, is not connected, or is connected no
    // longer. `guest`: as far as it is known.
    virtual void turned_away(const Guest& /*guest*/, const fabric::Peer& /*peer*/,
                             const Error& /*error*/, std::string_view /*why*/) {}
    // A connection has ended. Called once for each admitted one.
    virtual void left(const Guest& guest) = 0;
};

}  // namespace ros2s::rpc
