// Keys that must not work: each use is refused and counted, changes nothing, and the connection
// stays.
#include <algorithm>

#include "cases.h"

namespace ros2s::fabric::contract {
namespace {

constexpr uint64_t size = 64 << 10;

// The client's half of all cases: memory in a known state, before and after the server's attempt.
Task<> lend_and_look(Client& client, Rights rights, RegionOptions options, Refusal refusal) {
    Endpoint& endpoint = *client.endpoint;
    auto memory = endpoint.allocate(3 * size);
    EXPECT_TRUE(memory);
    if (!memory) co_return;
    fill(*memory, 3);
    auto region = endpoint.grant(memory->subspan(size, size), rights, options);
    EXPECT_TRUE(region);
    if (!region) co_return;
    co_await send_key(endpoint, region->key());
    if (refusal == Refusal::stale) {
        co_await region->revoke();
        co_await say(endpoint, "revoked");
    }
    co_await expect_to_hear(endpoint, "tried");
    EXPECT_TRUE(holds(*memory, 3));
    co_await refused_by_both(endpoint, client.domain->counters(), refusal);
    co_await expect_to_hear(endpoint, "counted");
    if (region->live()) co_await region->revoke();
    endpoint.free(*memory);
}

struct Attempt {
    RemoteKey key;
    uint64_t offset = 0;
    uint64_t count = 16;
    bool put = true;
};
Task<> attempt(Endpoint& endpoint, Attempt tried, Code code) {
    AlignedBuffer buffer(tried.count);
    std::ranges::fill(buffer.bytes(), std::byte{0xab});
    const auto done = tried.put ? co_await endpoint.put(tried.key, tried.offset, buffer.bytes())
                                : co_await endpoint.get(tried.key, tried.offset, buffer.bytes());
    EXPECT_FALSE(done) << tried.offset << " + " << tried.count;
    if (!done) EXPECT_EQ(done.error().code, code) << tried.offset << " + " << tried.count;
    if (!tried.put) {
        for (const std::byte byte : buffer.bytes()) EXPECT_EQ(byte, std::byte{0xab});
    }
}
Task<> expect_refusals(Server& server, Refusal refusal, uint64_t count) {
    co_await say(*server.endpoint, "tried");
    // A provider that moves in pieces may have had several of one operation in progress.
    EXPECT_GE(co_await refused_by_both(*server.endpoint, server.domain->counters(), refusal),
              count);
    co_await say(*server.endpoint, "counted");
    EXPECT_EQ(server.domain->counters().puts.value(), 0U);
    EXPECT_EQ(server.domain->counters().gets.value(), 0U);
    co_await server.endpoint->end_event();
    EXPECT_EQ(server.endpoint->ended(), End::closed_there);
}

Task<> out_of_range_client(Client& client) {
    co_await lend_and_look(client, Rights::read_write, {}, Refusal::range);
}
Task<> out_of_range_server(Server& server) {
    const RemoteKey key = co_await receive_key(*server.endpoint);
    uint64_t tried = 0;
    for (const bool put : {true, false}) {
        for (const auto& [offset, count] : std::initializer_list<std::pair<uint64_t, uint64_t>>{
                 {size, 1},
                 {size + 1, 0},
                 {size - 1, 2},
                 {0, size + 1},
                 {~uint64_t{0}, 1},
                 {~uint64_t{0} - 8, 16},
                 {uint64_t{1} << 63, 16},
                 {~uint64_t{0} - size + 1, size}}) {
            co_await attempt(*server.endpoint, {key, offset, count, put}, Code::invalid);
            ++tried;
        }
    }
    // A key with a larger range than the grant, and a valid CRC.
    RemoteKey larger = key;
    larger.length = size * 2;
    larger.seal();
    co_await attempt(*server.endpoint, {larger, size, 16}, Code::invalid);
    co_await expect_refusals(server, Refusal::range, tried + 1);
}

Task<> read_only_client(Client& client) {
    co_await lend_and_look(client, Rights::read, {}, Refusal::right);
}
Task<> read_only_server(Server& server) {
    RemoteKey key = co_await receive_key(*server.endpoint);
    co_await attempt(*server.endpoint, {.key = key}, Code::denied);
    key.rights = Rights::read_write;  // a false claim
    key.seal();
    co_await attempt(*server.endpoint, {.key = key}, Code::denied);
    co_await expect_refusals(server, Refusal::right, 2);
}
Task<> write_only_client(Client& client) {
    co_await lend_and_look(client, Rights::write, {}, Refusal::right);
}
Task<> write_only_server(Server& server) {
    RemoteKey key = co_await receive_key(*server.endpoint);
    co_await attempt(*server.endpoint, {.key = key, .put = false}, Code::denied);
    key.rights = Rights::read_write;
    key.seal();
    co_await attempt(*server.endpoint, {.key = key, .put = false}, Code::denied);
    co_await expect_refusals(server, Refusal::right, 2);
}

Task<> revoked_client(Client& client) {
    co_await lend_and_look(client, Rights::read_write, {}, Refusal::stale);
}
Task<> revoked_server(Server& server) {
    RemoteKey key = co_await receive_key(*server.endpoint);
    co_await expect_to_hear(*server.endpoint, "revoked");
    co_await attempt(*server.endpoint, {.key = key}, Code::stale);
    co_await attempt(*server.endpoint, {.key = key, .put = false}, Code::stale);
    for (const uint32_t ahead : {1U, 2U, 1000U}) {  // guesses of later generations
        RemoteKey guess = key;
        guess.generation += ahead;
        guess.seal();
        co_await attempt(*server.endpoint, {.key = guess}, Code::stale);
    }
    RemoteKey elsewhere = key;
    elsewhere.slot = ~uint32_t{0};
    elsewhere.seal();
    co_await attempt(*server.endpoint, {.key = elsewhere}, Code::stale);
    co_await expect_refusals(server, Refusal::stale, 6);
}

Task<> expired_client(Client& client) {
    co_await lend_and_look(client, Rights::read_write, {.lease = 7, .expires = client.core.now()},
                           Refusal::expired);
}
Task<> expired_server(Server& server) {
    const RemoteKey key = co_await receive_key(*server.endpoint);
    co_await attempt(*server.endpoint, {.key = key}, Code::stale);
    co_await attempt(*server.endpoint, {.key = key, .put = false}, Code::stale);
    co_await expect_refusals(server, Refusal::expired, 2);
}

// A key that works for the time of its grant. A machine that is too slow for that gets a longer
// time.
constexpr Duration lifetime_least = std::chrono::milliseconds(200);
constexpr int lifetimes_tried = 6;  // each four times as long

Task<> lifetime_client(Client& client) {
    Endpoint& endpoint = *client.endpoint;
    auto memory = endpoint.allocate(size);
    EXPECT_TRUE(memory);
    if (!memory) co_return;
    Duration lifetime = lifetime_least;
    for (int i = 0; i < lifetimes_tried; ++i, lifetime *= 4) {
        auto region = endpoint.grant(*memory, Rights::read_write,
                                     {.lease = 7, .expires = client.core.now() + lifetime});
        EXPECT_TRUE(region);
        if (!region) co_return;
        co_await send_key(endpoint, region->key());
        const bool was_used = co_await hear(endpoint) == "used";
        if (was_used) {
            // The server counts from the time at which it received the key. That time is over.
            co_await sleep_for(client.core, lifetime + lifetime_least);
            fill(*memory, 3);
            co_await say(endpoint, "over");
            co_await expect_to_hear(endpoint, "tried");
            EXPECT_TRUE(holds(*memory, 3));
            co_await refused_by_both(endpoint, client.domain->counters(), Refusal::expired);
            co_await expect_to_hear(endpoint, "counted");
        }
        co_await region->revoke();
        if (was_used) break;
    }
    endpoint.free(*memory);
}
Task<> lifetime_server(Server& server) {
    Endpoint& endpoint = *server.endpoint;
    AlignedBuffer buffer(size);
    for (int i = 0; i < lifetimes_tried; ++i) {
        const RemoteKey key = co_await receive_key(endpoint);
        const auto put = co_await endpoint.put(key, 0, buffer.bytes());
        const auto got = co_await endpoint.get(key, 0, buffer.bytes());
        if (!put || !got) {
            EXPECT_EQ((put ? got : put).error().code, Code::stale);
            co_await say(endpoint, "late");
            continue;
        }
        co_await say(endpoint, "used");
        co_await expect_to_hear(endpoint, "over");
        co_await attempt(endpoint, {.key = key}, Code::stale);
        co_await attempt(endpoint, {.key = key, .put = false}, Code::stale);
        co_await say(endpoint, "tried");
        EXPECT_GE(co_await refused_by_both(endpoint, server.domain->counters(), Refusal::expired),
                  2U);
        co_await say(endpoint, "counted");
        co_await endpoint.end_event();
        EXPECT_EQ(endpoint.ended(), End::closed_there);
        co_return;
    }
    ADD_FAILURE() << "no lifetime was long enough for a put and a get";
}

Task<> malformed_client(Client& client) {
    co_await lend_and_look(client, Rights::read_write, {}, Refusal::malformed);
}
Task<> malformed_server(Server& server) {
    const RemoteKey key = co_await receive_key(*server.endpoint);
    RemoteKey changed = key;
    changed.generation += 1;  // without a new CRC
    co_await attempt(*server.endpoint, {.key = changed}, Code::invalid);
    changed = key;
    changed.version = 9;
    changed.seal();
    co_await attempt(*server.endpoint, {.key = changed, .put = false}, Code::invalid);
    co_await attempt(*server.endpoint, {.key = RemoteKey{}}, Code::invalid);
    co_await expect_refusals(server, Refusal::malformed, 3);
}

Task<> another_domain_client(Client& client) {
    co_await lend_and_look(client, Rights::read_write, {}, Refusal::domain);
}
Task<> another_domain_server(Server& server) {
    RemoteKey key = co_await receive_key(*server.endpoint);
    key.domain = server.domain->id();
    key.seal();
    co_await attempt(*server.endpoint, {.key = key}, Code::denied);
    co_await attempt(*server.endpoint, {.key = key, .put = false}, Code::denied);
    co_await expect_refusals(server, Refusal::domain, 2);
}

// A key of one connection, used over another one of the same domain.
Task<> another_session_client(Client& client) {
    auto second = co_await connect(client);
    if (!second) co_return;
    auto memory = client.endpoint->allocate(size);
    EXPECT_TRUE(memory);
    if (!memory) co_return;
    fill(*memory, 3);
    auto region = client.endpoint->grant(*memory, Rights::read_write);
    EXPECT_TRUE(region);
    co_await send_key(*client.endpoint, region->key());
    co_await expect_to_hear(*client.endpoint, "tried");
    EXPECT_TRUE(holds(*memory, 3));
    co_await refused_by_both(*client.endpoint, client.domain->counters(), Refusal::session);
    co_await expect_to_hear(*client.endpoint, "counted");
    co_await region->revoke();
    client.endpoint->free(*memory);
    co_await (*second)->close();
}
Task<> another_session_server(Server& server) {
    auto second = co_await accept(server);
    if (second == nullptr) co_return;
    const RemoteKey key = co_await receive_key(*server.endpoint);
    co_await attempt(*second, {.key = key}, Code::denied);
    co_await attempt(*second, {.key = key, .put = false}, Code::denied);
    EXPECT_TRUE(second->alive());
    co_await expect_refusals(server, Refusal::session, 2);
    co_await second->close();
}

// The side that grants does not initiate.
Task<> wrong_initiator_client(Client& client) {
    co_await expect_to_hear(*client.endpoint, "try");
    RemoteKey key{.domain = client.endpoint->peer().domain, .session = client.endpoint->session()};
    key.seal();
    AlignedBuffer buffer(16);
    EXPECT_EQ((co_await client.endpoint->put(key, 0, buffer.bytes())).error().code, Code::denied);
    EXPECT_EQ((co_await client.endpoint->get(key, 0, buffer.bytes())).error().code, Code::denied);
    EXPECT_EQ(client.domain->counters().of(Refusal::initiator).value(), 2U);
    co_await say(*client.endpoint, "done");
}
Task<> wrong_initiator_server(Server& server) {
    co_await say(*server.endpoint, "try");
    co_await expect_to_hear(*server.endpoint, "done");
}

}  // namespace

std::vector<Case> refusal_cases() {
    return {
        {"AccessOutOfRangeIsRefused", out_of_range_client, out_of_range_server},
        {"WriteUnderAReadOnlyKeyIsRefused", read_only_client, read_only_server},
        {"ReadUnderAWriteOnlyKeyIsRefused", write_only_client, write_only_server},
        {"RevokedKeyIsRefused", revoked_client, revoked_server},
        {"ExpiredKeyIsRefused", expired_client, expired_server},
        {"KeyIsRefusedAfterItsLifetime", lifetime_client, lifetime_server},
        {"MalformedKeyIsRefused", malformed_client, malformed_server},
        {"KeyOfAnotherDomainIsRefused", another_domain_client, another_domain_server},
        {"KeyOfAnotherConnectionIsRefused", another_session_client, another_session_server},
        {"TransferByTheGrantingSideIsRefused", wrong_initiator_client, wrong_initiator_server},
    };
}

}  // namespace ros2s::fabric::contract
