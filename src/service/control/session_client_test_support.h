// FalseSessions: a server's sessions and mounts for tests of their clients. It does what a test
// says.
#pragma once
#include <deque>
#include <functional>
#include <set>

#include "ros2s/control/control_client.h"

namespace ros2s::control {

class FalseSessions final : public SessionClient {
  public:
    explicit FalseSessions(Reactor& reactor) : reactor_(reactor) {}

    Task<Result<OpenedSession>> open_session(const Call&, SessionOptions, Report&) override {
        if (refuses_sessions) co_return fail(Code::denied);
        OpenedSession opened{
            .id = session::SessionId{++last_session}, .ticket = {}, .nonce = std::to_string(nonce)};
        sessions.insert(opened.id);
        opened.ticket = ticket();
        co_return opened;
    }
    Task<Result<Duration>> keep_alive(const Call&, session::SessionId id, Report&) override {
        if (!sessions.contains(id)) co_return fail(Code::stale);
        co_return std::chrono::minutes(1);
    }
    Task<Result<GivenTicket>> issue_ticket(const Call&, session::SessionId id, Report&) override {
        if (!sessions.contains(id)) co_return fail(Code::stale);
        co_return ticket();
    }
    // A nonce is valid once. The first showing takes `first_shows_for`.
    Task<Result<ShownReply>> show_capability(const Call&, session::SessionId id, capability::Chain,
                                             std::string proof, Report&) override {
        if (!sessions.contains(id)) co_return fail(Code::stale);
        if (proof != std::to_string(nonce)) co_return fail(Code::denied);
        ++nonce;
        if (nonce == 1) (void)co_await sleep_for(reactor_, first_shows_for, {});
        co_return ShownReply{.ticket = ticket(), .nonce = std::to_string(nonce)};
    }
    Task<Result<>> close_session(const Call&, session::SessionId id, Report&) override {
        sessions.erase(id);
        co_return Result<>{};
    }
    Task<Result<std::optional<Duration>>> delegate(const Call&, std::string, capability::Use,
                                                   Report&) override {
        co_return std::nullopt;
    }
    Task<Result<MountedAt>> mount(const Call&, session::SessionId id, std::string, MountAs,
                                  Report&) override {
        ++mounts_asked;
        if (!mount_errors.empty()) {
            const Code code = mount_errors.front();
            mount_errors.pop_front();
            co_return fail(code);
        }
        if (!sessions.contains(id)) co_return fail(Code::stale);
        co_return MountedAt{.id = session::MountId{mounts_asked}, .storage = {}};
    }
    Task<Result<>> unmount(const Call&, session::SessionId, session::MountId, Report&) override {
        co_return Result<>{};
    }

    std::set<session::SessionId> sessions;
    bool refuses_sessions = false;
    std::deque<Code> mount_errors;  // of the next mounts
    uint64_t last_session = 0, mounts_asked = 0, tickets = 0, nonce = 0;
    Duration first_shows_for{};

  private:
    GivenTicket ticket() {
        GivenTicket given{};
        given.ticket.bytes[0] = static_cast<uint8_t>(++tickets);
        return given;
    }
    Reactor& reactor_;
};

}  // namespace ros2s::control
