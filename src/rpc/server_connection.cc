#include "server_connection.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "ros2s/fabric/deadline.h"

namespace ros2s::rpc {
namespace {

// The low bits of a request's number.
constexpr uint64_t slot_mask = 0xffff;
// A peer that takes less could not even be told what is wrong.
constexpr uint64_t send_bytes_least = frame_bytes(0, failure_bytes_max);

}  // namespace

ServerConnection::ServerConnection(Server& server, std::unique_ptr<fabric::Endpoint> endpoint,
                                   uint32_t number)
    : server_(server),
      endpoint_(std::move(endpoint)),
      number_(number),
      share_(server.reactor_, server.options_.connection_memory_bytes),
      environment_{.endpoint = *endpoint_,
                   .options = server.options_,
                   .metrics = server.metrics_,
                   .memory = server.memory_,
                   .share = share_,
                   .gate = server.gate_,
                   .session = number_},
      requests_(server.options_.requests_max),
      finished_(server.reactor_),
      serving_(server.reactor_, size_t{2} * server.options_.requests_max),
      watching_(server.reactor_, 1) {}

Task<> ServerConnection::run(StopToken closing) {
    const Result<> greeted = co_await greet(closing);
    is_new_ = false;
    if (greeted) {
        co_await watching_.spawn(stop_at_end(*this));
        co_await serve_all(closing);
        co_await serving_.join();
    }
    co_await endpoint_->close();
    co_await watching_.join();
    requests_.clear();
    if (guest_) server_.gate_.left(*guest_);
}

void ServerConnection::make_room() {
    is_new_ = false;
    server_.metrics_.refused_silent.add();
    abandon();
}

Task<> ServerConnection::stop_at_end(ServerConnection& self) {
    co_await self.endpoint_->end_event();
    for (const auto* requests : {&self.requests_, &self.finishing_}) {
        for (const auto& request : *requests) {
            if (request) request->give_up();
        }
    }
}

// ---- the hello ------------------------------------------------------------------------------

Task<Result<>> ServerConnection::greet(StopToken closing) {
    fabric::Deadline within(server_.reactor_,
                            server_.reactor_.now() + server_.options_.greet_within, closing);
    auto message = co_await endpoint_->receive(within.token());
    co_await within.finish();
    if (!message) {
        if (within.passed()) server_.metrics_.refused_silent.add();
        co_return fail(message.error());
    }
    const auto frame = decode_frame(message->bytes());
    const bool is_hello = frame && frame->header.kind == Kind::hello;
    const auto hello = is_hello ? decode_hello(frame->body) : fail(Code::corrupt);
    constexpr uint16_t version = FrameHeader::current_version;
    const bool other_version =
        (!frame && frame.error().code == Code::bad_version) ||
        (hello && (version < hello->version_least || version > hello->version_most));
    if (other_version) {
        server_.metrics_.refused_version.add();
        co_return refuse(*message, {.code = Code::bad_version, .detail = version},
                         fmt::format("this server speaks version {} of the protocol alone: use "
                                     "the same release on both sides",
                                     version));
    }
    if (!hello || endpoint_->send_bytes_max() < send_bytes_least) {
        server_.metrics_.malformed.add();
        endpoint_->abandon();
        co_return fail(Code::corrupt);
    }
    if (hello->service != server_.service_.number()) {
        co_return refuse(*message, {.code = Code::unsupported, .detail = hello->service},
                         fmt::format("service {} is not served here, but {}: is this the right "
                                     "address?",
                                     hello->service, server_.service_.number()));
    }
    auto guest = server_.gate_.admit(*hello, endpoint_->peer());
    if (!guest) {
        server_.metrics_.refused_ticket.add();
        co_return refuse(*message, guest.error(),
                         "this connection was not let in: its ticket is not valid here; ask the "
                         "control plane for a new one");
    }
    guest_ = *guest;
    std::array<std::byte, welcome_bytes> body_memory;
    std::array<std::byte, frame_bytes(0, welcome_bytes)> memory;
    const ConstBytes body =
        encode(WelcomeBody{.requests_max = server_.options_.requests_max,
                           .inline_reply_max = server_.options_.inline_reply_bytes,
                           .payload_bytes_max = server_.options_.payload_bytes_max,
                           .incarnation = server_.incarnation_},
               body_memory);
    FrameHeader header;
    header.kind = Kind::welcome;
    header.session = number_;
    ROS2S_CO_TRY(endpoint_->reply(*message, encode_frame(header, {}, {}, body, memory)));
    server_.metrics_.connections_greeted.add();
    co_return Result<>{};
}

Result<> ServerConnection::refuse(fabric::Message& hello, Error error, std::string_view text) {
    std::array<std::byte, failure_bytes_max> body_memory;
    std::array<std::byte, frame_bytes(0, failure_bytes_max)> memory;
    const ConstBytes body = encode(FailureBody{.error = error, .text = text}, body_memory);
    FrameHeader header;
    header.kind = Kind::failure;
    // Closing hands it over; who is refused and gone as well is no news.
    (void)endpoint_->reply(hello, encode_frame(header, {}, {}, body, memory));
    return fail(error);
}

// ---- requests -------------------------------------------------------------------------------

Task<> ServerConnection::serve_all(StopToken closing) {
    while (true) {
        auto message = co_await endpoint_->receive(closing);
        if (!message) co_return;
        while (finishing_.size() == requests_.size()) co_await finished_;
        if (!take(std::move(*message))) {
            endpoint_->abandon();
            co_return;
        }
    }
}

Result<> ServerConnection::take(fabric::Message message) {
    const auto frame = decode_frame(message.bytes());
    const bool is_ours = frame && frame->header.session == number_ &&
                         (frame->header.request & slot_mask) < requests_.size();
    if (is_ours && frame->header.kind == Kind::request) return begin(std::move(message), *frame);
    if (is_ours && frame->header.kind == Kind::cancel) {
        cancel(frame->header);
        return {};
    }
    server_.metrics_.malformed.add();
    return fail(Code::corrupt);
}

Result<> ServerConnection::begin(fabric::Message message, const Frame& frame) {
    const FrameHeader& header = frame.header;
    std::unique_ptr<Request>& place = requests_[header.request & slot_mask];
    if (place && place->is_live()) {
        if (!place->answered()) {
            server_.metrics_.over_credit.add();
            return fail(Code::busy);
        }
        finishing_.push_back(std::exchange(place, nullptr));
    }
    if (!place) place = std::make_unique<Request>(environment_, *guest_);
    const uint64_t most = server_.options_.payload_bytes_max;
    if (header.payload_bytes > most || header.sink_bytes > most) {
        server_.metrics_.malformed.add();
        return fail(Code::too_large, most);
    }
    server_.metrics_.requests.add();
    place->begin(std::move(message), frame, server_.reactor_.now());
    const bool started = serving_.try_spawn(serve(*this, *place));
    ROS2S_CHECK(started);
    return {};
}

Task<> ServerConnection::serve(ServerConnection& self, Request& request) {
    if (const Result<> body = co_await request.fetch_body(); !body) {
        co_await request.fail(body.error());
    } else {
        const Span span(request.call().trace, self.server_.reactor_, self.server_.service_.name());
        co_await self.server_.service_.serve(request);
    }
    request.end();
    std::erase_if(self.finishing_, [&](const auto& each) { return each.get() == &request; });
    self.finished_.wake_all();
}

void ServerConnection::cancel(const FrameHeader& header) {
    Request* request = requests_[header.request & slot_mask].get();
    // Its answer may have crossed the cancellation.
    if (request == nullptr || !request->is_live() || request->number() != header.request) return;
    server_.metrics_.cancels.add();
    request->give_up();
}

}  // namespace ros2s::rpc
