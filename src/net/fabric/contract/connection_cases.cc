// Connecting, and regular closing.
#include "cases.h"

namespace ros2s::fabric::contract {
namespace {

Task<> says_who_is_there_client(Client& client) {
    EXPECT_FALSE(client.endpoint->initiates());
    EXPECT_FALSE(client.endpoint->peer().name.empty());
    EXPECT_EQ(client.endpoint->provider(), client.domain->provider());
    EXPECT_NE(client.endpoint->peer().domain, client.domain->id());
    co_await say(*client.endpoint, std::to_string(client.endpoint->session()));
    co_await say(*client.endpoint, std::to_string(client.domain->id()));
    co_await expect_to_hear(*client.endpoint, "bye");
    EXPECT_EQ(client.domain->counters().connections.value(), 1U);
}
Task<> says_who_is_there_server(Server& server) {
    EXPECT_TRUE(server.endpoint->initiates());
    EXPECT_FALSE(server.endpoint->peer().name.empty());
    EXPECT_EQ(co_await hear(*server.endpoint), std::to_string(server.endpoint->session()));
    EXPECT_EQ(co_await hear(*server.endpoint), std::to_string(server.endpoint->peer().domain));
    co_await say(*server.endpoint, "bye");
}

Task<> no_listener_client(Client& client) {
    Report report;
    const std::string unused = client.setup.unused_address(client.address);
    const auto connected = co_await client.domain->connect(unused, {}, report);
    EXPECT_FALSE(connected);
    if (!connected) {
        EXPECT_EQ(connected.error().code, Code::disconnected);
        EXPECT_NE(report.text().find(unused), std::string::npos) << report.text();
    }
}
Task<> nothing_server(Server&) { co_return; }

Task<> another_provider_client(Client& client) {
    Report report;
    const auto refused =
        co_await client.setup.connect_as_another(*client.domain, client.address, report);
    EXPECT_FALSE(refused);
    if (!refused) EXPECT_EQ(refused.error().code, Code::unsupported);
    // The report names the provider that is there.
    EXPECT_NE(report.text().find(client.domain->provider()), std::string::npos) << report.text();
    // The listener still works.
    auto connected = co_await connect(client);
    if (!connected) co_return;
    client.endpoint = std::move(*connected);
    co_await expect_to_hear(*client.endpoint, "welcome");
}
Task<> another_provider_server(Server& server) {
    server.endpoint = co_await accept(server);
    if (server.endpoint == nullptr) co_return;
    EXPECT_EQ(server.domain->counters().handshakes_refused.value(), 1U);
    co_await say(*server.endpoint, "welcome");
}

// A peer that is not admitted gets the listener's verdict, and nothing else.
Task<> admission_client(Client& client) {
    const auto connect_with = [&](std::string_view credential, std::vector<std::byte>& verdict,
                                  Report& report) {
        const ConstBytes bytes = as_bytes(credential);
        return client.domain->connect(
            client.address,
            {.within = patience, .credential = {bytes.begin(), bytes.end()}, .verdict = &verdict},
            report);
    };
    std::vector<std::byte> verdict;
    for (int i = 0; i < 3; ++i) {
        Report report;
        const auto refused = co_await connect_with("forged", verdict, report);
        EXPECT_FALSE(refused);
        if (!refused) EXPECT_EQ(refused.error().code, Code::denied);
        EXPECT_EQ(as_text(verdict), "not you");
        EXPECT_FALSE(report.empty());
    }
    EXPECT_EQ(client.domain->counters().connections.value(), 0U);
    Report report;
    auto connected = co_await connect_with("ticket", verdict, report);
    EXPECT_TRUE(connected) << report.text();
    EXPECT_EQ(as_text(verdict), "come in");
    if (!connected) co_return;
    client.endpoint = std::move(*connected);
    co_await expect_to_hear(*client.endpoint, "welcome");
}
Task<> admission_server(Server& server) {
    server.endpoint = co_await accept(server);
    if (server.endpoint == nullptr) co_return;
    EXPECT_EQ(server.peer_check.admitted, std::set{server.endpoint->session()});
    EXPECT_EQ(server.domain->counters().handshakes_refused.value(), 3U);
    EXPECT_EQ(server.domain->counters().connections.value(), 1U);
    co_await say(*server.endpoint, "welcome");
}

Task<> address_in_use_client(Client& client) { co_await expect_to_hear(*client.endpoint, "done"); }
Task<> address_in_use_server(Server& server) {
    Report report;
    const auto second = co_await server.domain->listen(server.listener->address(), {}, report);
    EXPECT_FALSE(second);
    if (!second) EXPECT_EQ(second.error().code, Code::busy);
    EXPECT_FALSE(report.empty());
    co_await say(*server.endpoint, "done");
}

Task<> goodbye_is_heard_client(Client& client) {
    for (int i = 0; i < 100; ++i) co_await say(*client.endpoint, "message");
    co_await client.endpoint->close();
    EXPECT_EQ(client.endpoint->ended(), End::closed_here);
    EXPECT_EQ((co_await client.endpoint->send({})).error().code, Code::disconnected);
    EXPECT_EQ((co_await client.endpoint->receive()).error().code, Code::disconnected);
}
Task<> goodbye_is_heard_server(Server& server) {
    co_await server.endpoint->end_event();
    EXPECT_EQ(server.endpoint->ended(), End::closed_there);
    EXPECT_EQ(server.domain->counters().of(End::closed_there).value(), 1U);
    // Messages that arrived before the close can still be received.
    for (int i = 0; i < 100; ++i) co_await expect_to_hear(*server.endpoint, "message");
    EXPECT_EQ((co_await server.endpoint->receive()).error().code, Code::disconnected);
}

// Connections of one domain do not disturb each other.
Task<> many_connections_client(Client& client) {
    std::vector<std::unique_ptr<Endpoint>> endpoints;
    for (int i = 0; i < 20; ++i) {
        auto connected = co_await connect(client);
        if (!connected) co_return;
        endpoints.push_back(std::move(*connected));
        co_await say(*endpoints.back(), std::to_string(i));
    }
    for (size_t i = 0; i < endpoints.size(); i += 2) co_await endpoints[i]->close();
    for (size_t i = 1; i < endpoints.size(); i += 2) {
        co_await expect_to_hear(*endpoints[i], std::to_string(i) + " there");
        co_await endpoints[i]->close();
    }
}
Task<> many_connections_server(Server& server) {
    std::vector<std::unique_ptr<Endpoint>> endpoints;
    for (int i = 0; i < 20; ++i) {
        endpoints.push_back(co_await accept(server));
        if (endpoints.back() == nullptr) co_return;
    }
    for (const auto& endpoint : endpoints) {
        const std::string heard = co_await hear(*endpoint);
        // Half of them are closed.
        (void)co_await endpoint->send(as_bytes(heard), as_bytes(" there"));
    }
    for (const auto& endpoint : endpoints) {
        co_await endpoint->end_event();
        co_await endpoint->close();
    }
}

}  // namespace

PeerCheck::Verdict TicketCheck::admit(uint64_t session, ConstBytes credential, const Peer& peer) {
    EXPECT_FALSE(peer.name.empty());
    const bool admits = credential.empty() || as_text(credential) == "ticket";
    if (admits) admitted.insert(session);
    const ConstBytes said = as_bytes(admits ? "come in" : "not you");
    return {.admitted = admits, .said = {said.begin(), said.end()}};
}

std::vector<Case> connection_cases() {
    return {
        {"BothSidesKnowSessionAndPeer", says_who_is_there_client, says_who_is_there_server},
        {"PeerWithoutTicketIsRefused", admission_client, admission_server, {}, {}, false},
        {"ConnectWithoutListenerFails", no_listener_client, nothing_server, {}, {}, false},
        // The last message is delivered by close(), which takes long in a slow guest.
        {"AnotherProviderIsRefused",
         another_provider_client,
         another_provider_server,
         {},
         {.answer_within = std::chrono::seconds(30)},
         false},
        {"AddressInUseIsReported", address_in_use_client, address_in_use_server},
        {"CloseIsReportedToThePeer", goodbye_is_heard_client, goodbye_is_heard_server},
        {"ConnectionsOfOneDomainAreIndependent",
         many_connections_client,
         many_connections_server,
         {},
         {},
         false},
    };
}

}  // namespace ros2s::fabric::contract
