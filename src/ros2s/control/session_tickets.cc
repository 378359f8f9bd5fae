#include "session_tickets.h"

namespace ros2s::control {

SessionTickets::SessionTickets(Reactor& reactor, ControlClient& control, SessionWish wish)
    : control_(control), wish_(std::move(wish)), opened_(reactor) {}

Task<Result<OpenedSession>> SessionTickets::open(Report& report) {
    const Call call;
    ROS2S_CO_TRY_ASSIGN(auto opened, co_await control_.open_session(call, wish_, report));
    session_ = opened.id;
    address_ = opened.address;
    provider_ = opened.provider;
    nonce_ = opened.nonce;
    if (wish_.holder == nullptr) {
        first_ = opened.ticket.ticket;
    } else if (const auto shown = co_await show(report); !shown) {
        co_await close();
        co_return fail(shown.error());
    }
    opened_.wake_all();
    co_return std::move(opened);
}

Task<Result<>> SessionTickets::show(Report& report) {
    if (!session_ || wish_.holder == nullptr) co_return Result<>{};
    const Call call;
    const session::SessionId session = *session_;
    capability::Chain chain = wish_.holder->chain();
    std::string proof = wish_.holder->prove(chain, nonce_, session, provider_);
    ROS2S_CO_TRY_ASSIGN(auto shown, co_await control_.show_capability(
                                        call, session, std::move(chain), std::move(proof), report));
    if (session_ != session) co_return Result<>{};  // another one was opened meanwhile
    nonce_ = std::move(shown.nonce);
    if (shown.ticket) first_ = shown.ticket->ticket;
    co_return Result<>{};
}

Task<Result<std::string>> SessionTickets::take(Report& report) {
    const Call call;
    if (!first_ && session_) {
        Report refusal;
        auto given = co_await control_.issue_ticket(call, *session_, refusal);
        if (given) co_return std::string(given->ticket.view());
        if (given.error().code != Code::stale) {
            co_return report.fail(given.error(), refusal.text());
        }
        session_.reset();
    }
    if (!first_) ROS2S_CO_TRY(co_await open(report));
    const std::string ticket(first_->view());
    first_.reset();
    co_return ticket;
}

Task<> SessionTickets::close() {
    if (!session_) co_return;
    const Call call;
    Report ignored;  // the session expires if this does not arrive
    (void)co_await control_.close_session(call, *session_, ignored);
    session_.reset();
}

}  // namespace ros2s::control
