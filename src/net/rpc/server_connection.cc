#include "server_connection.h"

#include <algorithm>
#include <utility>

namespace ros2s::rpc {
namespace {

// A peer that accepts less could not even receive an error.
constexpr uint64_t send_bytes_least = frame_bytes(0, failure_bytes_max);

// co_await: whether the request was answered without a coroutine of the service.
struct ServeStraight {
    Service& service;
    Request& request;
    bool await_ready() const noexcept { return false; }
    bool await_suspend(std::coroutine_handle<> waiter) const {
        return service.serve_straight(request, waiter);
    }
    bool await_resume() const noexcept { return request.answered(); }
};

}  // namespace

ServerConnection::ServerConnection(Server& server, std::unique_ptr<fabric::Endpoint> endpoint,
                                   const Guest& guest, std::unique_ptr<admission::Line> line,
                                   uint32_t number)
    : server_(server),
      endpoint_(std::move(endpoint)),
      guest_(guest),
      number_(number),
      environment_{.endpoint = *endpoint_,
                   .options = server.options_,
                   .metrics = server.metrics_,
                   .memory = server.memory_,
                   .gate = server.gate_,
                   .line = *line,
                   .session = number_},
      line_(std::move(line)),
      requests_(server.options_.requests_max),
      finished_(server.reactor_),
      serving_(server.reactor_, size_t{2} * server.options_.requests_max),
      watching_(server.reactor_, 1) {}

Task<> ServerConnection::run(StopToken closing) {
    if (endpoint_->send_bytes_max() < send_bytes_least) {
        server_.metrics_.malformed.add();
        endpoint_->abandon();
    } else {
        server_.metrics_.connections_greeted.add();
    }
    co_await watching_.spawn(stop_at_end(*this));
    co_await serve_all(closing);
    for (const auto& request : requests_) {
        if (request && request->left_turn_) request->give_up();
    }
    line_->end_rates();
    co_await serving_.join();
    co_await endpoint_->close();
    co_await watching_.join();
    requests_.clear();
    server_.gate_.left(guest_);
}

Task<> ServerConnection::stop_at_end(ServerConnection& self) {
    co_await self.endpoint_->end_event();
    for (const auto* requests : {&self.requests_, &self.finishing_}) {
        for (const auto& request : *requests) {
            if (request) request->give_up();
        }
    }
}

// ---- requests -------------------------------------------------------------------------------

Task<> ServerConnection::serve_all(StopToken closing) {
    while (true) {
        fabric::Message message;
        if (!endpoint_->try_receive(message)) {
            auto received = co_await endpoint_->receive(closing);
            if (!received) co_return;
            message = std::move(*received);
        }
        // Requests that arrived before the end are received, but no client waits for their replies.
        if (!endpoint_->alive()) co_return;
        while (finishing_.size() == requests_.size()) co_await finished_;
        if (!take(std::move(message))) {
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
    return end_for({.code = Code::corrupt}, "its message is malformed");
}

std::unexpected<Error> ServerConnection::end_for(Error error, std::string_view why) {
    line_->metrics().refused.add();
    server_.gate_.turned_away(guest_, endpoint_->peer(), error, why);
    return std::unexpected(error);
}

Result<> ServerConnection::begin(fabric::Message message, const Frame& frame) {
    const FrameHeader& header = frame.header;
    std::unique_ptr<Request>& place = requests_[header.request & slot_mask];
    if (place && place->is_live()) {
        if (!place->answered()) {
            server_.metrics_.over_credit.add();
            return end_for({.code = Code::busy}, "it has more requests than it may");
        }
        finishing_.push_back(std::exchange(place, nullptr));
    }
    if (!place) place = std::make_unique<Request>(environment_, guest_);
    const uint64_t most = server_.options_.payload_bytes_max;
    if (header.payload_bytes > most || header.sink_bytes > most) {
        server_.metrics_.malformed.add();
        return end_for({.code = Code::too_large, .detail = most},
                       "its request has more payload than one may have");
    }
    server_.metrics_.requests.add();
    place->begin(std::move(message), frame, server_.group_.traces.take_next());
    const bool started = serving_.try_spawn(serve(*this, *place));
    ROS2S_CHECK(started);
    return {};
}

Task<> ServerConnection::serve(ServerConnection& self, Request& request) {
    // Refusals wait for their turn, too: a flood of them would fill the core.
    const bool undeliverable = request.is_undeliverable();
    std::optional<Span> serving(std::in_place, request.call().trace, self.server_.reactor_,
                                self.server_.service_.name());
    std::optional<Span> waiting(std::in_place, request.call().trace, self.server_.reactor_,
                                "rpc.queue");
    admission::Demand demand(0);
    admission::Work work = admission::Work::look;
    if (!undeliverable) {
        const Service& service = self.server_.service_;
        work = service.work(request);
        demand = admission::Demand(work, request.bytes_most());
        demand.reply_bytes = service.reply_memory_bytes(request);
    }
    request.cost_ns_ = demand.cost_ns;
    admission::Permit permit;
    if (!self.server_.service_.is_awaited(request) || !self.line_->pass(request.arrived())) {
        permit = co_await self.line_->enter(demand, request.call().stop, request.arrived());
    }
    waiting.reset();
    Result<> entered = request.check();
    if (undeliverable) {
        self.server_.metrics_.undeliverable.add();
        entered = fail(Code::too_large, self.server_.options_.inline_reply_bytes);
    }
    if (entered && request.has_body_in_source()) entered = co_await request.fetch_body();
    if (!entered) {
        co_await request.fail(entered.error());
    } else {
        request.permit_ = &permit;
        if (!co_await ServeStraight{self.server_.service_, request}) {
            co_await self.server_.service_.serve(request);
        }
        request.permit_ = nullptr;
    }
    serving.reset();
    if (permit) permit.correct_cost(request.charged_ns_);
    self.line_->use_names(request.charged_names_);
    // Others made it wait: its time says nothing of this server.
    if (!request.left_turn_) {
        self.line_->metrics().latency.add(static_cast<uint64_t>(request.took().count()));
        if (self.guest_.metrics) self.guest_.metrics->add(work, demand.bytes, request.took());
    }
    if (const auto& refusal = request.refusal()) {
        self.line_->metrics().refused.add();
        if (!request.refusal_is_reported()) self.server_.service_.refused(request, *refusal);
    } else if (undeliverable) {
        self.line_->metrics().refused.add();
    }
    if (request.sampled()) {
        self.server_.group_.traces.add(self.server_.service_.method_name(request.method()),
                                       self.line_->tenant_name(), *request.call().trace);
    }
    request.end();
    std::erase_if(self.finishing_, [&](const auto& each) { return each.get() == &request; });
    self.finished_.wake_all();
}

void ServerConnection::cancel(const FrameHeader& header) {
    Request* request = requests_[header.request & slot_mask].get();
    // The reply may have crossed the cancellation.
    if (request == nullptr || !request->is_live() || request->number() != header.request) return;
    server_.metrics_.cancels.add();
    request->give_up();
}

}  // namespace ros2s::rpc
