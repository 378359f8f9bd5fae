#include "session_tickets.h"

#include <gtest/gtest.h>

#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/sim/co_test.h"
#include "session_client_test_support.h"

namespace ros2s::control {
namespace {

class Holder final : public CapabilityHolder {
  public:
    [[nodiscard]] capability::Chain chain() const override { return {"chain"}; }
    [[nodiscard]] std::string prove(const capability::Chain&, std::string_view nonce,
                                    session::SessionId, std::string_view) const override {
        return std::string(nonce);
    }
};

struct Client {
    sim::World world{1};
    FalseSessions server{world.core()};
    Holder holder;
    SessionTickets tickets{world.core(), server, {.client = {}, .pool = "pool", .holder = &holder}};
    Report report;
};

Task<> show(Client& client, Result<>& shown) {
    Report report;
    shown = co_await client.tickets.show(report);
}
Task<> take(Client& client, Result<std::string>& taken) {
    Report report;
    taken = co_await client.tickets.take(report);
}

// A renewed capability comes while the session's first one is being shown.
CO_TEST(SessionTickets, EachPresentationHasItsOwnNonce, Client, client) {
    client.server.first_shows_for = std::chrono::milliseconds(10);
    Result<std::string> ticket = fail(Code::closed);
    Result<> shown = fail(Code::closed);
    Nursery nursery(client.world.core(), 2);
    co_await nursery.spawn(take(client, ticket));
    co_await sleep_for(client.world.core(), std::chrono::milliseconds(5));
    co_await nursery.spawn(show(client, shown));
    co_await nursery.join();
    EXPECT_TRUE(ticket);
    EXPECT_TRUE(shown) << describe(shown.error());
    EXPECT_EQ(client.server.sessions.size(), 1U);
}

// Its first ticket was not used.
CO_TEST(SessionTickets, TicketsEndWithTheirSession, Client, client) {
    EXPECT_TRUE(co_await client.tickets.open({}, client.report));
    co_await client.tickets.close();
    const auto taken = co_await client.tickets.take(client.report);
    EXPECT_TRUE(taken);
    EXPECT_EQ(client.server.sessions.size(), 1U) << "a ticket of a session that has ended";
}

}  // namespace
}  // namespace ros2s::control
