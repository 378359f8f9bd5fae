#include "client_connection.h"

#include <algorithm>
#include <cstring>

#include "ros2s/base/check.h"
#include "ros2s/fabric/deadline.h"
#include "ros2s/runtime/call.h"
#include "ros2s/runtime/sync.h"

namespace ros2s::rpc {
namespace {

// Lines of tenants without requests in progress.
constexpr size_t idle_lines_max = 64;

// Each tenant has one line; a single tenant may use all credits. How much of large requests may be
// on the way is the server's decision.
admission::Limits credits_of(uint32_t requests, uint64_t bytes) {
    const admission::Amount all{.requests = requests, .bytes = bytes};
    return {.all = all,
            .one = all,
            .large = std::chrono::hours(1),
            .line_bytes = bytes,
            .keeps_accounts = false};
}

uint16_t requests_with_credit(uint16_t granted, uint16_t most) {
    return std::min<uint16_t>(most, granted - granted / ChannelOptions::awaited_part);
}

}  // namespace

ClientConnection::ClientConnection(Reactor& reactor, std::unique_ptr<fabric::Endpoint> endpoint,
                                   const Welcome& welcome, const ChannelOptions& options,
                                   ChannelMetrics& metrics)
    : reactor_(reactor),
      endpoint_(std::move(endpoint)),
      options_(options),
      metrics_(metrics),
      welcome_(welcome.body),
      requests_max_(requests_with_credit(welcome_.requests_max, options.requests_max)),
      session_(welcome.session),
      staging_(reactor, *endpoint_),
      credits_(reactor, credits_of(requests_max_, options.staging_bytes_max), options.accounts),
      awaited_credits_(reactor, credits_of(welcome_.requests_max - requests_max_, 0)),
      slots_(welcome_.requests_max),
      unused_(reactor) {
    for (auto slot = static_cast<uint32_t>(slots_.size()); slot-- > 0;) free_.push_back(slot);
    endpoint_->read_in_place(this);
}

ClientConnection::~ClientConnection() { ROS2S_CHECK(exchanges_ == 0); }

Task<> ClientConnection::receive_all() {
    while (is_alive()) {
        auto message = co_await endpoint_->receive(leave_.token());
        if (!message) break;
        if (take(std::move(*message))) continue;
        metrics_.malformed.add();
        endpoint_->abandon();
    }
    leaving_ = true;
    wake_all();
}

void ClientConnection::leave() {
    leaving_ = true;
    leave_.request_stop();
    wake_all();
}

void ClientConnection::wake_all() noexcept {
    staging_.end();
    for (RequestSlot& slot : slots_) {
        if (slot.exchange != nullptr) slot.exchange->changed.wake_all();
        if (slot.posted != nullptr) end_posted(slot).lost();
    }
    for (auto& [tenant, line] : lines_) line.turn_away();
    awaited_line_.turn_away();
}

Task<> ClientConnection::close() {
    while (exchanges_ > 0) co_await unused_;
    co_await endpoint_->close();
}

// ---- credits --------------------------------------------------------------------------------

admission::Line& ClientConnection::line_of(uint64_t tenant) {
    if (const auto found = lines_.find(tenant); found != lines_.end()) return found->second;
    // Lines of tenants that have no requests any more.
    if (lines_.size() >= idle_lines_max) {
        std::erase_if(lines_, [](const auto& each) { return each.second.is_idle(); });
    }
    return lines_.try_emplace(tenant, credits_, tenant).first->second;
}

uint32_t ClientConnection::take_slot(admission::Permit credit) {
    const uint32_t place = free_.back();
    free_.pop_back();
    RequestSlot& slot = slots_[place];
    slot.credit = std::move(credit);
    slot.number = ++slot.uses << slot_bits | place;
    return place;
}

void ClientConnection::give_slot(uint32_t slot) noexcept {
    slots_[slot].number = 0;
    slots_[slot].exchange = nullptr;
    free_.push_back(slot);
    slots_[slot].credit.release();
}

// ---- a request ------------------------------------------------------------------------------

Task<ClientConnection::Outcome> ClientConnection::exchange(const Call& call,
                                                           const CallRequest& request,
                                                           ReplyReader& reader, StepNames& names,
                                                           StopToken stop) {
    struct Use {
        explicit Use(ClientConnection& connection) : self(connection) { ++self.exchanges_; }
        Use& operator=(Use&&) = delete;
        ~Use() {
            if (--self.exchanges_ == 0) self.unused_.wake_all();
        }
        ClientConnection& self;
    };
    const Use use(*this);
    const Layout layout = lay_out(call, request);
    Exchange exchange(reactor_, layout.sink_windows ? std::span<const Bytes>{} : request.sink);
    if (!is_alive()) co_return Outcome{.lost = true};
    const bool is_awaited = request.is_awaited && awaited_max() > 0 && layout.window_bytes == 0;
    admission::Line& line = is_awaited ? awaited_line_ : line_of(call.tenant);
    admission::Permit credit = co_await line.enter(layout.window_bytes, stop);
    if (!is_alive()) co_return Outcome{.lost = true};
    if (!credit) co_return Outcome{.result = fail(Code::cancelled)};
    exchange.slot = take_slot(std::move(credit));
    RequestSlot& slot = slots_[exchange.slot];
    slot.exchange = &exchange;
    Windows windows(*endpoint_, staging_, metrics_);
    Outcome outcome;
    const Span span(call.trace, reactor_, "rpc.call");
    if (layout.window_bytes > 0) {
        outcome.result = co_await open_windows(windows, request, layout, stop);
    }
    const Time sent = call.trace != nullptr ? reactor_.now() : Time{};
    if (outcome.result) {
        const Parts parts = encode(slot, call, request, layout, windows);
        outcome.result = co_await endpoint_->send(parts.head, parts.tail, stop);
        // A request that failed with its connection may have arrived.
        outcome.sent = outcome.result || outcome.result.error().code == Code::disconnected;
    }
    if (outcome.result) {
        {
            const WakeOnStop wake(stop, exchange.changed);
            while (is_waiting(exchange, stop)) co_await exchange.changed;
        }
        if (!exchange.answered && is_alive()) co_await give_up(exchange);
    }
    if (exchange.answered && call.trace != nullptr && !exchange.frame.trace.empty()) {
        // An invalid trace is no reason to refuse the reply.
        (void)add_steps(*call.trace, exchange.frame.trace, sent, reactor_.now(), names);
    }
    if (layout.window_bytes > 0) co_await windows.revoke();
    if (exchange.answered) {
        SlicedCopies copies;
        outcome.result = read(exchange, request, windows, reader, copies);
        if (!copies.done()) co_await copies.finish(staging_.copying());
    } else if (!is_alive()) {
        outcome.lost = true;
    } else if (outcome.result) {
        metrics_.requests_given_up.add();
        outcome.result = fail(Code::cancelled);
    }
    windows.free();
    if (exchange.answered || !outcome.sent) {
        give_slot(exchange.slot);
    } else {
        slot.exchange = nullptr;
    }
    co_return outcome;
}

ClientConnection::Layout ClientConnection::lay_out(const Call& call,
                                                   const CallRequest& request) const {
    const uint64_t request_most =
        std::min(options_.inline_request_bytes, endpoint_->send_bytes_max());
    const uint64_t reply_most =
        std::min<uint64_t>(options_.message_bytes_max, welcome_.inline_reply_max);
    const uint64_t payload = bytes_of(request.payload);
    const uint64_t sink = bytes_of(request.sink);
    const uint64_t trace = call.trace != nullptr ? trace_bytes_max : 0;
    const uint64_t frame = frame_bytes(2 * windows_max, request.body.size());
    Layout layout{
        .body_inline = request.body.empty() || frame <= request_most,
        .payload_inline = payload == 0 || frame + payload <= request_most,
        .sink_windows =
            sink > 0 && frame_bytes(0, request.reply_body_bytes_max) + trace + sink > reply_most,
    };
    if (!layout.body_inline) layout.window_bytes += request.body.size();
    if (!layout.payload_inline) layout.window_bytes += payload;
    if (layout.sink_windows) layout.window_bytes += sink;
    return layout;
}

Task<Result<>> ClientConnection::open_windows(Windows& windows, const CallRequest& request,
                                              Layout layout, StopToken stop) {
    InlineVector<ConstBytes, 1> source;
    if (!layout.body_inline) source.push_back(request.body);
    if (!layout.payload_inline) {
        for (const ConstBytes piece : request.payload) source.push_back(piece);
    }
    const std::span<const Bytes> sink =
        layout.sink_windows ? request.sink : std::span<const Bytes>{};
    co_return co_await windows.open(source, sink, stop);
}

ClientConnection::Parts ClientConnection::encode(RequestSlot& slot, const Call& call,
                                                 const CallRequest& request, Layout layout,
                                                 const Windows& windows) {
    FrameHeader header;
    header.kind = Kind::request;
    header.method = request.method;
    header.session = session_;
    header.request = slot.number;
    header.trace = call.trace != nullptr ? 1 : 0;
    header.set(request.id);
    header.payload_bytes = bytes_of(request.payload);
    header.sink_bytes = bytes_of(request.sink);
    header.body_bytes = static_cast<uint32_t>(request.body.size());
    if (!windows.source().empty()) header.set(Flag::in_source);
    if (!layout.body_inline) header.set(Flag::body_in_source);
    if (request.repeated) header.set(Flag::repeated);
    if (call.deadline != Time::max()) {
        const Duration remaining = call.deadline - reactor_.now();
        header.remaining_ns = static_cast<uint64_t>(std::max(remaining, Duration{}).count());
    }
    const ConstBytes body = layout.body_inline ? request.body : ConstBytes{};
    const size_t descriptors = windows.source().size() + windows.sink().size();
    const uint64_t head_bytes = frame_bytes(descriptors, body.size());
    const bool copies = layout.payload_inline && request.payload.size() > 1;
    slot.memory.resize(head_bytes + (copies ? header.payload_bytes : 0));
    Bytes rest = Bytes(slot.memory).subspan(head_bytes);
    ConstBytes tail = rest;
    if (copies) {
        for (const ConstBytes piece : request.payload) {
            std::ranges::copy(piece, rest.begin());
            rest = rest.subspan(piece.size());
        }
    } else if (layout.payload_inline && !request.payload.empty()) {
        tail = request.payload.front();
    }
    if (layout.payload_inline) metrics_.inline_bytes.add(header.payload_bytes);
    return {encode_frame(header, windows.source(), windows.sink(), body, slot.memory), tail};
}

ConstBytes ClientConnection::encode_cancel(uint32_t slot, CancelFrame& into) const {
    FrameHeader header;
    header.kind = Kind::cancel;
    header.session = session_;
    header.request = slots_[slot].number;
    return encode_frame(header, {}, {}, {}, into);
}

Task<> ClientConnection::give_up(Exchange& exchange) {
    CancelFrame memory;
    fabric::Deadline within(reactor_, reactor_.now() + options_.answer_within, {});
    const ConstBytes frame = encode_cancel(exchange.slot, memory);
    if (co_await endpoint_->send(frame, {}, within.token())) {
        const WakeOnStop wake(within.token(), exchange.changed);
        while (is_waiting(exchange, within.token())) co_await exchange.changed;
    }
    co_await within.finish();
}

// ---- posted calls ---------------------------------------------------------------------------

bool ClientConnection::post(uint64_t tenant, const PostedRequest& request, PostedCall& posted) {
    const uint64_t request_most =
        std::min(options_.inline_request_bytes, endpoint_->send_bytes_max());
    const uint64_t reply_most =
        std::min<uint64_t>(options_.message_bytes_max, welcome_.inline_reply_max);
    const uint64_t reply = frame_bytes(0, request.reply_body_bytes_max) + request.payload_bytes;
    if (frame_bytes(0, request.body.size()) > request_most || reply > reply_most) return false;
    admission::Permit credit = line_of(tenant).try_enter(0);
    if (!credit) return false;
    const uint32_t place = take_slot(std::move(credit));
    RequestSlot& slot = slots_[place];
    FrameHeader header;
    header.kind = Kind::request;
    header.method = request.method;
    header.session = session_;
    header.request = slot.number;
    header.set(request.id);
    header.sink_bytes = request.payload_bytes;
    slot.memory.resize(frame_bytes(0, request.body.size()));
    if (!endpoint_->send_at_once(encode_frame(header, {}, {}, request.body, slot.memory))) {
        give_slot(place);
        return false;
    }
    slot.posted = &posted;
    posted.connection_ = this;
    posted.slot_ = place;
    ++exchanges_;
    return true;
}

PostedCall& ClientConnection::end_posted(RequestSlot& slot) noexcept {
    PostedCall& posted = *std::exchange(slot.posted, nullptr);
    posted.connection_ = nullptr;
    if (--exchanges_ == 0) unused_.wake_all();
    return posted;
}

// The reply needs no memory of the caller: nothing waits for it.
void ClientConnection::drop(PostedCall& posted) noexcept {
    CancelFrame memory;
    metrics_.requests_given_up.add();
    (void)endpoint_->send_at_once(encode_cancel(posted.slot_, memory));
    end_posted(slots_[posted.slot_]);
}

void PostedCall::drop() noexcept {
    if (connection_ != nullptr) connection_->drop(*this);
}

void ClientConnection::answer_posted(RequestSlot& slot, const Frame& frame,
                                     const fabric::BorrowedMessage& message,
                                     uint64_t payload_at) noexcept {
    PostedCall& posted = end_posted(slot);
    give_slot(static_cast<uint32_t>(&slot - slots_.data()));
    if (frame.header.kind == Kind::failure || frame.header.has(Flag::placed)) return posted.lost();
    metrics_.inline_bytes.add(frame.header.payload_bytes);
    posted.replied({.body = frame.body, .payload = message.parts(payload_at)});
}

// ---- answers --------------------------------------------------------------------------------

ClientConnection::RequestSlot* ClientConnection::slot_of(const FrameHeader& header) noexcept {
    const bool is_answer = header.kind == Kind::reply || header.kind == Kind::failure;
    const uint64_t place = header.request & slot_mask;
    if (!is_answer || header.session != session_ || place >= slots_.size()) return nullptr;
    RequestSlot& slot = slots_[place];
    return slot.number != 0 && slot.number == header.request ? &slot : nullptr;
}

// The server may change the message while it is read: the header is copied first, then the rest of
// the head after that copy. Only the copies are used.
bool ClientConnection::read(const fabric::BorrowedMessage& message) noexcept {
    FrameHeader header;
    if (message.size() < sizeof header) return false;
    message.copy(0, {reinterpret_cast<std::byte*>(&header), sizeof header});
    RequestSlot* const slot = slot_of(header);
    if (slot == nullptr) return false;
    Exchange* const exchange = slot->exchange;
    const bool is_expected = exchange != nullptr ? !exchange->answered : slot->posted != nullptr;
    if (!is_expected) return false;
    if (header.body_bytes > head_bytes_max || header.trace > head_bytes_max) return false;
    const uint64_t head_bytes = reply_head_bytes(header);
    if (head_bytes > head_bytes_max || head_bytes > message.size()) return false;
    const uint64_t payload_bytes = message.size() - head_bytes;
    // Then its layout is that of the sink.
    if (exchange != nullptr && payload_bytes > 0 && payload_bytes != bytes_of(exchange->sink)) {
        return false;
    }
    std::array<std::byte, head_bytes_max> head_of_posted;
    const Bytes head =
        Bytes(exchange != nullptr ? exchange->head : head_of_posted).first(head_bytes);
    std::memcpy(head.data(), &header, sizeof header);
    message.copy(sizeof header, head.subspan(sizeof header));
    const auto frame = decode_frame(head, payload_bytes);
    if (!frame) {
        metrics_.malformed.add();
        endpoint_->abandon();
        return true;
    }
    if (exchange == nullptr) {
        answer_posted(*slot, *frame, message, head_bytes);
        return true;
    }
    uint64_t at = head_bytes;
    if (payload_bytes > 0) {
        for (const Bytes piece : exchange->sink) {
            message.copy(at, piece);
            at += piece.size();
        }
        exchange->in_sink = true;
    }
    exchange->frame = *frame;
    exchange->answered = true;
    exchange->changed.wake_all();
    return true;
}

Result<> ClientConnection::take(fabric::Message message) {
    ROS2S_TRY_ASSIGN(const Frame frame, decode_frame(message.bytes()));
    RequestSlot* const slot = slot_of(frame.header);
    if (slot == nullptr) return fail(Code::corrupt);
    if (slot->posted != nullptr) {
        const fabric::BorrowedMessage whole(message.bytes());
        answer_posted(*slot, frame, whole, whole.size() - frame.payload.size());
        return {};
    }
    Exchange* exchange = slot->exchange;
    if (exchange == nullptr) {
        give_slot(static_cast<uint32_t>(slot - slots_.data()));
        return {};
    }
    if (exchange->answered) return fail(Code::corrupt);
    exchange->message = std::move(message);
    exchange->frame = frame;
    exchange->answered = true;
    exchange->changed.wake_all();
    return {};
}

Result<> ClientConnection::read(const Exchange& exchange, const CallRequest& request,
                                const Windows& windows, ReplyReader& reader, SlicedCopies& copies) {
    const Frame& frame = exchange.frame;
    if (frame.header.kind == Kind::failure) {
        ROS2S_TRY_ASSIGN(const FailureBody failure, decode_failure(frame.body));
        if (request.report != nullptr && !failure.text.empty()) {
            request.report->say(std::string(failure.text));
        }
        return fail(failure.error);
    }
    if (frame.header.payload_bytes > bytes_of(request.sink)) return fail(Code::corrupt);
    Reply reply{.body = frame.body, .payload_bytes = frame.header.payload_bytes, .copies = &copies};
    if (frame.header.has(Flag::placed)) {
        if (windows.sink().empty() && reply.payload_bytes > 0) return fail(Code::corrupt);
        reply.where = windows.stages_sink() ? Reply::Payload::staged : Reply::Payload::placed;
        if (windows.stages_sink()) reply.payload = windows.staged_sink();
    } else if (exchange.in_sink) {
        reply.where = Reply::Payload::placed;
        metrics_.inline_bytes.add(reply.payload_bytes);
    } else if (!frame.payload.empty()) {
        reply.where = Reply::Payload::inline_;
        reply.payload = frame.payload;
        metrics_.inline_bytes.add(frame.payload.size());
    }
    return reader.read(reply);
}

namespace {

constexpr Duration connect_within = std::chrono::seconds(5);

// The fabric's credential.
std::vector<std::byte> make_hello(const HelloBody& hello) {
    std::vector<std::byte> body_memory(hello_bytes_max);
    const ConstBytes body = encode(hello, body_memory);
    std::vector<std::byte> memory(frame_bytes(0, body.size()));
    FrameHeader header;
    header.kind = Kind::hello;
    encode_frame(header, {}, {}, body, memory);
    return memory;
}

}  // namespace

// The server's answer to the hello. Errors: the reason for its refusal, bad_version, corrupt.
Result<ClientConnection::Welcome> ClientConnection::read_verdict(ConstBytes verdict,
                                                                 const std::string& address,
                                                                 Report& report) {
    const auto frame = decode_frame(verdict);
    if (!frame && frame.error().code == Code::bad_version) {
        return report.fail(frame.error(),
                           "{} has version {} of the protocol, this program {}: use the same "
                           "release on both sides",
                           address, frame.error().detail, FrameHeader::current_version);
    }
    if (frame && frame->header.kind == Kind::failure) {
        if (const auto failure = decode_failure(frame->body)) {
            return report.fail(failure->error, "{}: {}", address, failure->text);
        }
    }
    const bool is_welcome = frame && frame->header.kind == Kind::welcome;
    const auto welcome = is_welcome ? decode_welcome(frame->body) : fail(Code::corrupt);
    if (!welcome || welcome->version != FrameHeader::current_version) {
        return report.fail(
            Code::corrupt,
            "the answer of {} is not a welcome: does a ros2store server listen there?", address);
    }
    return Welcome{.body = *welcome, .session = frame->header.session};
}

Task<Result<std::unique_ptr<ClientConnection>>> ClientConnection::open(
    Reactor& reactor, fabric::Domain& domain, const std::string& address, std::string ticket,
    const ChannelOptions& options, ChannelMetrics& metrics, const Call& call, Report& report) {
    if (ticket.size() > HelloBody::ticket_bytes_max) {
        co_return report.fail(Code::invalid, "the ticket for " + address + " is too long");
    }
    std::vector<std::byte> verdict;
    fabric::ConnectOptions connect{
        .limits = options.limits(),
        .within = std::min(connect_within, call.deadline - reactor.now()),
        .stop = call.stop,
        .credential =
            make_hello({.service = options.service, .client = options.client, .ticket = ticket}),
        .verdict = &verdict};
    Report connecting;
    auto endpoint = co_await domain.connect(address, std::move(connect), connecting);
    if (!endpoint && verdict.empty()) {
        co_return report.fail(endpoint.error(), connecting.text());
    }
    const auto welcome = read_verdict(verdict, address, report);
    if (!welcome && welcome.error().code == Code::corrupt) metrics.malformed.add();
    if (endpoint && welcome) {
        co_return std::unique_ptr<ClientConnection>(
            new ClientConnection(reactor, std::move(*endpoint), *welcome, options, metrics));
    }
    // The server admitted us, but the set-up failed.
    if (!endpoint && welcome) co_return report.fail(endpoint.error(), connecting.text());
    if (endpoint) {
        (*endpoint)->abandon();
        co_await (*endpoint)->close();
    }
    co_return fail(welcome.error());
}

}  // namespace ros2s::rpc
