#include "ros2s/rpc/channel.h"

#include <algorithm>

#include "client_connection.h"
#include "ros2s/base/check.h"
#include "ros2s/fabric/deadline.h"
#include "ros2s/runtime/backoff.h"
#include "ros2s/runtime/sync.h"

namespace ros2s::rpc {
namespace {

// Errors that waiting does not cure.
bool is_final(const Error& error) {
    return error.code == Code::denied || error.code == Code::bad_version ||
           error.code == Code::unsupported || error.code == Code::invalid;
}

uint64_t seconds_of(WallTime time) {
    return static_cast<uint64_t>(
        std::chrono::floor<std::chrono::seconds>(time).time_since_epoch().count());
}

}  // namespace

Channel::Channel(Reactor& reactor, fabric::Domain& domain, std::string address,
                 TicketSource& tickets, ChannelOptions options)
    : reactor_(reactor),
      domain_(domain),
      address_(std::move(address)),
      tickets_(tickets),
      options_(options),
      changed_(reactor),
      keeping_(reactor, 1) {}

Channel::~Channel() { ROS2S_CHECK(calls_ == 0 && keeping_.running() == 0); }

Task<Result<std::unique_ptr<Channel>>> Channel::open(Reactor& reactor, fabric::Domain& domain,
                                                     std::string address, TicketSource& tickets,
                                                     ChannelOptions options, Report& report,
                                                     Call opening) {
    std::unique_ptr<Channel> channel(
        new Channel(reactor, domain, std::move(address), tickets, options));
    ROS2S_CO_TRY_ASSIGN(auto connection, co_await channel->connect(opening, report));
    co_await channel->keeping_.spawn(keep(*channel, std::move(connection)));
    co_return channel;
}

Task<> Channel::close() {
    closing_.request_stop();
    if (connection_ != nullptr) connection_->leave();
    changed_.wake_all();
    co_await keeping_.join();
    while (calls_ > 0) co_await changed_;
}

// ---- the connection -------------------------------------------------------------------------

Task<Result<std::unique_ptr<ClientConnection>>> Channel::connect(const Call& call, Report& report) {
    auto ticket = co_await tickets_.take(report);
    if (std::string now = tickets_.address(); !now.empty()) address_ = std::move(now);
    Result<std::unique_ptr<ClientConnection>> connection = fail(Code::disconnected);
    if (!ticket) {
        connection = fail(ticket.error());
    } else {
        connection = co_await ClientConnection::open(
            reactor_, domain_, address_, std::move(*ticket), options_, metrics_, call, report);
    }
    if (!connection) {
        metrics_.connections_failed.add();
        co_return connection;
    }
    const WelcomeBody& welcome = (*connection)->welcome();
    const bool restarted = welcome_.incarnation != 0 && welcome_.incarnation != welcome.incarnation;
    if (restarted) metrics_.server_restarts.add();
    metrics_.connections.add();
    welcome_ = welcome;
    co_return connection;
}

Task<> Channel::keep(Channel& self, std::unique_ptr<ClientConnection> connection) {
    while (connection) {
        self.connection_ = connection.get();
        self.try_again();
        self.absence_.reset();
        self.changed_.wake_all();
        if (self.closing_.stop_requested()) connection->leave();
        co_await connection->receive_all();
        self.connection_ = nullptr;
        co_await connection->close();
        connection.reset();
        if (self.closing_.stop_requested()) break;
        self.metrics_.connections_lost.add();
        self.absence_ = Absence{.since = self.reactor_.wall_time()};
        connection = co_await self.reconnect();
    }
    self.changed_.wake_all();
}

Task<std::unique_ptr<ClientConnection>> Channel::reconnect() {
    const Call call{.stop = closing_.token()};
    Backoff backoff{.first = std::chrono::milliseconds(10), .longest = std::chrono::seconds(1)};
    bool denied = false;  // the last time
    while (true) {
        // So that the clients of a restarted server do not all come at once.
        const auto half = static_cast<uint64_t>(backoff.next().count()) / 2;
        const Duration wait{static_cast<int64_t>(half + reactor_.random().below(half + 1))};
        if (!co_await sleep_for(reactor_, wait, closing_.token())) co_return nullptr;
        Report report;
        auto connection = co_await connect(call, report);
        if (connection) co_return std::move(*connection);
        absence_->why = report.empty() ? describe(connection.error()) : report.text();
        // A server that was restarted since it gave the ticket does not know it. Only the denial of
        // a fresh ticket is a refusal.
        const Error error = connection.error();
        const bool in_doubt = error.code == Code::denied && !denied;
        denied = error.code == Code::denied;
        if (error.code == Code::stale) {
            if (!outdated_since_) outdated_since_ = reactor_.now();
            if (!renews_ || reactor_.now() - *outdated_since_ >= ChannelOptions::renewal_within) {
                refuse(absent());
            }
        } else {
            outdated_since_.reset();
        }
        if (is_final(error) && !in_doubt) refuse(error);
    }
}

void Channel::refuse(Error error) noexcept {
    refusal_ = error;
    changed_.wake_all();
}

// A `stale` would say of a request that what it names does not exist.
Error Channel::absent() const noexcept {
    return {.code = Code::disconnected,
            .os_errno = options_.absence_errno,
            .detail = absence_ ? seconds_of(absence_->since) : 0};
}

void Channel::try_again() noexcept {
    refusal_.reset();
    outdated_since_.reset();
}

Task<Result<ClientConnection*>> Channel::connected(StopToken stop) {
    fabric::Deadline patience(reactor_, reactor_.now() + options_.patience, stop);
    {
        const WakeOnStop wake(patience.token(), changed_);
        while ((connection_ == nullptr || !connection_->is_alive()) && !refusal_ &&
               !closing_.stop_requested() && !patience.token().stop_requested()) {
            co_await changed_;
        }
    }
    const bool waited_in_vain = patience.passed();
    co_await patience.finish();
    if (closing_.stop_requested()) co_return fail(Code::closed);
    if (connection_ != nullptr && connection_->is_alive()) co_return connection_;
    if (stop.stop_requested()) co_return fail(Code::cancelled);
    if (refusal_) co_return fail(*refusal_);
    // Lost again at this moment: the caller looks once more.
    if (!waited_in_vain) co_return nullptr;
    co_return fail(absent());
}

// ---- calls ----------------------------------------------------------------------------------

Result<> Channel::check(const CallRequest& request) const {
    if (request.body.size() > body_bytes_max) return fail(Code::too_large, body_bytes_max);
    const uint64_t most = welcome_.payload_bytes_max;
    if (bytes_of(request.payload) > most || bytes_of(request.sink) > most) {
        return fail(Code::too_large, most);
    }
    return {};
}

struct Channel::Count {
    explicit Count(Channel& channel) : self(channel) { ++self.calls_; }
    Count& operator=(Count&&) = delete;
    ~Count() {
        if (--self.calls_ == 0) self.changed_.wake_all();
    }
    Channel& self;
};

Task<Result<>> Channel::call(const Call& call, const CallRequest& request, ReplyReader& reader) {
    if (call.deadline == Time::max() && options_.call_within == Duration{}) {
        return call_within(call, request, reader, call.stop);
    }
    return call_until_deadline(call, request, reader);
}

bool Channel::post(uint64_t tenant, const PostedRequest& request, PostedCall& posted) {
    const bool is_connected = connection_ != nullptr && connection_->is_alive();
    if (!is_connected || options_.call_within != Duration{}) return false;
    if (!connection_->post(tenant, request, posted)) return false;
    metrics_.requests.add();
    return true;
}

Task<Result<>> Channel::call_until_deadline(const Call& call, const CallRequest& request,
                                            ReplyReader& reader) {
    const Count count(*this);
    ROS2S_CO_TRY(call.check(reactor_));
    const Time limit =
        options_.call_within == Duration{} ? Time::max() : reactor_.now() + options_.call_within;
    fabric::Deadline deadline(reactor_, std::min(call.deadline, limit), call.stop);
    Result<> result = co_await call_within(call, request, reader, deadline.token());
    const bool gave_up = !result && result.error().code == Code::cancelled && deadline.passed();
    co_await deadline.finish();
    if (gave_up) {
        const auto seconds = static_cast<uint64_t>(options_.call_within.count());
        result = fail(Code::deadline, limit < call.deadline ? seconds : 0);
    }
    co_return result;
}

Task<Result<>> Channel::call_within(const Call& call, const CallRequest& request,
                                    ReplyReader& reader, StopToken stop) {
    const Count count(*this);
    if (stop.stop_requested()) co_return fail(Code::cancelled);
    metrics_.requests.add();
    const bool repeatable = request.repeatable || !request.id.client.is_nil();
    CallRequest sent = request;
    bool may_have_arrived = false;
    for (bool first = true;; first = false) {
        ClientConnection* connection = connection_;
        if (connection == nullptr || !connection->is_alive()) [[unlikely]] {
            ROS2S_CO_TRY_ASSIGN(connection, co_await connected(stop));
            if (connection == nullptr) continue;
        }
        ROS2S_CO_TRY(check(request));
        if (!first) metrics_.requests_repeated.add();
        sent.repeated = request.repeated || may_have_arrived;
        const ClientConnection::Outcome outcome =
            co_await connection->exchange(call, sent, reader, step_names_, stop);
        if (!outcome.lost) co_return outcome.result;
        may_have_arrived |= outcome.sent;
        if (closing_.stop_requested()) co_return fail(Code::closed);
        if (outcome.sent && !repeatable) co_return fail(Code::disconnected);
    }
}

}  // namespace ros2s::rpc
