#include "ros2s/rpc/request.h"

#include <algorithm>
#include <array>

#include "ros2s/base/check.h"
#include "ros2s/fabric/deadline.h"

namespace ros2s::rpc {
namespace {

// Most heads are smaller: payload is not part of them.
constexpr size_t kept_head_bytes = 512;
// A client that serves no put or get, or reads no large reply, for this long loses its connection.
constexpr Duration transfer_within = std::chrono::seconds(30);

}  // namespace

Result<> Request::check() const { return call_.check(environment_.endpoint.reactor()); }

void Request::begin(fabric::Message message, const Frame& frame, bool sampled) {
    ROS2S_CHECK(!is_live());
    message_ = std::move(message);
    frame_ = frame;
    body_ = frame.body;
    answered_ = false;
    left_turn_ = false;
    refusal_.reset();
    refusal_is_reported_ = false;
    charged_ns_ = charged_names_ = entries_looked_ = 0;
    arrived_ = environment_.endpoint.reactor().turn_time();
    stop_.emplace();
    call_ = {.stop = stop_->token(), .tenant = guest_.tenant, .entries_looked = &entries_looked_};
    const uint64_t remaining = frame.header.remaining_ns;
    sampled_ = sampled;
    const bool traced = sampled || client_wants_trace();
    if (remaining == FrameHeader::no_deadline && !traced) return;
    const auto most = static_cast<uint64_t>((Time::max() - arrived_).count());
    if (remaining < most) call_.deadline = arrived_ + Duration(remaining);
    if (traced) call_.trace = &trace_.emplace();
}

void Request::end() {
    ROS2S_CHECK(answered_);
    stop_.reset();
    body_memory_ = {};
    message_ = {};
    call_ = {};
    trace_.reset();
    // A connection has one of these for each credit.
    if (head_.capacity() > kept_head_bytes) head_ = {};
}

Task<Result<>> Request::fetch_body() {
    body_memory_ = memory(frame_.header.body_bytes);
    ROS2S_CO_TRY(co_await move(Way::get, 0, body_memory_.bytes()));
    body_ = body_memory_.bytes();
    co_return Result<>{};
}

Task<Result<>> Request::receive_payload(Bytes into) {
    ROS2S_CHECK(into.size() == payload_bytes());
    environment_.metrics.bytes_in.add(into.size());
    if (!frame_.header.has(Flag::in_source)) {
        std::ranges::copy(frame_.payload, into.begin());
        co_return Result<>{};
    }
    co_return co_await move(Way::get, body_bytes_in_front(), into);
}

Result<fabric::Mapping> Request::map_payload() {
    ROS2S_TRY_ASSIGN(auto mapping, map(Way::get, body_bytes_in_front(), payload_bytes()));
    environment_.metrics.bytes_in.add(payload_bytes());
    return mapping;
}

Result<fabric::Mapping> Request::map_sink() { return map(Way::put, 0, sink_bytes()); }

Result<fabric::Mapping> Request::map(Way way, uint64_t offset, uint64_t size) {
    const bool is_source = way == Way::get;
    const size_t windows = is_source ? frame_.header.source_windows : frame_.header.sink_windows;
    if (windows != 1) return ros2s::fail(Code::unsupported);
    ROS2S_TRY(check());
    const WindowDescriptor window = is_source ? frame_.source(0) : frame_.sink(0);
    const auto key = fabric::RemoteKey::decode(window.key);
    if (!key) return end_for_false_window();
    auto mapping =
        environment_.endpoint.map(*key, window.offset + offset, size,
                                  is_source ? fabric::Rights::read : fabric::Rights::write);
    if (!mapping && mapping.error().code == Code::denied) {
        environment_.gate.misused(guest_, environment_.endpoint.peer());
    }
    if (!mapping && mapping.error().code == Code::invalid) return end_for_false_window();
    return mapping;
}

Task<Result<>> Request::place(uint64_t offset, ConstBytes bytes) {
    if (offset > sink_bytes() || bytes.size() > sink_bytes() - offset) {
        co_return ros2s::fail(Code::invalid);
    }
    if (frame_.header.sink_windows == 0 && !bytes.empty()) {
        co_return ros2s::fail(Code::too_large, environment_.options.inline_reply_bytes);
    }
    environment_.metrics.bytes_out.add(bytes.size());
    co_return co_await move(Way::put, offset, {const_cast<std::byte*>(bytes.data()), bytes.size()});
}

Task<Result<>> Request::move(Way way, uint64_t offset, Bytes memory) {
    const size_t windows =
        way == Way::get ? frame_.header.source_windows : frame_.header.sink_windows;
    for (size_t i = 0; i < windows && !memory.empty(); ++i) {
        const WindowDescriptor window = way == Way::get ? frame_.source(i) : frame_.sink(i);
        if (offset >= window.length) {
            offset -= window.length;
            continue;
        }
        const Bytes part = memory.first(std::min<uint64_t>(memory.size(), window.length - offset));
        ROS2S_CO_TRY(check());
        ROS2S_CO_TRY(co_await move_part(way, window, offset, part));
        memory = memory.subspan(part.size());
        offset = 0;
    }
    ROS2S_CHECK(memory.empty());
    co_return Result<>{};
}

Task<Result<>> Request::move_part(Way way, WindowDescriptor window, uint64_t offset, Bytes memory) {
    fabric::Endpoint& endpoint = environment_.endpoint;
    const auto key = fabric::RemoteKey::decode(window.key);
    if (!key) co_return end_for_false_window();
    // A transfer cannot be cancelled: a client that does not serve it loses the connection.
    struct Stalled : StopCallback {
        Stalled(StopToken token, RequestEnvironment& where)
            : StopCallback(token.source(), fire), environment(where) {}
        static void fire(StopCallback& self) noexcept {
            RequestEnvironment& environment = static_cast<Stalled&>(self).environment;
            environment.metrics.stalled.add();
            environment.endpoint.abandon();
        }
        RequestEnvironment& environment;
    };
    fabric::Deadline within(endpoint.reactor(), endpoint.reactor().now() + transfer_within, {});
    Result<> moved;
    {
        const Stalled stalled(within.token(), environment_);
        if (way == Way::get) {
            moved = co_await endpoint.get(*key, window.offset + offset, memory);
        } else {
            moved = co_await endpoint.put(*key, window.offset + offset, memory,
                                          fabric::PutReturns::ordered);
        }
    }
    co_await within.finish();
    if (!moved && moved.error().code == Code::denied) {
        environment_.gate.misused(guest_, endpoint.peer());
    }
    // A revoked window is refused as well: its request was cancelled. This one was never granted.
    if (!moved && moved.error().code == Code::invalid) co_return end_for_false_window();
    co_return moved;
}

std::unexpected<Error> Request::end_for_false_window() {
    environment_.metrics.malformed.add();
    refusal_ = Error{.code = Code::invalid};
    environment_.endpoint.abandon();
    return ros2s::fail(Code::disconnected);
}

bool Request::fits_inline(uint64_t body_bytes, uint64_t payload_bytes) const {
    const uint64_t most = std::min<uint64_t>(environment_.options.inline_reply_bytes,
                                             environment_.endpoint.send_bytes_max());
    return payload_bytes <= most &&
           frame_bytes(0, body_bytes) + trace_bytes() <= most - payload_bytes;
}

uint64_t Request::reply_body_bytes_max() const {
    return std::min<uint64_t>(environment_.endpoint.send_bytes_max() - sizeof(FrameHeader),
                              body_bytes_max);
}

Task<> Request::reply(ConstBytes body, ConstBytes inline_payload) {
    FrameHeader header;
    header.kind = Kind::reply;
    header.payload_bytes = inline_payload.size();
    environment_.metrics.bytes_out.add(inline_payload.size());
    return answer(header, body, inline_payload);
}

Task<> Request::reply_placed(ConstBytes body, uint64_t payload_bytes) {
    FrameHeader header;
    header.kind = Kind::reply;
    header.set(Flag::placed);
    header.payload_bytes = payload_bytes;
    return answer(header, body, {});
}

Task<> Request::fail(Error error, std::string_view text) {
    std::array<std::byte, failure_bytes_max> memory;
    FrameHeader header;
    header.kind = Kind::failure;
    environment_.metrics.failures.add();
    if (!refusal_ && is_refusal(error.code)) refusal_ = error;
    if (is_charged_refusal(error.code)) environment_.line.charge_refusal(cost_ns_ + charged_ns_);
    const FailureBody failure{.error = error, .text = text};
    co_await answer(header, encode(failure, memory), {});
}

Task<> Request::answer(FrameHeader header, ConstBytes body, ConstBytes inline_payload) {
    ROS2S_CHECK(is_live() && !answered_);
    if (sizeof header + body.size() + inline_payload.size() >
        environment_.endpoint.send_bytes_max()) {
        co_return co_await fail(
            {.code = Code::too_large, .detail = environment_.endpoint.send_bytes_max()},
            "the answer is larger than the client takes");
    }
    answered_ = true;
    const ConstBytes head = encode_answer(header, body, inline_payload.size());
    Result<> sent = send_answer(head, inline_payload);
    if (!sent && sent.error().code == Code::too_large) {
        sent = co_await send_large(head, inline_payload);
    }
    end_answer(sent);
}

bool Request::reply_at_once(ConstBytes body, ConstBytes inline_payload) {
    ROS2S_CHECK(is_live() && !answered_);
    FrameHeader header;
    header.kind = Kind::reply;
    header.payload_bytes = inline_payload.size();
    const ConstBytes head = encode_answer(header, body, inline_payload.size());
    const Result<> sent = send_answer(head, inline_payload);
    if (!sent && sent.error().code == Code::too_large) return false;
    answered_ = true;
    environment_.metrics.bytes_out.add(inline_payload.size());
    end_answer(sent);
    return true;
}

ConstBytes Request::encode_answer(FrameHeader header, ConstBytes body, uint64_t inline_payload) {
    header.session = environment_.session;
    header.request = number();
    const uint64_t untraced = frame_bytes(0, body.size());
    head_.resize(untraced + trace_bytes());
    ConstBytes trace;
    if (client_wants_trace() && header.kind == Kind::reply &&
        fits_inline(body.size(), inline_payload)) {
        trace = encode_trace(*trace_, arrived_, environment_.endpoint.reactor().now(),
                             Bytes(head_).subspan(untraced));
    }
    return encode_frame(header, {}, {}, body, head_, trace);
}

Result<> Request::send_answer(ConstBytes head, ConstBytes inline_payload) {
    if (head.size() + inline_payload.size() > environment_.options.inline_reply_bytes) {
        return ros2s::fail(Code::too_large);
    }
    return environment_.endpoint.reply(message_, head, inline_payload);
}

void Request::end_answer(const Result<>& sent) {
    if (!sent) environment_.metrics.answers_lost.add();
    took_ = environment_.endpoint.reactor().since(arrived_);
}

Task<Result<>> Request::send_large(ConstBytes head, ConstBytes payload) {
    fabric::Endpoint& endpoint = environment_.endpoint;
    fabric::Deadline within(endpoint.reactor(), endpoint.reactor().now() + transfer_within, {});
    const Result<> sent = co_await endpoint.send(head, payload, within.token());
    co_await within.finish();
    if (!sent && sent.error().code == Code::cancelled) {
        environment_.metrics.stalled.add();
        endpoint.abandon();
    }
    co_return sent;
}

}  // namespace ros2s::rpc
