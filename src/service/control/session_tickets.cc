#include "session_tickets.h"

namespace ros2s::control {

SessionTickets::SessionTickets(Reactor& reactor, SessionClient& control, SessionOptions wanted)
    : reactor_(reactor),
      control_(control),
      options_(std::move(wanted)),
      opened_(reactor),
      showing_(reactor, 1) {}

Task<Result<OpenedSession>> SessionTickets::open(const Call& caller, Report& report) {
    const Call call = bounded(caller);
    auto attempt = co_await control_.open_session(call, options_, report);
    is_refused_ = !attempt && attempt.error().code == Code::denied;
    ROS2S_CO_TRY_ASSIGN(auto opened, std::move(attempt));
    session_ = opened.id;
    address_ = opened.address;
    provider_ = opened.provider;
    nonce_ = opened.nonce;
    if (options_.holder == nullptr) {
        first_ = opened.ticket.ticket;
    } else if (const auto shown = co_await show_within(call, report); !shown) {
        co_await close();
        co_return fail(shown.error());
    }
    opened_.wake_all();
    co_return std::move(opened);
}

Task<Result<>> SessionTickets::show(Report& report) {
    co_return co_await show_within(bounded(), report);
}

Task<Result<>> SessionTickets::show_within(const Call& call, Report& report) {
    ROS2S_CO_TRY(co_await showing_.acquire_for(call));
    const SemaphoreHold held(showing_);
    if (!session_ || options_.holder == nullptr) co_return Result<>{};
    const session::SessionId session = *session_;
    capability::Chain chain = options_.holder->chain();
    std::string proof = options_.holder->prove(chain, nonce_, session, provider_);
    ROS2S_CO_TRY_ASSIGN(auto shown, co_await control_.show_capability(
                                        call, session, std::move(chain), std::move(proof), report));
    if (session_ != session) co_return Result<>{};  // another one was opened meanwhile
    nonce_ = std::move(shown.nonce);
    if (shown.ticket) first_ = shown.ticket->ticket;
    co_return Result<>{};
}

Task<Result<std::string>> SessionTickets::take(Report& report) {
    if (!first_ && session_) {
        const Call call = bounded();
        Report refusal;
        auto given = co_await control_.issue_ticket(call, *session_, refusal);
        if (given) co_return std::string(given->ticket.view());
        if (given.error().code != Code::stale) {
            co_return report.fail(given.error(), refusal.text());
        }
        session_.reset();
    }
    if (!first_) ROS2S_CO_TRY(co_await open({}, report));
    const std::string ticket(first_->view());
    first_.reset();
    co_return ticket;
}

Task<> SessionTickets::close() {
    if (!session_) co_return;
    const Call call = bounded();
    Report ignored;  // the session expires if this does not arrive
    first_.reset();
    (void)co_await control_.close_session(call, *session_, ignored);
    session_.reset();
}

}  // namespace ros2s::control
