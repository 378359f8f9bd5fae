// SessionGate: admits connections of the data plane. Each presents a ticket in its hello, which the
// session table redeems. When a session ends, its connections end.
//
// Owned by the program. The table outlives it, and it outlives the servers that use it. Used on one
// core.
#pragma once
#include <vector>

#include "ros2s/rpc/server.h"
#include "ros2s/session/sessions.h"

namespace ros2s::session {

// Redeems the ticket in a hello. A refusal writes an audit line with the peer, and with the subject
// of the ticket. `of`: the tenant of the listener, for that line; empty: all. Errors: denied.
[[nodiscard]] Result<rpc::Guest> admit(SessionTable& sessions, ListenerScope scope,
                                       std::string_view of, const rpc::HelloBody& hello,
                                       const fabric::Peer& peer);

// Audit lines of rpc::Gate::misused() and turned_away(). `of`: as for admit().
void say_misused(SessionTable& sessions, std::string_view of, const rpc::Guest& guest,
                 const fabric::Peer& peer);
void say_turned_away(SessionTable& sessions, std::string_view of, const rpc::Guest& guest,
                     const fabric::Peer& peer, const Error& error, std::string_view why);

class SessionGate final : public rpc::Gate, public SessionWatcher {
  public:
    // `purpose`: the purpose of admitted connections.
    SessionGate(SessionTable& sessions, Purpose purpose);
    ~SessionGate() override;
    SessionGate& operator=(SessionGate&&) = delete;

    // A server whose connections end with their session. It is removed before it is closed.
    void add(rpc::Server& server) { servers_.push_back(&server); }
    void remove(rpc::Server& server) { std::erase(servers_, &server); }

    Result<rpc::Guest> admit(const rpc::HelloBody& hello, const fabric::Peer& peer) override;
    void misused(const rpc::Guest& guest, const fabric::Peer& peer) override {
        say_misused(sessions_, {}, guest, peer);
    }
    void turned_away(const rpc::Guest& guest, const fabric::Peer& peer, const Error& error,
                     std::string_view why) override {
        say_turned_away(sessions_, {}, guest, peer, error, why);
    }
    void left(const rpc::Guest& guest) override;
    void session_revoked(Session& session) override;
    Task<> session_ending(Session& session) override;

  private:
    SessionTable& sessions_;
    const Purpose purpose_;
    std::vector<rpc::Server*> servers_;
};

}  // namespace ros2s::session
