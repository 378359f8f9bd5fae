// Peers that disappear without notice during an operation.
#include "cases.h"

namespace ros2s::fabric::contract {
namespace {

Task<> dies_while_we_wait_client(Client& client) {
    co_await say(*client.endpoint, "hello");
    co_await expect_to_hear(*client.endpoint, "hello yourself");
    client.endpoint->abandon();
}
Task<> dies_while_we_wait_server(Server& server) {
    co_await expect_to_hear(*server.endpoint, "hello");
    co_await say(*server.endpoint, "hello yourself");
    EXPECT_EQ((co_await server.endpoint->receive()).error().code, Code::disconnected);
    EXPECT_EQ(server.endpoint->ended(), End::peer_died);
    EXPECT_EQ(server.domain->counters().of(End::peer_died).value(), 1U);
    EXPECT_EQ((co_await server.endpoint->send(as_bytes("late"))).error().code, Code::disconnected);
}

// The client dies while the server puts into it and gets from it.
Task<> client_dies_midway_client(Client& client) {
    auto memory = client.endpoint->allocate(32 * mib);
    EXPECT_TRUE(memory);
    if (!memory) co_return;
    {
        auto region = client.endpoint->grant(*memory, Rights::read_write);
        EXPECT_TRUE(region);
        co_await send_key(*client.endpoint, region->key());
        co_await expect_to_hear(*client.endpoint, "going");
        client.endpoint->abandon();
    }
    co_await client.endpoint->close();
    client.endpoint->free(*memory);
}
Task<> until_gone(Endpoint& endpoint, RemoteKey key, bool put, uint64_t& gone) {
    AlignedBuffer buffer(32 * mib);
    while (true) {
        const auto done = put ? co_await endpoint.put(key, 0, buffer.bytes())
                              : co_await endpoint.get(key, 0, buffer.bytes());
        if (done) continue;
        // A side that checks keys itself may find the key revoked before it learns of the end.
        EXPECT_TRUE(done.error().code == Code::disconnected || done.error().code == Code::stale)
            << describe(done.error());
        ++gone;
        co_return;
    }
}
Task<> client_dies_midway_server(Server& server) {
    const RemoteKey key = co_await receive_key(*server.endpoint);
    uint64_t gone = 0;
    Nursery nursery(server.core, 4);
    for (int i = 0; i < 4; ++i) {
        co_await nursery.spawn(until_gone(*server.endpoint, key, i % 2 == 0, gone));
    }
    co_await say(*server.endpoint, "going");
    co_await nursery.join();
    EXPECT_EQ(gone, 4U);
    co_await server.endpoint->end_event();
    EXPECT_EQ(server.endpoint->ended(), End::peer_died);
}

// The server dies during a put: the client learns of it, and has its memory back.
Task<> server_dies_midway_client(Client& client) {
    auto memory = client.endpoint->allocate(32 * mib);
    EXPECT_TRUE(memory);
    if (!memory) co_return;
    {
        auto region = client.endpoint->grant(*memory, Rights::read_write);
        EXPECT_TRUE(region);
        co_await send_key(*client.endpoint, region->key());
        EXPECT_EQ((co_await client.endpoint->receive()).error().code, Code::disconnected);
        EXPECT_EQ(client.endpoint->ended(), End::peer_died);
        co_await region->revoke();
    }
    std::memset(memory->data(), 0x77, memory->size());
    co_await sleep_for(client.core, std::chrono::milliseconds(20));
    for (const std::byte byte : *memory) {
        if (byte != std::byte{0x77}) ADD_FAILURE() << "written after the end";
        if (byte != std::byte{0x77}) break;
    }
    co_await client.endpoint->close();
    client.endpoint->free(*memory);
}
Task<> put_until_abandoned(Endpoint& endpoint, RemoteKey key) {
    AlignedBuffer buffer(32 * mib);
    while (co_await endpoint.put(key, 0, buffer.bytes())) {
    }
}
Task<> server_dies_midway_server(Server& server) {
    const RemoteKey key = co_await receive_key(*server.endpoint);
    Nursery nursery(server.core, 2);
    for (int i = 0; i < 2; ++i) co_await nursery.spawn(put_until_abandoned(*server.endpoint, key));
    co_await sleep_for(server.core, std::chrono::milliseconds(2));
    server.endpoint->abandon();
    co_await nursery.join();
}

// A peer that neither reads nor answers, then dies: senders that wait for room get an error.
Task<> dies_before_it_reads_client(Client& client) {
    AlignedBuffer buffer(32 << 10);
    Result<> sent;
    while (sent) sent = co_await client.endpoint->send(buffer.bytes());
    EXPECT_EQ(sent.error().code, Code::disconnected);
    EXPECT_EQ(client.endpoint->ended(), End::peer_died);
}
Task<> dies_before_it_reads_server(Server& server) {
    co_await sleep_for(server.core, std::chrono::milliseconds(30));
    server.endpoint->abandon();
}

// A sender that waits for room gets one error, also if it is stopped at that very moment.
Task<> send_until_ended(Endpoint& endpoint, StopToken stop, Error& how) {
    AlignedBuffer buffer(32 << 10);
    Result<> sent;
    while (sent) sent = co_await endpoint.send(buffer.bytes(), {}, stop);
    how = sent.error();
}
Task<> ends_and_gives_up_client(Client& client) {
    StopSource stop;
    Nursery nursery(client.core, 2);
    Error first, second;
    co_await nursery.spawn(send_until_ended(*client.endpoint, stop.token(), first));
    co_await nursery.spawn(send_until_ended(*client.endpoint, stop.token(), second));
    while (client.domain->counters().waits_for_room.value() < 2) {
        co_await sleep_for(client.core, std::chrono::milliseconds(1));
    }
    client.endpoint->abandon();
    stop.request_stop();
    co_await nursery.join();
    EXPECT_EQ(first.code, Code::disconnected);
    EXPECT_EQ(second.code, Code::disconnected);
}
Task<> ends_and_gives_up_server(Server& server) { co_await server.endpoint->end_event(); }

// Other connections of the same listener continue.
Task<> others_live_client(Client& client) {
    auto second = co_await connect(client);
    if (!second) co_return;
    client.endpoint->abandon();
    for (int i = 0; i < 100; ++i) {
        co_await say(**second, "still there?");
        co_await expect_to_hear(**second, "yes");
    }
    co_await (*second)->close();
}
Task<> others_live_server(Server& server) {
    auto second = co_await accept(server);
    if (second == nullptr) co_return;
    for (int i = 0; i < 100; ++i) {
        co_await expect_to_hear(*second, "still there?");
        co_await say(*second, "yes");
    }
    co_await server.endpoint->end_event();
    EXPECT_EQ(server.endpoint->ended(), End::peer_died);
    co_await second->close();
}

}  // namespace

std::vector<Case> death_cases() {
    return {
        {"WaitingReceiveFailsWhenThePeerDies", dies_while_we_wait_client,
         dies_while_we_wait_server},
        {"TransfersEndWhenTheClientDies", client_dies_midway_client, client_dies_midway_server},
        {"MemoryIsFreeWhenTheServerDies", server_dies_midway_client, server_dies_midway_server},
        {"WaitingSendFailsWhenThePeerDies", dies_before_it_reads_client,
         dies_before_it_reads_server},
        {"WaitingSendStoppedAtTheEndFails", ends_and_gives_up_client, ends_and_gives_up_server},
        {"OtherConnectionsSurviveADeath", others_live_client, others_live_server},
    };
}

}  // namespace ros2s::fabric::contract
