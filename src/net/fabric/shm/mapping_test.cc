// Memory granted by a client, used in place by the server.
#include <gtest/gtest.h>

#include <cstring>

#include "ros2s/runtime/nursery.h"
#include "test_support/attack.h"

namespace ros2s::fabric::shm {
namespace {

constexpr Rights both = Rights::read_write;

// Memory of the honest client, granted.
struct Granted {
    Granted(Endpoint& of, Rights rights)
        : endpoint(of), memory(*of.allocate(8192)), region(*of.grant(memory, rights)) {}
    Task<> end() {
        co_await region.revoke();
        endpoint.free(memory);
    }
    Endpoint& endpoint;
    Bytes memory;
    MemoryRegion region;
};

Task<> sees_what_the_client_has(Stage& stage) {
    Granted granted(*stage.bystander, both);
    std::memset(granted.memory.data(), 'a', granted.memory.size());
    auto mapping = stage.bystander_server->map(granted.region.key(), 4000, 200, Rights::read);
    EXPECT_TRUE(mapping);
    if (!mapping) co_return;
    EXPECT_EQ(mapping->bytes().size(), 200U);
    granted.memory[4000] = std::byte{'b'};
    EXPECT_EQ(mapping->bytes()[0], std::byte{'b'});
    EXPECT_EQ(mapping->bytes()[199], std::byte{'a'});
    mapping->bytes()[1] = std::byte{'c'};
    EXPECT_EQ(granted.memory[4001], std::byte{'c'});
    Mapping moved = std::move(*mapping);
    EXPECT_TRUE(mapping->bytes().empty());
    moved.end();
    EXPECT_EQ(stage.server->counters().maps.value(), 1U);
    EXPECT_EQ(stage.server->counters().mapped_bytes.value(), 200U);
    co_await granted.end();
}
TEST(ShmMapping, MappedBytesMatchClientMemory) { Stage().run(sees_what_the_client_has); }

Task<> keys_are_checked(Stage& stage) {
    Endpoint& server = *stage.bystander_server;
    Granted granted(*stage.bystander, Rights::read);
    const RemoteKey key = granted.region.key();
    EXPECT_EQ(server.map(key, 0, 1, Rights::write).error().code, Code::denied);
    EXPECT_EQ(server.map(key, 8000, 193, Rights::read).error().code, Code::invalid);
    EXPECT_EQ(server.map(key, ~uint64_t{0}, 2, Rights::read).error().code, Code::invalid);
    EXPECT_EQ(stage.bystander->map(key, 0, 1, Rights::read).error().code, Code::denied);
    RemoteKey forged = key;
    forged.length = 1 << 20;
    EXPECT_FALSE(server.map(forged, 0, 1, Rights::read));
    co_await granted.end();
    EXPECT_EQ(server.map(key, 0, 1, Rights::read).error().code, Code::stale);
    EXPECT_EQ(stage.server->counters().maps.value(), 0U);
    EXPECT_TRUE(server.alive());
}
TEST(ShmMapping, InvalidKeyIsRefused) { Stage().run(keys_are_checked); }

Task<> revoke(MemoryRegion& region, bool& done) {
    co_await region.revoke();
    done = true;
}

Task<> revocation_waits_for_its_end(Stage& stage) {
    Granted granted(*stage.bystander, both);
    auto mapping = stage.bystander_server->map(granted.region.key(), 0, 100, Rights::read);
    EXPECT_TRUE(mapping);
    bool done = false;
    Nursery nursery(stage.core(), 1);
    co_await nursery.spawn(revoke(granted.region, done));
    for (int turn = 0; turn < 10; ++turn) co_await yield(stage.core());
    EXPECT_FALSE(done);
    // No new mapping begins meanwhile.
    const auto late = stage.bystander_server->map(granted.region.key(), 0, 1, Rights::read);
    EXPECT_EQ(late.error().code, Code::stale);
    mapping->end();
    co_await nursery.join();
    EXPECT_TRUE(done && stage.bystander->alive());
    stage.bystander->free(granted.memory);
}
TEST(ShmMapping, RevocationWaitsForMappingEnd) { Stage().run(revocation_waits_for_its_end); }

// A server that neither ends its use nor answers: the connection is ended first, then the memory is
// the client's again, and no later session of the two gets it.
Task<> revocation_ends_the_connection(Stage& stage) {
    using namespace std::chrono_literals;
    Report report;
    auto client = co_await stage.honest->connect(stage.address(),
                                                 {.limits = {.memory_bytes_max = 1 << 20}}, report);
    auto server = co_await stage.listener->accept();
    EXPECT_TRUE(client && server) << report.text();
    if (!client || !server) co_return;
    auto granted = std::make_unique<Granted>(**client, both);
    auto mapping = (*server)->map(granted->region.key(), 0, 8192, Rights::write);
    EXPECT_TRUE(mapping);
    if (!mapping) co_return;
    const Time asked = stage.core().now();
    co_await granted->region.revoke();
    const Duration waited = stage.core().now() - asked;
    EXPECT_GE(waited, Limits{}.answer_within);
    EXPECT_LT(waited, 10 * Limits{}.answer_within);
    EXPECT_EQ((*client)->ended(), End::unanswered);
    EXPECT_EQ(stage.honest->counters().of(End::unanswered).value(), 1U);
    EXPECT_NE(co_await how_it_ended(stage, **server), End::none);

    auto next = co_await stage.honest->connect(stage.address(), {}, report);
    auto next_server = co_await stage.listener->accept();
    EXPECT_TRUE(next && next_server) << report.text();
    if (!next || !next_server) co_return;
    {
        Granted later(**next, both);
        std::memset(later.memory.data(), 'n', later.memory.size());
        std::memset(mapping->bytes().data(), 'l', mapping->bytes().size());
        EXPECT_EQ(later.memory[0], std::byte{'n'});
        EXPECT_EQ(later.memory[8191], std::byte{'n'});
        co_await later.end();
    }
    mapping->end();
    (*client)->free(granted->memory);
    granted.reset();
    for (auto* endpoint : {&client, &server, &next, &next_server}) co_await (**endpoint)->close();
}
TEST(ShmMapping, UnansweredRevocationEndsConnection) {
    Stage().run(revocation_ends_the_connection);
}

// By hand: 4096 bytes at any address, without an end, with every right.
void write_grant(const Attacker& attacker, uint64_t address) {
    SharedRegionEntry& grant = attacker.grant(0);
    shared(grant.address).store(address);
    shared(grant.length).store(4096);
    shared(grant.expires).store(Time::max().time_since_epoch().count());
    shared(grant.state).store(uint64_t{1} << 32 | 7);
}

// The client is gone: the mapping stays, and no other session gets that memory.
Task<> outlives_its_connection(Stage& stage) {
    Attacker attacker;
    co_await attack(stage, attacker, *stage.honest);
    if (!attacker.victim) co_return;
    std::memset(attacker.payload.data(), 'a', 100);
    write_grant(attacker, 0);
    auto mapping = attacker.victim->map(attacker.key(0, 0, 4096), 0, 100, Rights::read);
    EXPECT_TRUE(mapping);
    if (!mapping) co_return;
    attacker.socket.reset();
    EXPECT_NE(co_await how_it_ended(stage, *attacker.victim), End::none);
    EXPECT_EQ(mapping->bytes()[99], std::byte{'a'});
    bool closed = false;
    Nursery nursery(stage.core(), 1);
    co_await nursery.spawn([](Endpoint& endpoint, bool& done) -> Task<> {
        co_await endpoint.close();
        done = true;
    }(*attacker.victim, closed));
    for (int turn = 0; turn < 10; ++turn) co_await yield(stage.core());
    EXPECT_FALSE(closed);
    EXPECT_EQ(mapping->bytes()[0], std::byte{'a'});
    mapping->end();
    co_await nursery.join();
}
TEST(ShmMapping, MappingOutlivesItsConnection) { Stage().run(outlives_its_connection); }

// A grant with a false address reaches only the client's own memory.
Task<> lies_stay_within(Stage& stage) {
    Attacker attacker;
    co_await attack(stage, attacker, *stage.honest);
    if (!attacker.victim) co_return;
    const uint64_t all = attacker.layout.payload_bytes;
    for (const uint64_t address : {all, all - 1, ~uint64_t{0}, ~uint64_t{0} - 4095}) {
        write_grant(attacker, address);
        EXPECT_FALSE(attacker.victim->map(attacker.key(0, address, 4096), 0, 4096, Rights::read));
    }
    write_grant(attacker, all - 4096);
    EXPECT_TRUE(attacker.victim->map(attacker.key(0, all - 4096, 4096), 0, 4096, Rights::read));
    EXPECT_TRUE(attacker.victim->alive());
    co_await attacker.victim->close();
}
TEST(ShmMapping, FalseGrantReachesOnlyClientMemory) { Stage().run(lies_stay_within); }

}  // namespace
}  // namespace ros2s::fabric::shm
