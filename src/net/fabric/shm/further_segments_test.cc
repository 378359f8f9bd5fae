// Memory beyond a connection's first segment: asked for, used, returned, and shared with others.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "ros2s/fabric/deadline.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/sync.h"
#include "shm_endpoint.h"
#include "test_support/attack.h"

namespace ros2s::fabric::shm {
namespace {

using namespace std::chrono_literals;
constexpr uint64_t mib = uint64_t{1} << 20;
constexpr uint64_t first_bytes = uint64_t{256} << 10;
constexpr Options impatient{.idle_after = 20ms};

ListenOptions listening(uint64_t memory = 64 * mib) {
    return {.limits = {.reply_bytes = 256, .memory_bytes_max = memory}};
}

// A connection and a domain of its own, of a client that is honest.
struct Client {
    explicit Client(Stage& stage, Options options = impatient)
        : core(stage.core()), domain(open_domain(core, options)) {}
    Task<> connect(Stage& stage, uint64_t memory = 64 * mib) {
        Report report;
        auto connected = co_await domain->connect(
            stage.address(),
            {.limits = {.memory_bytes_max = memory, .memory_bytes_first = first_bytes}}, report);
        EXPECT_TRUE(connected) << report.text();
        auto accepted = co_await stage.listener->accept();
        EXPECT_TRUE(accepted);
        if (!connected || !accepted) co_return;
        endpoint = std::move(*connected);
        server = std::move(*accepted);
    }
    // As rpc's staging does. Errors: deadline (of the wait).
    Task<Result<Bytes>> take(uint64_t size, Duration most = 2s) {
        Deadline deadline(core, core.now() + most, {});
        Result<Bytes> memory = fail(Code::deadline);
        {
            const WakeOnStop wake(deadline.token(), endpoint->memory_event());
            while (!deadline.passed()) {
                memory = endpoint->allocate(size);
                if (memory || memory.error().code != Code::no_memory) break;
                const auto asked = endpoint->ask_for_memory(size);
                memory = fail(asked ? Error{.code = Code::deadline} : asked.error());
                if (!asked) break;
                co_await endpoint->memory_event();
            }
        }
        co_await deadline.finish();
        co_return memory;
    }
    Task<> close() {
        co_await endpoint->close();
        co_await server->close();
        endpoint.reset();
        server.reset();
        co_await domain->close();
    }
    Reactor& core;
    std::unique_ptr<Domain> domain;
    std::unique_ptr<Endpoint> endpoint, server;
};

Task<> with_client(Stage& stage, Options options, Task<> (*test)(Stage&, Client&)) {
    Client client(stage, options);
    co_await client.connect(stage);
    if (!client.server) co_return;
    co_await test(stage, client);
    co_await client.close();
}
Task<> with_attacker(Stage& stage, Task<> (*test)(Stage&, Attacker&)) {
    Attacker attacker;
    co_await attack(stage, attacker, *stage.honest, 64 * mib, first_bytes);
    if (!attacker.victim) co_return;
    co_await test(stage, attacker);
    attacker.socket.reset();
    if (attacker.victim) co_await attacker.victim->close();
}
// Runs the test with a client, or an attacker, that is connected. `server`: options of its domain.
void run_connected(Task<> (*test)(Stage&, Client&), Options client = impatient,
                   Options server = {}) {
    Stage stage(listening(), server);
    stage.contract::Stage::run([&] { return with_client(stage, client, test); });
}
void run_connected(Task<> (*test)(Stage&, Attacker&), Options server = {}) {
    Stage stage(listening(), server);
    stage.contract::Stage::run([&] { return with_attacker(stage, test); });
}

// Mappings of this process, which has both sides.
size_t mapped_segments(uint64_t bytes) {
    std::ifstream maps("/proc/self/maps");
    size_t count = 0;
    for (std::string line; std::getline(maps, line);) {
        uint64_t from = 0, to = 0;
        if (!line.contains("ros2store-payload")) continue;
        if (sscanf(line.c_str(), "%lx-%lx", &from, &to) == 2) count += to - from == bytes ? 1 : 0;
    }
    return count;
}

// Adjacent mappings of different files stay apart, so each is counted.
Task<bool> becomes(Reactor& core, size_t count, uint64_t bytes) {
    for (int i = 0; i < 200 && mapped_segments(bytes) != count; ++i) co_await sleep_for(core, 10ms);
    co_return mapped_segments(bytes) == count;
}

Task<> move_both_ways(Client& client, Bytes memory) {
    MemoryRegion region = *client.endpoint->grant(memory, Rights::read_write);
    std::vector<std::byte> bytes(memory.size(), std::byte{'x'});
    EXPECT_TRUE(co_await client.server->put(region.key(), 0, bytes));
    EXPECT_EQ(memory.front(), std::byte{'x'});
    EXPECT_EQ(memory.back(), std::byte{'x'});
    std::memset(memory.data(), 'y', memory.size());
    EXPECT_TRUE(co_await client.server->get(region.key(), 0, bytes));
    EXPECT_EQ(bytes.front(), std::byte{'y'});
    EXPECT_EQ(bytes.back(), std::byte{'y'});
    co_await region.revoke();
}

Task<> comes_when_needed(Stage&, Client& client) {
    EXPECT_EQ(mapped_segments(first_bytes), 2U);
    EXPECT_EQ(client.endpoint->allocate(mib).error().code, Code::no_memory);
    std::vector<Bytes> all;
    // The last ones do not fit into what the largest segments left.
    for (const uint64_t size : {mib, 64 * uint64_t{4096}, 3 * mib, 10 * mib, 5 * mib + 1}) {
        const auto memory = co_await client.take(size);
        EXPECT_TRUE(memory) << size;
        if (!memory) continue;
        all.push_back(*memory);
        co_await move_both_ways(client, *memory);
    }
    EXPECT_EQ((co_await client.take(65 * mib)).error().code, Code::no_memory);
    EXPECT_EQ((co_await client.take(64 * mib)).error().code, Code::no_memory) << "some is in use";
    for (const Bytes memory : all) client.endpoint->free(memory);
    const auto whole = co_await client.take(64 * mib);
    EXPECT_TRUE(whole);
    if (whole) {
        co_await move_both_ways(client, *whole);
        client.endpoint->free(*whole);
    }
    EXPECT_TRUE(client.server->alive());
}
TEST(ShmFurtherSegments, SegmentsAreAddedOnDemand) { run_connected(comes_when_needed, {}); }

Task<> goes_back(Stage& stage, Client& client) {
    for (int round = 0; round < 3; ++round) {
        const auto memory = co_await client.take(7 * mib);
        EXPECT_TRUE(memory);
        if (!memory) co_return;
        EXPECT_EQ(mapped_segments(7 * mib), 2U);
        co_await sleep_for(stage.core(), 100ms);
        EXPECT_EQ(mapped_segments(7 * mib), 2U) << "it is in use";
        co_await move_both_ways(client, *memory);
        client.endpoint->free(*memory);
        EXPECT_TRUE(co_await becomes(stage.core(), 0, 7 * mib)) << round;
    }
}
TEST(ShmFurtherSegments, IdleSegmentsAreReturned) { run_connected(goes_back); }

Task<> waits_for_others(Stage& stage) {
    // Not impatient: memory comes back only because another client waits.
    Client first(stage, {}), second(stage, {}), late(stage, {});
    for (Client* const each : {&first, &second, &late}) {
        co_await each->connect(stage);
        if (!each->server) co_return;
    }
    const auto of_first = co_await first.take(14 * mib);
    const auto of_second = co_await second.take(14 * mib);
    EXPECT_TRUE(of_first && of_second);
    if (!of_first || !of_second) co_return;
    EXPECT_EQ((co_await late.take(20 * mib, 100ms)).error().code, Code::deadline);
    // It still wants it when the others have finished.
    first.endpoint->free(*of_first);
    second.endpoint->free(*of_second);
    const auto memory = co_await late.take(20 * mib);
    EXPECT_TRUE(memory);
    if (memory) late.endpoint->free(*memory);
    // And the first gets some again.
    const auto again = co_await first.take(14 * mib);
    EXPECT_TRUE(again);
    if (again) first.endpoint->free(*again);
    for (Client* const each : {&first, &second, &late}) co_await each->close();
}
TEST(ShmFurtherSegments, FreedSegmentsGoToWaitingClient) {
    Stage(listening(), {.segments_bytes_max = 60 * mib}).run(waits_for_others);
}

Task<> leaves_some(Stage& stage, Client& greedy) {
    std::vector<Bytes> taken;
    for (int i = 0; i < 100; ++i) {
        const auto memory = co_await greedy.take(mib, 50ms);
        if (!memory) break;
        taken.push_back(*memory);
    }
    EXPECT_GE(taken.size(), 6U);
    EXPECT_LE(taken.size(), 13U);
    Client late(stage, {});
    co_await late.connect(stage);
    if (!late.server) co_return;
    const auto memory = co_await late.take(4 * mib);
    EXPECT_TRUE(memory);
    if (memory) late.endpoint->free(*memory);
    for (const Bytes each : taken) greedy.endpoint->free(each);
    co_await late.close();
}
TEST(ShmFurtherSegments, GreedyConnectionLeavesMemoryForLateOne) {
    run_connected(leaves_some, {}, {.segments_bytes_max = 40 * mib});
}

// Few file descriptors at the client: an error of the request, not of the connection.
Task<> without_descriptors(Stage&, Client& client) {
    rlimit before{};
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    // Both sides are in this process: the server asks the kernel for one, too, and waits.
    rlimit few = before;
    const int lowest = dup(0);
    few.rlim_cur = static_cast<rlim_t>(lowest);
    close(lowest);
    setrlimit(RLIMIT_NOFILE, &few);
    const auto refused = co_await client.take(mib, 200ms);
    setrlimit(RLIMIT_NOFILE, &before);
    EXPECT_FALSE(refused);
    EXPECT_TRUE(client.endpoint->alive() && client.server->alive());
    const auto memory = co_await client.take(mib);
    EXPECT_TRUE(memory);
    if (memory) client.endpoint->free(*memory);
}
TEST(ShmFurtherSegments, WithoutDescriptorsConnectionSurvives) {
    run_connected(without_descriptors);
}

// ---- attacks ------------------------------------------------------------------------------------

void ask(Attacker& attacker, uint32_t number, uint64_t wanted, uint64_t least) {
    SharedSegment& segment = attacker.page().segments[number];
    shared(segment.least).store(least);
    shared(segment.wanted).store(wanted);
    shared(attacker.page().asks.value).fetch_add(1);
    const char byte = 1;
    EXPECT_EQ(::send(attacker.socket.get(), &byte, 1, MSG_NOSIGNAL), 1);
}

Task<> invalid_requests(Stage& stage) {
    const std::pair<uint64_t, uint64_t> requests[] = {
        {1, 1},
        {4096, 0},
        {4096, 8192},
        {8192, 4097},
        {65 * mib, 4096},
        {~uint64_t{0}, ~uint64_t{0}},
        {~uint64_t{0} << 12, 4096},
    };
    for (const auto& [wanted, least] : requests) {
        Attacker attacker;
        co_await attack(stage, attacker, *stage.honest, 64 * mib, first_bytes);
        if (!attacker.victim) co_return;
        ask(attacker, 3, wanted, least);
        EXPECT_EQ(co_await how_it_ended(stage, *attacker.victim), End::violation) << wanted;
        attacker.socket.reset();
        co_await attacker.victim->close();
    }
    co_await stage.bystander_is_served();
}
TEST(ShmFurtherSegments, InvalidSegmentRequestEndsSession) {
    Stage(listening()).run(invalid_requests);
}

// One that wants all that there is.
Task<> hoarder(Stage& stage, Attacker& attacker) {
    for (uint32_t i = 1; i < segments_most; ++i) ask(attacker, i, 4 * mib, mib);
    co_await sleep_for(stage.core(), 300ms);
    EXPECT_TRUE(attacker.victim->alive());
    EXPECT_LE(mapped_segments(4 * mib) * 4 + mapped_segments(mib), 20U + 2);
    Client late(stage, {});
    co_await late.connect(stage);
    if (!late.server) co_return;
    const auto memory = co_await late.take(2 * mib);
    EXPECT_TRUE(memory);
    if (memory) late.endpoint->free(*memory);
    co_await late.close();
    attacker.socket.reset();
    EXPECT_NE(co_await how_it_ended(stage, *attacker.victim), End::none);
    co_await attacker.victim->close();
    attacker.victim.reset();
    EXPECT_EQ(mapped_segments(4 * mib), 0U);
    EXPECT_EQ(mapped_segments(mib), 2U) << "the bystander's";
}
TEST(ShmFurtherSegments, GreedyClientLeavesMemoryForOthers) {
    run_connected(hoarder, {.segments_bytes_max = 40 * mib});
}

// One that asks and returns, and never reads: one descriptor is on its way to it, and the server
// does not try again and again.
Task<> deaf(Stage& stage, Attacker& attacker) {
    ask(attacker, 1, 3 * mib, 3 * mib);
    EXPECT_TRUE(co_await becomes(stage.core(), 1, 3 * mib));
    ask(attacker, 1, 0, 0);
    EXPECT_TRUE(co_await becomes(stage.core(), 0, 3 * mib));
    for (uint32_t i = 2; i < segments_most; ++i) ask(attacker, i, 3 * mib, 3 * mib);
    rusage before{}, after{};
    getrusage(RUSAGE_SELF, &before);
    co_await sleep_for(stage.core(), 500ms);
    getrusage(RUSAGE_SELF, &after);
    EXPECT_EQ(mapped_segments(3 * mib), 0U);
    const auto spent = [](const timeval& a, const timeval& b) {
        return (b.tv_sec - a.tv_sec) * 1'000'000 + (b.tv_usec - a.tv_usec);
    };
    EXPECT_LT(spent(before.ru_stime, after.ru_stime), 250'000) << "us of the kernel, in 500 ms";
    EXPECT_TRUE(attacker.victim->alive());
    co_await stage.bystander_is_served();
    // It is served when it has read.
    char bytes[64];
    while (::recv(attacker.socket.get(), bytes, sizeof bytes, MSG_DONTWAIT) > 0) {
    }
    EXPECT_TRUE(co_await becomes(stage.core(), 1, 3 * mib));
}
TEST(ShmFurtherSegments, NonReadingClientGetsOneSegmentAtATime) { run_connected(deaf); }

// Asking and returning without end takes a bounded part of the core.
Task<> restless(Stage& stage, Attacker& attacker) {
    int given = 0;
    const Time until = stage.core().now() + 500ms;
    while (stage.core().now() < until) {
        ask(attacker, 1, 32 * mib, 32 * mib);
        char bytes[64];
        const auto came = [&] {
            bool has = false;
            for (ssize_t got = 0;
                 (got = ::recv(attacker.socket.get(), bytes, sizeof bytes, MSG_DONTWAIT)) > 0;) {
                has |= std::ranges::count(std::span(bytes).first(static_cast<size_t>(got)),
                                          static_cast<char>(segment_byte + 1)) > 0;
            }
            return has;
        };
        while (stage.core().now() < until && !came()) co_await sleep_for(stage.core(), 1ms);
        ++given;
        ask(attacker, 1, 0, 0);
        co_await sleep_for(stage.core(), 1ms);
    }
    // Each takes 20 ms of the domain's time.
    EXPECT_LE(given, 40);
    EXPECT_GE(given, 2);
    EXPECT_TRUE(attacker.victim->alive());
}
TEST(ShmFurtherSegments, RateOfSegmentChangesIsBounded) { run_connected(restless); }

// Returned while a request has it mapped: it stays mapped for that request, no grant reaches it any
// more, and it goes with the mapping.
Task<> returned_while_mapped(Stage& stage, Attacker& attacker) {
    ask(attacker, 2, 3 * mib, 3 * mib);
    EXPECT_TRUE(co_await becomes(stage.core(), 1, 3 * mib));
    const uint64_t address = payload_address(2, 4096);
    SharedRegionEntry& grant = attacker.grant(0);
    shared(grant.address).store(address);
    shared(grant.length).store(8192);
    shared(grant.expires).store(Time::max().time_since_epoch().count());
    shared(grant.state).store(uint64_t{1} << 32 | 7);
    const RemoteKey key = attacker.key(0, address, 8192);
    auto mapping = attacker.victim->map(key, 0, 8192, Rights::read);
    EXPECT_TRUE(mapping);
    if (!mapping) co_return;
    ask(attacker, 2, 0, 0);
    co_await sleep_for(stage.core(), 50ms);
    EXPECT_EQ(mapped_segments(3 * mib), 1U);
    EXPECT_EQ(mapping->bytes()[8191], std::byte{0});
    AlignedBuffer buffer(4096);
    EXPECT_EQ((co_await attacker.victim->put(key, 0, buffer.bytes())).error().code, Code::invalid);
    // The same slot, with another segment.
    shared(grant.address).store(0);
    const RemoteKey other = attacker.key(0, 0, 8192);
    EXPECT_FALSE(attacker.victim->map(other, 0, 8192, Rights::read));
    mapping->end();
    EXPECT_EQ(mapped_segments(3 * mib), 0U);
    shared(grant.address).store(address);
    EXPECT_EQ((co_await attacker.victim->put(key, 0, buffer.bytes())).error().code, Code::invalid);
    for (const uint64_t lie : {payload_address(15, 0), payload_address(16, 0), ~uint64_t{0},
                               payload_address(0, first_bytes), payload_address(1, 0) - 4096}) {
        shared(grant.address).store(lie);
        EXPECT_FALSE(co_await attacker.victim->put(attacker.key(0, lie, 8192), 0, buffer.bytes()));
    }
    EXPECT_TRUE(attacker.victim->alive());
}
TEST(ShmFurtherSegments, MappedSegmentStaysUntilRequestEnds) {
    run_connected(returned_while_mapped);
}

// ---- what an idle connection costs --------------------------------------------------------------

struct Memory {
    uint64_t reserved = 0, resident = 0;  // of shared segments, in this process
};
Memory memory_of_segments() {
    std::ifstream maps("/proc/self/smaps");
    Memory memory;
    bool is_ours = false;
    for (std::string line; std::getline(maps, line);) {
        uint64_t kib = 0, from = 0, to = 0;
        if (sscanf(line.c_str(), "%lx-%lx ", &from, &to) == 2) {
            is_ours = line.contains("/memfd:ros2store-");
        } else if (is_ours && sscanf(line.c_str(), "Size: %lu", &kib) == 1) {
            memory.reserved += kib << 10;
        } else if (is_ours && sscanf(line.c_str(), "Rss: %lu", &kib) == 1) {
            memory.resident += kib << 10;
        }
    }
    return memory;
}

Task<> idle_ones(Stage& stage) {
    constexpr uint64_t count = 100;
    const Memory before = memory_of_segments();
    std::vector<std::unique_ptr<Client>> all;
    for (uint64_t i = 0; i < count; ++i) {
        auto& client = all.emplace_back(std::make_unique<Client>(stage));
        co_await client->connect(stage, 160 * mib);
        if (!client->server) co_return;
        // Each has been busy, so that its rings and its first segment have all their pages.
        std::vector<std::byte> large(30'000);
        for (int round = 0; round < 50; ++round) {
            EXPECT_TRUE(co_await client->endpoint->send(large));
            auto request = co_await client->server->receive();
            EXPECT_TRUE(request);
            EXPECT_TRUE(co_await client->server->send(large));
            EXPECT_TRUE(co_await client->endpoint->receive());
        }
        const Bytes memory = *client->endpoint->allocate(first_bytes);
        std::memset(memory.data(), 1, memory.size());
        client->endpoint->free(memory);
    }
    uint64_t resident = 0;
    for (int i = 0; i < 100; ++i) {
        co_await sleep_for(stage.core(), 20ms);
        resident = memory_of_segments().resident - before.resident;
        if (resident <= 2 * count * (uint64_t{64} << 10)) break;
    }
    // Both sides are in this process, and each counts a shared page.
    EXPECT_LE(memory_of_segments().reserved - before.reserved, 2 * count * 2 * mib);
    EXPECT_LE(resident, 2 * count * (uint64_t{64} << 10));
    co_await stage.bystander_is_served();
    for (auto& each : all) co_await each->close();
}
TEST(ShmFurtherSegments, IdleConnectionUsesLittleMemory) {
    Stage({.limits = {.message_bytes_max = 64 << 10,
                      .incoming_bytes_max = mib,
                      .outgoing_bytes_max = 1408 << 10,
                      .reply_bytes = 5 << 10,
                      .regions_max = 4096,
                      .memory_bytes_max = 160 * mib}},
          impatient)
        .run(idle_ones);
}

}  // namespace
}  // namespace ros2s::fabric::shm
