// Parts that the cases share: the two halves, and their communication.
#pragma once
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "contract.h"
#include "ros2s/runtime/nursery.h"

namespace ros2s::fabric::contract {

inline constexpr uint64_t kib = 1024;
inline constexpr uint64_t mib = kib * kib;

struct Client {
    Setup& setup;
    Reactor& core;
    std::string address;
    std::unique_ptr<Domain> domain{};
    std::unique_ptr<Endpoint> endpoint{};
};
// Admits a peer without a credential, or with "ticket".
struct TicketCheck final : PeerCheck {
    Verdict admit(uint64_t session, ConstBytes credential, const Peer& peer) override;
    void withdraw(uint64_t session) noexcept override { admitted.erase(session); }
    std::set<uint64_t> admitted;  // and not withdrawn
};
struct Server {
    Setup& setup;
    Reactor& core;
    TicketCheck peer_check{};
    std::unique_ptr<Domain> domain{};
    std::unique_ptr<Listener> listener{};
    std::unique_ptr<Endpoint> endpoint{};
};

struct Case {
    const char* name;
    Task<> (*client)(Client&);
    Task<> (*server)(Server&);
    Limits client_limits{};
    Limits server_limits{};
    bool connected = true;  // both halves begin with an endpoint
};
[[nodiscard]] std::vector<Case> connection_cases();
[[nodiscard]] std::vector<Case> message_cases();
[[nodiscard]] std::vector<Case> transfer_cases();
[[nodiscard]] std::vector<Case> refusal_cases();
[[nodiscard]] std::vector<Case> death_cases();

// For a handshake, also on busy or emulated machines. A half that gives up early would leave the
// other half of the case waiting.
inline constexpr Duration patience = std::chrono::minutes(1);
Task<Result<std::unique_ptr<Endpoint>>> connect(Client& client, Limits limits = {});
Task<std::unique_ptr<Endpoint>> accept(Server& server);

// Content that differs for each (offset, stamp).
void fill(Bytes bytes, uint64_t stamp, uint64_t first = 0);
[[nodiscard]] bool holds(ConstBytes bytes, uint64_t stamp, uint64_t first = 0);

// If one of these fails, the test fails.
Task<> say(Endpoint& endpoint, std::string text);
Task<std::string> hear(Endpoint& endpoint);
Task<> expect_to_hear(Endpoint& endpoint, std::string text);
Task<> send_key(Endpoint& endpoint, RemoteKey key);
Task<RemoteKey> receive_key(Endpoint& endpoint);

// Returns the number of refusals of both sides for this reason. Each half calls it with its own
// endpoint. The server's call returns the sum, the client's 0.
Task<uint64_t> refused_by_both(Endpoint& endpoint, Counters& counters, Refusal refusal);

}  // namespace ros2s::fabric::contract
