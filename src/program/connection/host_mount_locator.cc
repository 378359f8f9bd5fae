#include "host_mount_locator.h"

#include <algorithm>

namespace ros2s::connection {
namespace {

constexpr Duration locator_pause = std::chrono::milliseconds(5);
// The time that a call waits for the mount to be found again.
constexpr Duration call_patience = std::chrono::seconds(30);

// Between attempts that the DPU refuses, until its host has the right again.
constexpr Duration refused_pause = std::chrono::seconds(1);

constexpr Duration opening_patience = std::chrono::seconds(10);

// The container does not exist, or the host has no right to it: waiting does not help.
bool is_final(Code code) {
    return code == Code::not_found || code == Code::denied || code == Code::invalid ||
           code == Code::bad_version || code == Code::unsupported;
}

}  // namespace

HostMountLocator::HostMountLocator(Reactor& reactor, control::SessionClient& control,
                                   control::SessionTickets& tickets, std::string pool,
                                   std::string container, control::MountAs how)
    : reactor_(reactor),
      control_(control),
      tickets_(tickets),
      pool_(std::move(pool)),
      container_(std::move(container)),
      how_(std::move(how)),
      keeping_(reactor, 2),
      reopening_(reactor, 1) {}

Task<Result<>> HostMountLocator::mount(const Call& opening, Report& report) {
    // A DPU that was lost after the session was opened may restart; the channel then gets another
    // session.
    for (const Time until = std::min(reactor_.now() + opening_patience, opening.deadline);;) {
        Report attempt;
        Result<> mounted = fail(Code::disconnected);
        if (const auto session = tickets_.session()) {
            mounted = co_await mount_in(opening, *session, attempt);
        }
        if (mounted) co_return mounted;
        const Code code = mounted.error().code;
        const bool may_come_back = code == Code::disconnected || code == Code::cancelled ||
                                   code == Code::closed || code == Code::stale;
        const bool again = may_come_back && reactor_.now() < until &&
                           co_await sleep_for(reactor_, 10 * locator_pause, opening.stop);
        if (!again) co_return report.fail(mounted.error(), attempt.text());
    }
}

Task<Result<>> HostMountLocator::delegate(const Call& call, Report& report) {
    capability::Use use{
        .rights = rights::Right::read, .directories = false, .container = {container_}};
    if (!how_.read_only) use.rights.add(rights::Right::write);
    ROS2S_CO_TRY_ASSIGN(renew_after_, co_await control_.delegate(tickets_.bounded(call), pool_,
                                                                 std::move(use), report));
    co_return Result<>{};
}

Task<> HostMountLocator::keep_delegating(HostMountLocator& self) {
    constexpr Duration retry_after = std::chrono::seconds(1);
    Duration pause = self.renew_after_.value_or(retry_after);
    while (co_await sleep_for(self.reactor_, pause, self.stop_.token())) {
        Report unused;  // the mount's calls fail when the DPU has no capability left
        const auto done = co_await self.delegate(self.call_, unused);
        pause = done ? self.renew_after_.value_or(retry_after) : retry_after;
    }
}

Task<Result<>> HostMountLocator::mount_in(const Call& call, session::SessionId session,
                                          Report& report) {
    ROS2S_CO_TRY(co_await delegate(call, report));
    ROS2S_CO_TRY_ASSIGN(auto mounted, co_await control_.mount(tickets_.bounded(call), session,
                                                              container_, how_, report));
    if (!how_.exclusive_as.empty() && !mounted.is_exclusive) {
        (void)co_await control_.unmount(tickets_.bounded(call), session, mounted.id, report);
        co_return report.fail(Code::unsupported,
                              "the DPU is of an older release, which does not know `exclusive`: "
                              "leave that out");
    }
    place_ = {.session = session, .mount = mounted.id};
    storage_ = std::move(mounted.storage);
    lends_leases_ = mounted.lends_leases;
    squashes_root_ = mounted.squashes_root;
    is_deferred_ = mounted.is_deferred;
    if (!squashed_root_first_) squashed_root_first_ = squashes_root_;
    co_return Result<>{};
}

Task<> HostMountLocator::follow(Reopen reopen) {
    reopen_ = std::move(reopen);
    co_await keeping_.spawn(keep(*this));
    if (renew_after_) co_await keeping_.spawn(keep_delegating(*this));
}

Task<> HostMountLocator::stop() {
    stop_.request_stop();
    tickets_.opened().wake_all();
    co_await keeping_.join();
    co_await reopening_.join();
}

Task<> HostMountLocator::close() {
    // call_ was stopped, so this needs a Call of its own. It has a deadline, because the daemon may
    // hang.
    const Call call = tickets_.bounded();
    Report ignored;
    (void)co_await control_.unmount(call, place_.session, place_.mount, ignored);
}

Task<> HostMountLocator::keep(HostMountLocator& self) {
    std::optional<session::SessionId> refused_in;
    while (!self.stop_.stop_requested()) {
        const auto session = self.tickets_.session();
        if (!session || *session == self.place_.session) {
            co_await self.tickets_.opened();
            continue;
        }
        // Others may have used the container meanwhile.
        if (!self.how_.exclusive_as.empty()) {
            self.failure_ = Error{.code = Code::io};
            co_return;
        }
        Report report;
        const auto mounted = co_await self.mount_in(self.call_, *session, report);
        const bool is_refused = !mounted && is_final(mounted.error().code);
        // After its start, or after its clock was set, a DPU may refuse a mount once and then allow
        // it.
        const bool again = is_refused && refused_in == session;
        refused_in = is_refused ? session : std::nullopt;
        self.failure_ = again ? std::optional(mounted.error()) : std::nullopt;
        if (mounted) {
            // If it runs already, there is no second one.
            const bool may_begin = self.renew_after_ && self.keeping_.running() == 1;
            if (may_begin) (void)self.keeping_.try_spawn(keep_delegating(self));
            // Not awaited, because it may wait for the next location itself. A running one notices
            // this move, too.
            (void)self.reopening_.try_spawn(self.reopen_(self.call_));
            continue;
        }
        const Duration pause = again ? refused_pause : 10 * locator_pause;
        (void)co_await sleep_for(self.reactor_, pause, self.stop_.token());
    }
}

Task<Result<>> HostMountLocator::moved(const Call& call, session::MountLocation from) {
    if (place_ == from && tickets_.session() == from.session) {
        Report ignored;
        const auto alive =
            co_await control_.keep_alive(tickets_.bounded(call), from.session, ignored);
        if (alive && place_ == from) co_return fail(Code::stale);
    }
    const Time until = std::min(call.deadline, reactor_.now() + call_patience);
    while (place_ == from && !failure_ && !tickets_.is_refused() && reactor_.now() < until &&
           !stop_.stop_requested()) {
        if (!co_await sleep_for(reactor_, locator_pause, call.stop)) break;
    }
    if (place_ != from) co_return Result<>{};
    if (tickets_.is_refused()) co_return fail(Code::denied);
    if (failure_ && failure_->code == Code::io) co_return fail(Code::io);
    // A container that was destroyed: what the request names does not exist, either.
    if (failure_) co_return fail(failure_->code == Code::denied ? Code::denied : Code::stale);
    ROS2S_CO_TRY(call.check(reactor_));
    co_return fail(Code::disconnected);
}

}  // namespace ros2s::connection
