// Faults of the simulated network: at a chosen point, at random, and the same again with the same
// seed.
#include <gtest/gtest.h>

#include "ros2s/fabric/domain.h"
#include "ros2s/fabric/sim/network.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/sim/world.h"

namespace ros2s::fabric {
namespace {

// A conversation in which the client grants a region for each request, and the server puts 20 KiB
// into it and replies. Ends when it is done or the connection is lost.
constexpr uint64_t requests = 20;
constexpr uint64_t bytes = 20 << 10;

struct Outcome {
    uint64_t answered = 0;
    End client_end{};
    End server_end{};
    Time at{};
    friend bool operator==(const Outcome&, const Outcome&) = default;
};

Task<> serve(Listener& listener, Outcome& outcome) {
    auto accepted = co_await listener.accept();
    if (!accepted) co_return;
    Endpoint& endpoint = **accepted;
    AlignedBuffer buffer(bytes);
    while (true) {
        auto request = co_await endpoint.receive();
        if (!request) break;
        const auto key = RemoteKey::decode(request->bytes());
        if (!key) ADD_FAILURE() << "a message arrived damaged";
        if (!key) break;
        std::memset(buffer.data(), static_cast<int>(key->generation), bytes);
        if (!co_await endpoint.put(*key, 0, buffer.bytes(), PutReturns::ordered)) break;
        if (!endpoint.reply(*request, as_bytes("done"))) break;
    }
    co_await endpoint.close();
    outcome.server_end = endpoint.ended();
}

Task<> ask(Domain& domain, Outcome& outcome) {
    Report report;
    auto connected = co_await domain.connect("server", {}, report);
    if (!connected) co_return;
    Endpoint& endpoint = **connected;
    auto memory = endpoint.allocate(bytes);
    for (uint64_t i = 0; i < requests; ++i) {
        std::memset(memory->data(), 0, bytes);
        auto region = endpoint.grant(*memory, Rights::write);
        if (!region) break;
        const RemoteKey key = region->key();
        const auto sent = co_await endpoint.send(object_bytes(key));
        auto answer = co_await endpoint.receive();
        co_await region->revoke();
        if (!sent || !answer) break;
        for (const std::byte byte : *memory) {
            if (byte != static_cast<std::byte>(key.generation)) {
                ADD_FAILURE() << "answered, and the bytes are not there";
            }
            if (byte != static_cast<std::byte>(key.generation)) break;
        }
        ++outcome.answered;
    }
    co_await endpoint.close();
    endpoint.free(*memory);
    outcome.client_end = endpoint.ended();
}

Task<> converse(Domain& server, Domain& client, Reactor& home, Reactor& away, Outcome& outcome) {
    Report report;
    auto listener = co_await server.listen("server", {.limits = {.reply_bytes = 64}}, report);
    {
        Nursery nursery(home, 2);
        co_await nursery.spawn(on(away, home, serve(**listener, outcome)));
        co_await nursery.spawn(ask(client, outcome));
        co_await sleep_for(home, std::chrono::seconds(1));
        co_await (*listener)->close();
        co_await nursery.join();
    }
    co_await server.close();
    co_await client.close();
}

template <class Fault>
Outcome run(uint64_t seed, const sim::LinkModel& model, Fault fault) {
    ros2s::sim::World world(seed, 2);
    sim::Network network(world.random(), model);
    fault(network);
    const auto server = network.open_domain(world.core(1), "server");
    const auto client = network.open_domain(world.core(0), "client");
    Outcome outcome;
    world.run(converse(*server, *client, world.core(0), world.core(1), outcome));
    outcome.at = world.now();
    return outcome;
}

TEST(SimNetwork, WithoutFaultsConversationCompletes) {
    const Outcome outcome = run(1, {}, [](sim::Network&) {});
    EXPECT_EQ(outcome.answered, requests);
    EXPECT_EQ(outcome.client_end, End::closed_here);
    EXPECT_EQ(outcome.server_end, End::closed_there);
}

TEST(SimNetwork, SameSeedRepeatsTheRun) {
    for (uint64_t seed = 1; seed < 20; ++seed) {
        const auto once = [seed] { return run(seed, {.lose_one_in = 60}, [](sim::Network&) {}); };
        EXPECT_EQ(once(), once()) << "seed " << seed;
    }
}

// Death after each number of bytes, in the middle of puts, requests and replies.
TEST(SimNetwork, DeathAtAnyByteEndsBothSides) {
    uint64_t cut = 0;
    for (uint64_t after = 0; after < requests * (bytes + 400); after += 1511) {
        for (const char* who : {"server", "client"}) {
            const Outcome outcome =
                run(after, {}, [&](sim::Network& network) { network.kill_after(who, after); });
            if (outcome.answered == requests) continue;
            ++cut;
            EXPECT_EQ(outcome.client_end, End::peer_died) << who << " after " << after;
            EXPECT_EQ(outcome.server_end, End::peer_died) << who << " after " << after;
        }
    }
    EXPECT_GT(cut, 400U);
}

TEST(SimNetwork, ConnectionsAreLostAtRandom) {
    uint64_t lost = 0;
    for (uint64_t seed = 1; seed <= 200; ++seed) {
        const Outcome outcome = run(seed, {.lose_one_in = 40}, [](sim::Network&) {});
        lost += outcome.answered < requests ? 1 : 0;
    }
    EXPECT_GT(lost, 50U);
    EXPECT_LT(lost, 200U);
}

Task<> connect_to_stalled(Domain& server, Domain& client) {
    Report report;
    auto listener = co_await server.listen("server", {}, report);
    const auto connected = co_await client.connect("server", {}, report);
    EXPECT_EQ(connected.error().code, Code::deadline);
    EXPECT_NE(report.text().find("server"), std::string::npos);
    co_await (*listener)->close();
    co_await server.close();
    co_await client.close();
}

TEST(SimNetwork, StalledListenerReachesDeadline) {
    ros2s::sim::World world(3);
    sim::Network network(world.random());
    network.stall("server", true);
    const auto server = network.open_domain(world.core(), "server");
    const auto client = network.open_domain(world.core(), "client");
    world.run(connect_to_stalled(*server, *client));
    EXPECT_GE(world.now() - Time{}, std::chrono::seconds(5));
}

}  // namespace
}  // namespace ros2s::fabric
