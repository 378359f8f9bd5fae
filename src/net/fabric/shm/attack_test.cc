// A hostile client: whatever it does costs only its own session, within its budget.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "ring.h"
#include "shm_endpoint.h"
#include "test_support/attack.h"

namespace ros2s::fabric::shm {
namespace {

Task<> finish(Attacker& attacker) {
    attacker.socket.reset();
    if (attacker.victim != nullptr) co_await attacker.victim->close();
    attacker.victim.reset();
}

// Impossible indices of the ring to the server.
Task<> lying_tails(Stage& stage) {
    for (const uint64_t tail :
         {uint64_t{1}, uint64_t{63}, uint64_t{64} << 40, ~uint64_t{0}, ~uint64_t{0} << 6}) {
        Attacker attacker;
        co_await attack(stage, attacker, *stage.honest);
        if (!attacker.victim) co_return;
        shared(attacker.page().to_server_tail.value).store(tail);
        EXPECT_EQ(co_await how_it_ended(stage, *attacker.victim), End::violation) << tail;
        co_await finish(attacker);
    }
    // Backwards, after a valid message.
    Attacker attacker;
    co_await attack(stage, attacker, *stage.honest);
    if (!attacker.victim) co_return;
    attacker.write_entry({.type = Packet::Type::message, .length = 1, .operation = 1},
                         as_bytes("x"), 64);
    EXPECT_TRUE(co_await attacker.victim->receive());
    shared(attacker.page().to_server_tail.value).store(0);
    EXPECT_EQ(co_await how_it_ended(stage, *attacker.victim), End::violation);
    co_await finish(attacker);
    EXPECT_EQ(stage.server->counters().of(End::violation).value(), 6U);
}
TEST(ShmAttack, FalseTailEndsSession) { Stage().run(lying_tails); }

// The index of the client's own reading.
Task<> lying_heads(Stage& stage) {
    for (const uint64_t head : {uint64_t{64} << 40, ~uint64_t{0}, uint64_t{3}}) {
        Attacker attacker;
        co_await attack(stage, attacker, *stage.honest);
        if (!attacker.victim) co_return;
        // The server needs room: only then does it look.
        shared(attacker.page().to_client_head.value).store(head);
        AlignedBuffer buffer(60'000);
        Result<> sent;
        for (int i = 0; i < 1000 && sent; ++i)
            sent = co_await attacker.victim->send(buffer.bytes());
        EXPECT_FALSE(sent);
        EXPECT_EQ(attacker.victim->ended(), End::violation) << head;
        co_await finish(attacker);
    }
}
TEST(ShmAttack, FalseHeadEndsSession) { Stage().run(lying_heads); }

// A quiet connection is not polled. Entries written meanwhile are seen when the peer disconnects.
Task<> lies_while_quiet(Stage& stage) {
    Attacker attacker;
    co_await attack(stage, attacker, *stage.honest);
    if (!attacker.victim) co_return;
    for (int turn = 0; turn < 10'000; ++turn) co_await yield(stage.core());
    EXPECT_NE(shared(attacker.page().server_wants.value).load() & wants_entries, 0U);
    shared(attacker.page().to_server_tail.value).store(~uint64_t{0} << 6);
    for (int turn = 0; turn < 100; ++turn) co_await yield(stage.core());
    EXPECT_TRUE(attacker.victim->alive());
    attacker.socket.reset();
    EXPECT_EQ(co_await how_it_ended(stage, *attacker.victim), End::violation);
    co_await finish(attacker);
}
TEST(ShmAttack, FalseTailOfQuietPeerEndsSessionAtDisconnect) { Stage().run(lies_while_quiet); }

// The core looks once more before it sleeps.
Task<> lies_while_all_is_quiet(Stage& stage) {
    Attacker attacker;
    co_await attack(stage, attacker, *stage.honest);
    if (!attacker.victim) co_return;
    for (int turn = 0; turn < 10'000; ++turn) co_await yield(stage.core());
    shared(attacker.page().to_server_tail.value).store(1);
    for (int i = 0; i < 100 && attacker.victim->alive(); ++i) {
        co_await sleep_for(stage.core(), std::chrono::milliseconds(10));
    }
    EXPECT_EQ(attacker.victim->ended(), End::violation);
    co_await finish(attacker);
}
TEST(ShmAttack, FalseTailBeforeSleepEndsSession) { Stage().run(lies_while_all_is_quiet); }

Task<> senseless_entries(Stage& stage) {
    using Type = Packet::Type;
    const Packet entries[] = {
        {},
        {.type = Type::put, .length = 200, .count = 104},
        {.type = Type::credit, .count = 1},
        {.type = Type::message, .length = ~0U, .operation = ~0U},
        {.type = Type::message, .length = 4, .operation = 2},
        {.type = Type::message, .length = 4, .operation = 8, .offset = 6},
        {.type = Type::message, .length = 4, .operation = 8, .offset = 4},  // without a beginning
        {.type = Type::message, .flags = 1, .length = 4, .operation = 4},
        {.type = Type::message, .length = 5000, .operation = 5000},  // more than is there
    };
    for (const Packet& entry : entries) {
        Attacker attacker;
        co_await attack(stage, attacker, *stage.honest);
        if (!attacker.victim) co_return;
        attacker.write_entry(entry, {}, 128);
        EXPECT_EQ(co_await how_it_ended(stage, *attacker.victim), End::violation);
        co_await finish(attacker);
    }
    Attacker attacker;
    co_await attack(stage, attacker, *stage.honest);
    if (!attacker.victim) co_return;
    attacker.write_entry({.type = Type::message, .length = 32, .operation = uint64_t{1} << 40}, {},
                         64);
    EXPECT_EQ(co_await how_it_ended(stage, *attacker.victim), End::over_budget);
    co_await finish(attacker);
}
TEST(ShmAttack, MalformedEntryEndsSession) { Stage().run(senseless_entries); }

// Any bytes in the ring, from many seeds.
Task<> garbage(Stage& stage) {
    for (uint64_t seed = 1; seed <= 200; ++seed) {
        Random random(seed);
        Attacker attacker;
        co_await attack(stage, attacker, *stage.honest, 4096);
        if (!attacker.victim) co_return;
        Bytes ring = attacker.ring_to_server();
        for (size_t at = 0; at < 65536; at += 8) {
            const uint64_t word = random.one_in(3) ? random.below(256) : random.next();
            std::memcpy(ring.data() + at, &word, sizeof word);
        }
        // Sometimes a header that is valid at first sight.
        for (size_t at = 0; at < 65536; at += 64 * (1 + random.below(8))) {
            const Packet header{.type = Packet::Type::message,
                                .length = static_cast<uint32_t>(random.below(200)),
                                .operation = random.below(200)};
            std::memcpy(ring.data() + at, &header, sizeof header);
        }
        shared(attacker.page().to_server_tail.value).store(65536);
        while (attacker.victim->alive()) {
            auto message = co_await attacker.victim->receive();
            if (message) EXPECT_LE(message->bytes().size(), 200U);
        }
        co_await finish(attacker);
    }
}
TEST(ShmAttack, GarbageInRingEndsSession) { Stage().run(garbage); }

// Everything that the server reads changes while it reads it.
void scribble(const Attacker& attacker, std::atomic<bool>& stop) {
    Random random(9);
    Bytes ring = attacker.ring_to_server();
    uint64_t tail = 0;
    while (!stop.load(std::memory_order_relaxed)) {
        const uint64_t place = tail & (ring.size() - 1);
        Packet header{.type = Packet::Type::message, .length = 16, .operation = 16};
        std::memcpy(ring.data() + place, &header, sizeof header);
        if (tail - shared(attacker.page().to_server_head.value).load() < ring.size()) {
            shared(attacker.page().to_server_tail.value).store(tail += 64);
        }
        // After it was published: the server must use what it has checked.
        header.length = static_cast<uint32_t>(random.next());
        header.operation = random.one_in(2) ? header.length : 16;
        std::memcpy(ring.data() + place, &header, sizeof header);
        SharedRegionEntry& grant = attacker.grant(0);
        shared(grant.address).store(random.next());
        shared(grant.length).store(random.next());
        shared(grant.state).store(random.one_in(2) ? uint64_t{1} << 32 | 7 : random.next());
        SharedSegment& segment = attacker.page().segments[1 + random.below(segments_most - 1)];
        shared(segment.least).store(block_bytes);
        shared(segment.wanted).store(random.one_in(2) ? 0 : block_bytes * (1 + random.below(64)));
        shared(attacker.page().asks.value).store(random.next());
        const char byte = 1;
        if (random.one_in(8)) {
            (void)::send(attacker.socket.get(), &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
        }
    }
}
Task<> changes_under_us(Stage& stage) {
    const Time until = stage.core().now() + std::chrono::milliseconds(400);
    uint64_t connections = 0;
    while (stage.core().now() < until) {
        Attacker attacker;
        co_await attack(stage, attacker, *stage.honest, 1 << 20, block_bytes);
        if (!attacker.victim) co_return;
        ++connections;
        std::atomic<bool> stop = false;
        std::thread thread([&attacker, &stop] { scribble(attacker, stop); });
        AlignedBuffer buffer(4096);
        const RemoteKey key = attacker.key(0, 0, 4096);
        while (stage.core().now() < until && attacker.victim->alive()) {
            Message message;
            while (attacker.victim->try_receive(message)) {
                EXPECT_LE(message.bytes().size(), 65536U);
                message = {};
            }
            (void)co_await attacker.victim->put(key, 0, buffer.bytes());
            (void)co_await attacker.victim->get(key, 0, buffer.bytes());
            co_await yield(stage.core());
        }
        stop = true;
        thread.join();
        co_await finish(attacker);
    }
    EXPECT_GE(connections, 1U);
}
TEST(ShmAttack, ConcurrentlyChangedBytesAreHarmless) { Stage().run(changes_under_us); }

// Grants that point outside the session's payload.
Task<> lying_grants(Stage& stage) {
    Attacker attacker;
    co_await attack(stage, attacker, *stage.honest);
    if (!attacker.victim) co_return;
    const uint64_t size = attacker.layout.payload_bytes;
    const std::pair<uint64_t, uint64_t> lies[] = {
        {size, 64},
        {size - 64, 128},
        {0, size + 1},
        {~uint64_t{0} - 63, 64},
        {~uint64_t{0} - 63, 128},
        {uint64_t{1} << 63, uint64_t{1} << 63},
        {reinterpret_cast<uint64_t>(stage.bystander.get()), 64},
        {64, ~uint64_t{0}},
    };
    AlignedBuffer buffer(64);
    for (const auto& [address, length] : lies) {
        SharedRegionEntry& grant = attacker.grant(5);
        grant.address = address;
        grant.length = length;
        grant.expires = Time::max().time_since_epoch().count();
        shared(grant.state).store(uint64_t{1} << 32 | 3 << 1 | 1);
        const RemoteKey key = attacker.key(5, address, length);
        EXPECT_EQ((co_await attacker.victim->put(key, 0, buffer.bytes())).error().code,
                  Code::invalid);
        EXPECT_EQ((co_await attacker.victim->get(key, 0, buffer.bytes())).error().code,
                  Code::invalid);
    }
    EXPECT_EQ(std::as_const(stage.server->counters()).of(Refusal::range), 2 * std::size(lies));
    EXPECT_TRUE(attacker.victim->alive());
    co_await finish(attacker);
}
TEST(ShmAttack, GrantOutsidePayloadIsRefused) { Stage().run(lying_grants); }

// The segments are sealed: they cannot be truncated, and their seals cannot be changed.
Task<> cutting_segments(Stage& stage) {
    Attacker attacker;
    co_await attack(stage, attacker, *stage.honest);
    if (!attacker.victim) co_return;
    for (const Descriptor* each : {&attacker.control_descriptor, &attacker.payload_descriptor}) {
        EXPECT_EQ(ftruncate(each->get(), 0), -1);
        EXPECT_EQ(errno, EPERM);
        EXPECT_EQ(ftruncate(each->get(), 1 << 30), -1);
        for (const int seal : {F_SEAL_WRITE, F_SEAL_FUTURE_WRITE}) {
            EXPECT_EQ(fcntl(each->get(), F_ADD_SEALS, seal), -1);
            EXPECT_EQ(errno, EPERM);
        }
    }
    co_await finish(attacker);
}
TEST(ShmAttack, SealedSegmentCannotBeTruncated) { Stage().run(cutting_segments); }

// A hole punched into memory in use reads as zeros: no fault, and it costs only this session.
Task<> hole_in_payload(Stage& stage) {
    Attacker attacker;
    co_await attack(stage, attacker, *stage.honest, 4 << 20);
    if (!attacker.victim) co_return;
    SharedRegionEntry& grant = attacker.grant(0);
    grant.length = 4 << 20;
    grant.expires = Time::max().time_since_epoch().count();
    shared(grant.state).store(uint64_t{1} << 32 | 3 << 1 | 1);
    const RemoteKey key = attacker.key(0, 0, 4 << 20);
    std::atomic<bool> stop = false;
    std::thread thread([&attacker, &stop] {
        while (!stop.load(std::memory_order_relaxed)) {
            fallocate(attacker.payload_descriptor.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                      0, 4 << 20);
        }
    });
    AlignedBuffer buffer(4 << 20);
    std::memset(buffer.data(), 0x55, buffer.size());
    for (int i = 0; i < 30; ++i) {
        EXPECT_TRUE(co_await attacker.victim->put(key, 0, buffer.bytes()));
        EXPECT_TRUE(co_await attacker.victim->get(key, 0, buffer.bytes()));
    }
    stop = true;
    thread.join();
    for (const std::byte byte : buffer.bytes()) {
        if (byte != std::byte{0x55} && byte != std::byte{0}) ADD_FAILURE() << "foreign bytes";
        if (byte != std::byte{0x55} && byte != std::byte{0}) break;
    }
    EXPECT_TRUE(attacker.victim->alive());
    co_await finish(attacker);
}
TEST(ShmAttack, HoleInPayloadReadsAsZeros) { Stage().run(hole_in_payload); }

Task<> hole_in_control(Stage& stage) {
    Attacker attacker;
    co_await attack(stage, attacker, *stage.honest);
    if (!attacker.victim) co_return;
    attacker.write_entry({.type = Packet::Type::message, .length = 1, .operation = 1},
                         as_bytes("x"), 64);
    EXPECT_TRUE(co_await attacker.victim->receive());
    EXPECT_EQ(
        fallocate(attacker.control_descriptor.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                  static_cast<off_t>(attacker.layout.control_bytes)),
        0);
    // The tail went backwards.
    EXPECT_EQ(co_await how_it_ended(stage, *attacker.victim), End::violation);
    co_await finish(attacker);
}
TEST(ShmAttack, HoleInControlEndsSession) { Stage().run(hole_in_control); }

// It requests a wake-up for each entry and reads none of the bytes, and it fills our socket with
// bytes.
Task<> filled_sockets(Stage& stage) {
    Attacker attacker;
    co_await attack(stage, attacker, *stage.honest);
    if (!attacker.victim) co_return;
    const std::array<char, 4096> bytes{};
    for (int i = 0; i < 20'000; ++i) {
        shared(attacker.page().client_wants.value).store(7);
        shared(attacker.page().to_client_head.value)
            .store(shared(attacker.page().to_client_tail.value).load());
        EXPECT_TRUE(co_await attacker.victim->send(as_bytes("x")));
        if (i % 100 == 0) {
            (void)::send(attacker.socket.get(), bytes.data(), bytes.size(),
                         MSG_DONTWAIT | MSG_NOSIGNAL);
        }
        co_await yield(stage.core());
    }
    // The socket is full of our wake-ups, and the server is not blocked.
    std::array<char, 1> byte{};
    EXPECT_EQ(recv(attacker.socket.get(), byte.data(), 1, MSG_DONTWAIT), 1);
    co_await stage.bystander_is_served();
    EXPECT_TRUE(attacker.victim->alive());
    co_await finish(attacker);
}
TEST(ShmAttack, FilledSocketLeavesOthersServed) { Stage().run(filled_sockets); }

// Requests without end, and no reply is read.
Task<> never_reads(Stage& stage) {
    Attacker attacker;
    co_await attack(stage, attacker, *stage.honest);
    if (!attacker.victim) co_return;
    uint64_t taken = 0;
    for (int turn = 0; turn < 2000; ++turn) {
        for (int i = 0; i < 32; ++i) {
            const uint64_t tail = attacker.page().to_server_tail.value;
            const uint64_t head = shared(attacker.page().to_server_head.value).load();
            if (tail - head > attacker.layout.to_server_bytes - 64) break;
            attacker.write_entry({.type = Packet::Type::message, .length = 8, .operation = 8},
                                 as_bytes("12345678"), 64);
        }
        Message request;
        while (attacker.victim->try_receive(request)) {
            ++taken;
            EXPECT_TRUE(attacker.victim->reply(request, as_bytes("a small answer")));
        }
        co_await yield(stage.core());
    }
    // Until its ring was full of replies, and not one more.
    EXPECT_LE(taken, attacker.layout.to_client_bytes / 64);
    EXPECT_GE(taken, attacker.layout.to_client_bytes / 512);
    // Requests wait in its own ring, and a bounded number with us.
    EXPECT_LE(stage.server->counters().message_bytes_received.value(), uint64_t{1} << 20);
    co_await stage.bystander_is_served();
    EXPECT_TRUE(attacker.victim->alive());
    co_await finish(attacker);
}
TEST(ShmAttack, NeverReadRepliesStayBounded) { Stage().run(never_reads); }

size_t open_descriptors() {
    size_t count = 0;
    for ([[maybe_unused]] const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) {
        ++count;
    }
    return count;
}

// Unexpected descriptors are not kept.
Task<> unasked_descriptors(Stage& stage) {
    const size_t before = open_descriptors();
    {
        Report report;
        auto socket = co_await connect_to(stage.core(), stage.address(), {}, report);
        EXPECT_TRUE(socket);
        if (!socket) co_return;
        Hello hello;
        hello.set_provider("other");
        hello.seal();
        const std::vector<int> gifts{0, 0, 0, 0};
        EXPECT_TRUE(
            co_await send_descriptors(stage.core(), socket->get(), object_bytes(hello), gifts, {}));
        std::array<std::byte, sizeof hello> answer{};
        EXPECT_TRUE(co_await receive_all(stage.core(), socket->get(), answer, {}));
    }
    co_await sleep_for(stage.core(), std::chrono::milliseconds(20));
    EXPECT_EQ(open_descriptors(), before);
}
TEST(ShmAttack, UnrequestedDescriptorsAreClosed) { Stage().run(unasked_descriptors); }

constexpr Duration half_open_within = std::chrono::minutes(10);

// Connections that send nothing, or another protocol.
Task<> half_open(Stage& stage) {
    std::vector<Descriptor> silent;
    Report report;
    for (int i = 0; i < 300; ++i) {
        auto socket = co_await connect_to(stage.core(), stage.address(), {}, report);
        EXPECT_TRUE(socket) << report.text();
        if (!socket) co_return;
        if (i % 3 == 0) {
            const std::string other =
                "GET / HTTP/1.1\r\nHost: engine\r\n\r\n" + std::string(128, 'x');
            (void)::send(socket->get(), other.data(), other.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
        }
        silent.push_back(std::move(*socket));
    }
    co_await stage.bystander_is_served();
    // A silent connection is displaced at once by one that sends a hello.
    const Time begun = stage.core().now();
    auto connected = co_await stage.honest->connect(stage.address(), {}, report);
    EXPECT_TRUE(connected) << report.text();
    EXPECT_LT(stage.core().now() - begun, half_open_within);
    EXPECT_GE(stage.server->counters().handshakes_refused.value(), 300U - 16U);
    if (!connected) co_return;
    auto accepted = co_await stage.listener->accept();
    EXPECT_TRUE(accepted);
    co_await (*connected)->close();
    co_await (*accepted)->close();
}
TEST(ShmAttack, HalfOpenConnectionsAreBounded) {
    Stage({.limits = {.reply_bytes = 256},
           .handshakes_max = 16,
           .handshake_within = half_open_within})
        .run(half_open);
}

// Admits all peers except strangers.
struct OnlyWithCredential final : PeerCheck {
    Verdict admit(uint64_t /*session*/, ConstBytes credential, const Peer& peer) override {
        EXPECT_EQ(peer.user, getuid());
        return {.admitted = as_text(credential) != "stranger", .said = {}};
    }
    void withdraw(uint64_t /*session*/) noexcept override {}
};
size_t shared_segments() {
    std::ifstream maps("/proc/self/maps");
    size_t count = 0;
    for (std::string line; std::getline(maps, line);) count += line.contains("/memfd:ros2store-");
    return count;
}

// Peers without a ticket: each sends a valid hello, wants memory, and stays.
Task<> strangers(Stage& stage) {
    constexpr int thousand = 1000, tickets = 30;
    const size_t before = shared_segments(), descriptors = open_descriptors();
    Hello hello{.domain = 4711,
                .message_bytes_max = 65536,
                .incoming_bytes_max = 1 << 20,
                .memory_bytes = UINT64_MAX,
                .operations_max = 16};
    hello.set_provider("shm");
    hello.passed_bytes = 8;
    hello.seal();
    Report report;
    std::vector<Descriptor> all;
    for (int i = 0; i < thousand; ++i) {
        auto socket = co_await connect_to(stage.core(), stage.address(), {}, report);
        EXPECT_TRUE(socket) << report.text();
        if (!socket) co_return;
        // Every other one stops in the middle of the hello.
        (void)::send(socket->get(), &hello, sizeof hello, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (i % 2 == 0) (void)::send(socket->get(), "stranger", 8, MSG_DONTWAIT | MSG_NOSIGNAL);
        all.push_back(std::move(*socket));
        if (i % (thousand / tickets) != 0) continue;
        EXPECT_LE(shared_segments(), before);
        EXPECT_LE(open_descriptors(), descriptors + all.size() + 2 * 64);
        auto connected = co_await stage.honest->connect(stage.address(), {}, report);
        EXPECT_TRUE(connected) << i << ": " << report.text();
        if (!connected) co_return;
        auto accepted = co_await stage.listener->accept();
        EXPECT_TRUE(accepted);
        co_await (*connected)->close();
        co_await (*accepted)->close();
    }
    co_await stage.bystander_is_served();
    EXPECT_GE(stage.server->counters().handshakes_refused.value(), thousand - 2 * 64U);
}
TEST(ShmAttack, RefusedPeerCostsNoSegment) {
    OnlyWithCredential peer_check;
    Stage({.limits = {.reply_bytes = 256}, .peer_check = &peer_check}).run(strangers);
}

// The memory of all connections together has a bound. A peer that exceeds it gets an error.
Task<> too_much_memory(Stage& stage) {
    Report report;
    const auto connected = co_await stage.honest->connect(
        stage.address(), {.limits = {.memory_bytes_max = uint64_t{1} << 40}}, report);
    EXPECT_EQ(connected.error().code, Code::no_memory);
    EXPECT_NE(report.text().find("no memory"), std::string::npos) << report.text();
    // A peer that requests little gets it.
    auto modest = co_await stage.honest->connect(stage.address(),
                                                 {.limits = {.memory_bytes_max = 4096}}, report);
    EXPECT_TRUE(modest) << report.text();
    if (!modest) co_return;
    auto accepted = co_await stage.listener->accept();
    co_await (*modest)->close();
    co_await (*accepted)->close();
}
TEST(ShmAttack, SessionMemoryIsBounded) {
    Stage({.limits = {.reply_bytes = 256, .memory_bytes_max = uint64_t{1} << 50}},
          {.segments_bytes_max = uint64_t{16} << 20})
        .run(too_much_memory);
}

// The domains of several tenants do not use more than their common limit either. Those that take
// all they can leave room for one more.
Task<> share(Stage& stage) {
    constexpr uint64_t mib = uint64_t{1} << 20;
    SegmentsTogether together{.bytes_max = 64 * mib};
    std::vector<std::unique_ptr<ShmConnections>> domains;
    std::vector<ShmConnections::Room> rooms;
    std::vector<uint64_t> had;
    for (int i = 0; i < 5; ++i) {
        ShmConnections& domain = *domains.emplace_back(std::make_unique<ShmConnections>(
            stage.core(), Options{.segments_bytes_max = 40 * mib, .together = &together}));
        had.push_back(0);
        for (;; had.back() += mib) {
            auto room = domain.take_room(mib, {});
            if (!room) break;
            rooms.push_back(std::move(room));
        }
    }
    EXPECT_EQ(had, std::vector<uint64_t>({32 * mib, 16 * mib, 8 * mib, 4 * mib, 2 * mib}));
    ShmConnections small(stage.core(), {.together = &together});
    EXPECT_TRUE(small.take_room(mib, {}));
    EXPECT_EQ(together.bytes, 62 * mib);
    rooms.clear();
    EXPECT_EQ(together.bytes, 0U);
    EXPECT_FALSE(domains.front()->take_room(43 * mib, {})) << "its own bound";
    co_return;
}
TEST(ShmAttack, DomainMemoryIsBounded) { Stage().run(share); }

}  // namespace
}  // namespace ros2s::fabric::shm
