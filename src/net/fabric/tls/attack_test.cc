// Strangers, and admitted peers that break the protocol. An attack affects only its own connection.
#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <optional>
#include <utility>

#include "frame_reader.h"
#include "ros2s/fabric/contract/attack_shapes.h"
#include "ros2s/fabric/pending_peers.h"
#include "ros2s/fabric/socket/socket_listener.h"
#include "test_support/relay.h"
#include "test_support/test_authority.h"
#include "tls_stream.h"

namespace ros2s::fabric::tls {
namespace {

using namespace std::chrono_literals;

const TestAuthority& another_authority() {
    static const TestAuthority made;
    return made;
}

// The number of such lines in its log.
struct Lines {
    std::vector<std::string> all;
    [[nodiscard]] Log log() {
        return Log([this](LogLevel, std::string_view line) { all.emplace_back(line); });
    }
    [[nodiscard]] size_t with(std::string_view part) const {
        return static_cast<size_t>(std::ranges::count_if(
            all, [&](const std::string& line) { return line.contains(part); }));
    }
};

struct Subjects final : PeerCheck {
    Verdict admit(uint64_t, ConstBytes credential, const Peer& peer) override {
        subjects.push_back(peer.subject);
        return {.admitted = as_text(credential) != "none", .said = {}};
    }
    void withdraw(uint64_t) noexcept override {}
    std::vector<std::string> subjects;
};

struct Scene {
    Lines lines{};
    Subjects check{};
    contract::Stage stage;
    explicit Scene(ListenOptions listening = {.limits = {.reply_bytes = 256}})
        : stage(
              [this, opened = 0](Reactor& reactor, Report& report) mutable {
                  Options options = authority().client();
                  if (opened++ == 0) {
                      options = authority().server();
                      options.log = lines.log();
                  }
                  return open_domain(reactor, options, report);
              },
              with_check(listening, check)) {}
    static ListenOptions with_check(ListenOptions options, PeerCheck& check) {
        options.peer_check = &check;
        return options;
    }
    void run(Task<> (*test)(Scene&)) {
        stage.run([this, test] { return test(*this); });
    }
    Reactor& core() { return stage.core(); }
    [[nodiscard]] uint64_t refused() { return stage.server->counters().handshakes_refused.value(); }
    Task<> wait_for_lines(size_t count) {
        const Time until = core().now() + 30s;
        while (lines.all.size() < count && core().now() < until) {
            co_await sleep_for(core(), 1ms);
        }
        EXPECT_EQ(lines.all.size(), count);
    }
};

// A TCP connection to the listener.
Task<Descriptor> reach(Scene& scene) {
    Report report;
    auto socket = co_await connect_to(scene.core(), scene.stage.address(), {}, report);
    EXPECT_TRUE(socket) << report.text();
    co_return socket ? std::move(*socket) : Descriptor();
}

Task<bool> is_hung_up(Scene& scene, int fd) {
    std::array<std::byte, 512> bytes{};
    Deadline deadline(scene.core(), scene.core().now() + 30s, {});
    bool hung_up = false;
    while (!hung_up && !deadline.passed()) {
        (void)co_await scene.core().ring()->poll(fd, POLLIN | POLLRDHUP, deadline.token());
        const ssize_t got = ::recv(fd, bytes.data(), bytes.size(), MSG_DONTWAIT);
        hung_up = got == 0 || (got < 0 && errno != EAGAIN);
    }
    co_await deadline.finish();
    co_return hung_up;
}

// ---- strangers

Task<> who_speaks_no_tls(Scene& scene) {
    std::vector<Descriptor> sockets;
    const std::vector<std::string> protocols{
        "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "SSH-2.0-OpenSSH_9.2\r\n", std::string(100'000, '\0'),
        std::string("\x16\x03\x01\xff\xff", 5) + std::string(70'000, 'x')};
    for (const std::string& protocol : protocols) {
        sockets.push_back(co_await reach(scene));
        (void)co_await send_all(scene.core(), sockets.back().get(), as_bytes(protocol), {});
        EXPECT_TRUE(co_await is_hung_up(scene, sockets.back().get()));
    }
    co_await scene.wait_for_lines(protocols.size());
    EXPECT_EQ(scene.lines.with("was refused before its hello: TLS: "), protocols.size());
    EXPECT_EQ(scene.refused(), protocols.size());
    EXPECT_EQ(scene.check.subjects.size(), 1U) << "the bystander's";
}
TEST(TlsAttack, PlainTextPeerIsRefused) { Scene().run(who_speaks_no_tls); }

// A plain hello that names our provider must not get past TLS.
Task<> who_claims_to_be_of_ours(Scene& scene) {
    const Descriptor socket = co_await reach(scene);
    Hello hello{.domain = 1, .message_bytes_max = 65536, .operations_max = 16};
    hello.set_provider("tls");
    Report report;
    const auto answer = co_await ask_admission(scene.core(), socket.get(), hello,
                                               scene.stage.address(), {}, {}, report);
    EXPECT_EQ(answer.error().code, Code::unsupported) << report.text();
    EXPECT_TRUE(co_await is_hung_up(scene, socket.get()));
    co_await scene.wait_for_lines(1);
    EXPECT_EQ(scene.check.subjects.size(), 1U);
}
TEST(TlsAttack, PlainHelloIsRefused) { Scene().run(who_claims_to_be_of_ours); }

// With another authority's certificate, with a server's, or with none that fits the listener's
// name: refused on the side that can tell, with a sentence.
Task<> wrong_certificates(Scene& scene) {
    struct Wrong {
        Options options;
        const char* line;      // the server's, if it is the one that refuses
        const char* sentence;  // the client's
    };
    // It trusts both authorities, so that it accepts the server.
    Options foreign = another_authority().client();
    foreign.identity.authority_file = another_authority().directory() + "/both.crt";
    std::ofstream both(foreign.identity.authority_file);
    for (const TestAuthority* each : {&authority(), &another_authority()}) {
        both << std::ifstream(each->server().identity.authority_file).rdbuf();
    }
    both.close();
    Options another_name = authority().client();
    another_name.server_name = "engine-2";
    Options no_name = authority().client();
    no_name.server_name = "";
    const std::vector<Wrong> all{
        {another_authority().client(), "unknown ca",
         "of CN=server: self-signed certificate in certificate chain"},
        {foreign, "of CN=client: self-signed certificate in certificate chain", "alert unknown ca"},
        {another_name, "certificate", "hostname mismatch"},
        {no_name, nullptr, "'' cannot be a server's name"},
        {authority().client("server"), "of CN=server: unsuitable certificate purpose", "alert"},
    };
    size_t lines = 0;
    for (const Wrong& wrong : all) {
        Report report;
        auto domain = open_domain(scene.core(), wrong.options, report);
        EXPECT_TRUE(domain) << report.text();
        if (!domain) continue;
        const auto made = co_await (*domain)->connect(scene.stage.address(), {}, report);
        EXPECT_FALSE(made);
        EXPECT_TRUE(report.text().contains(wrong.sentence)) << report.text();
        co_await (*domain)->close();
        co_await scene.wait_for_lines(++lines);
        if (wrong.line != nullptr) {
            EXPECT_TRUE(scene.lines.all.back().contains(wrong.line)) << scene.lines.all.back();
        }
    }
    EXPECT_EQ(scene.check.subjects.size(), 1U);
}
TEST(TlsAttack, WrongCertificateIsRefused) { Scene().run(wrong_certificates); }

// Refused before a byte of it is decoded.
Task<> revoked_certificate(Scene& scene) {
    Report report;
    auto domain = open_domain(scene.core(), authority().client("stolen"), report);
    EXPECT_TRUE(domain) << report.text();
    if (!domain) co_return;
    const auto made = co_await (*domain)->connect(scene.stage.address(), {}, report);
    EXPECT_FALSE(made);
    EXPECT_TRUE(report.text().contains("alert certificate revoked")) << report.text();
    co_await (*domain)->close();
    co_await scene.wait_for_lines(1);
    EXPECT_EQ(scene.lines.with("of CN=stolen: certificate revoked"), 1U);
    EXPECT_EQ(scene.check.subjects.size(), 1U) << "of the stage's own connection";
}
TEST(TlsAttack, RevokedCertificateIsRefused) {
    const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
    Report report;
    ASSERT_TRUE(pki::issue(authority().directory(), {.name = "stolen"}, true, now, report))
        << report.text();
    ASSERT_TRUE(pki::revoke(authority().directory(), "stolen", now, report)) << report.text();
    Scene().run(revoked_certificate);
}

// Connections that stay open and send nothing, or a byte now and then, are closed at their
// deadline.
Task<> half_open(Scene& scene) {
    const Descriptor silent = co_await reach(scene);
    const Descriptor slow = co_await reach(scene);
    const Time until = scene.core().now() + 30s;
    const std::string beginning("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11);
    size_t said = 0;
    while (scene.lines.all.size() < 2 && scene.core().now() < until) {
        (void)::send(slow.get(), &beginning[said++ % beginning.size()], 1, MSG_NOSIGNAL);
        co_await sleep_for(scene.core(), 20ms);
    }
    EXPECT_EQ(scene.lines.with("did not finish the TLS handshake in time"), 2U);
    EXPECT_TRUE(co_await is_hung_up(scene, silent.get()));
    EXPECT_TRUE(co_await is_hung_up(scene, slow.get()));
}
TEST(TlsAttack, HalfOpenConnectionsTimeOut) {
    Scene({.limits = {.reply_bytes = 256}, .handshake_within = 500ms}).run(half_open);
}

// More than the limit of handshakes: each further connection ends the oldest. A client gets
// through.
Task<> flood(Scene& scene) {
    std::vector<Descriptor> sockets;
    for (int i = 0; i < 200; ++i) {
        sockets.push_back(co_await reach(scene));
        if (i % 2 == 0) (void)::send(sockets.back().get(), "\x16\x03", 2, MSG_NOSIGNAL);
    }
    co_await scene.stage.bystander_is_served();
    co_await scene.stage.another_connects();
    EXPECT_LE(scene.lines.all.size(), 20U * 10) << "20 lines in a second";
    sockets.clear();
}
TEST(TlsAttack, ConnectionFloodLeavesOthersServed) {
    Scene({.limits = {.reply_bytes = 256}, .handshakes_max = 8}).run(flood);
}

// A listener of the process, in a domain of its own.
struct OneOfMany {
    std::unique_ptr<Domain> domain;
    std::unique_ptr<Listener> listener;
    Task<> close() const {
        co_await listener->close();
        co_await domain->close();
    }
};

Task<OneOfMany> listen_with(Scene& scene, PendingPeers& pending_peers) {
    Report report;
    OneOfMany made;
    auto domain = open_domain(scene.core(), authority().server(), report);
    ROS2S_CHECK(domain);
    made.domain = std::move(*domain);
    auto listener = co_await made.domain->listen(
        "127.0.0.1:0", {.handshake_within = 1h, .pending_peers = &pending_peers}, report);
    ROS2S_CHECK(listener);
    made.listener = std::move(*listener);
    co_return made;
}

// All listeners together have a bound. The flooded one uses what others leave.
Task<> flood_of_another(Scene& scene) {
    constexpr size_t most = 8;
    PendingPeers pending_peers(scene.core(), most);
    const OneOfMany flooded = co_await listen_with(scene, pending_peers);
    const OneOfMany other = co_await listen_with(scene, pending_peers);
    Report report;
    auto slow = co_await connect_to(scene.core(), other.listener->address(), {}, report);
    EXPECT_TRUE(slow) << report.text();
    std::vector<Descriptor> silent;
    for (size_t i = 0; i < 3 * most; ++i) {
        auto socket = co_await connect_to(scene.core(), flooded.listener->address(), {}, report);
        EXPECT_TRUE(socket) << report.text();
        if (socket) silent.push_back(std::move(*socket));
    }
    for (size_t i = 0; i < 2 * most && i < silent.size(); ++i) {
        EXPECT_TRUE(co_await is_hung_up(scene, silent[i].get()));
    }
    EXPECT_EQ(pending_peers.size(), most);
    auto client = co_await scene.stage.honest->connect(other.listener->address(), {}, report);
    EXPECT_TRUE(client) << report.text();
    if (client) {
        const auto accepted = co_await other.listener->accept();
        EXPECT_TRUE(accepted);
        co_await (*client)->close();
        co_await (*accepted)->close();
    }
    std::byte byte{};
    EXPECT_EQ(::recv(slow ? slow->get() : -1, &byte, 1, MSG_DONTWAIT), -1) << "it is not hung up";
    EXPECT_EQ(errno, EAGAIN);
    co_await flooded.close();
    co_await other.close();
    EXPECT_EQ(pending_peers.size(), 0U);
}
TEST(TlsAttack, FloodOfAnotherListenerLeavesThisOneServed) { Scene().run(flood_of_another); }

// ---- peers with a certificate

// One that says its hello by hand.
struct Attacker {
    Descriptor socket;
    std::unique_ptr<SecureSockets> sockets;
    std::unique_ptr<TlsStream> stream;
    std::unique_ptr<Endpoint> victim;  // the server's side
};

Task<> shake_hands(Scene& scene, Attacker& attacker) {
    Report report;
    auto sockets = open_secure_sockets(authority().client("other").identity, {}, report);
    EXPECT_TRUE(sockets) << report.text();
    attacker.sockets = std::move(*sockets);
    attacker.socket = co_await reach(scene);
    auto secure = attacker.sockets->connect(attacker.socket.get(), "localhost", report);
    EXPECT_TRUE(secure) << report.text();
    attacker.stream =
        std::make_unique<TlsStream>(scene.core(), attacker.socket.get(), std::move(*secure));
    Result<bool> done = attacker.stream->step();
    while (done && !*done && co_await attacker.stream->wait_after_step({})) {
        done = attacker.stream->step();
    }
    EXPECT_TRUE(done && *done) << attacker.stream->secure().why();
}

Hello plain_hello() {
    Hello hello{.domain = 7,
                .message_bytes_max = 65536,
                .incoming_bytes_max = 1 << 20,
                .operations_max = 16};
    hello.set_provider("tls");
    return hello;
}

Task<> attack(Scene& scene, Attacker& attacker) {
    co_await shake_hands(scene, attacker);
    Report report;
    EXPECT_TRUE(co_await ask_admission(*attacker.stream, plain_hello(), scene.stage.address(), {},
                                       {}, report))
        << report.text();
    std::array<std::byte, sizeof(Hello)> bytes{};
    EXPECT_TRUE(co_await attacker.stream->receive(bytes, {}));
    auto accepted = co_await scene.stage.listener->accept();
    EXPECT_TRUE(accepted);
    if (accepted) attacker.victim = std::move(*accepted);
}

Task<> send_frame(Attacker& attacker, FrameLength length, ConstBytes bytes) {
    (void)co_await attacker.stream->send(object_bytes(length), {});
    (void)co_await attacker.stream->send(bytes, {});
}

Task<End> how_it_ended(Scene& scene, Attacker& attacker) {
    const End end = co_await contract::how_it_ended(scene.stage, *attacker.victim);
    co_await attacker.victim->close();
    attacker.victim.reset();
    co_await scene.stage.bystander_is_served();
    co_return end;
}

struct Attempt {
    const char* what;
    std::vector<std::byte> data;
    std::optional<FrameLength> length{};  // none: the right one
    End end = End::violation;
};

Task<> make_attempts(Scene& scene, std::vector<Attempt> attempts) {
    for (const Attempt& attempt : attempts) {
        Attacker attacker;
        co_await attack(scene, attacker);
        if (attacker.victim == nullptr) co_return;
        const FrameLength right{.bytes = static_cast<uint32_t>(attempt.data.size())};
        co_await send_frame(attacker, attempt.length.value_or(right), attempt.data);
        EXPECT_EQ(co_await how_it_ended(scene, attacker), attempt.end) << attempt.what;
    }
}

Task<> senseless_lengths(Scene& scene) {
    const auto good = contract::good_packet();
    co_await make_attempts(scene,
                           {{"empty", good, FrameLength{}},
                            {"larger than a frame", good, FrameLength{.bytes = frame_bytes + 1}},
                            {"4 GiB", good, FrameLength{.bytes = ~0U}},
                            {"not zero", good, FrameLength{.bytes = 36, .zero = 1}},
                            {"shorter than its packet", good, FrameLength{.bytes = 35}}});
}
TEST(TlsAttack, InvalidLengthEndsSession) { Scene().run(senseless_lengths); }

Task<> senseless_packets(Scene& scene) {
    std::vector<Attempt> attempts;
    for (contract::BadPacket& each : contract::bad_packets()) {
        attempts.push_back({each.what, std::move(each.data), {}, each.end});
    }
    co_await make_attempts(scene, std::move(attempts));
}
TEST(TlsAttack, MalformedPacketEndsSession) { Scene().run(senseless_packets); }

// Any bytes as frames, from many seeds.
Task<> garbage(Scene& scene) {
    for (uint64_t seed = 1; seed <= 30; ++seed) {
        Random random(seed);
        Attacker attacker;
        co_await attack(scene, attacker);
        if (attacker.victim == nullptr) co_return;
        for (int i = 0; i < 50 && attacker.victim->alive(); ++i) {
            std::vector<std::byte> data = contract::garbage_packet(random);
            co_await send_frame(attacker, {.bytes = static_cast<uint32_t>(data.size())}, data);
        }
        contract::expect_end_by_garbage(seed, co_await how_it_ended(scene, attacker));
    }
}
TEST(TlsAttack, GarbageFrameEndsSession) { Scene().run(garbage); }

// Bytes that did not come through TLS end the session, and nothing of them is used.
Task<> bytes_beside_tls(Scene& scene) {
    Attacker attacker;
    co_await attack(scene, attacker);
    const auto good = contract::good_packet();
    std::vector<std::byte> record{std::byte{23}, std::byte{3}, std::byte{3}, std::byte{0},
                                  static_cast<std::byte>(good.size())};
    record.insert(record.end(), good.begin(), good.end());
    EXPECT_TRUE(co_await send_all(scene.core(), attacker.socket.get(), record, {}));
    EXPECT_EQ(co_await how_it_ended(scene, attacker), End::violation);
}
TEST(TlsAttack, BytesOutsideTlsEndSession) { Scene().run(bytes_beside_tls); }

// A refused ticket is refused inside TLS, and the check has the subject of the certificate.
Task<> whose_certificate(Scene& scene) {
    Attacker attacker;
    co_await shake_hands(scene, attacker);
    Report report;
    const ConstBytes none = as_bytes("none");
    const auto answer =
        co_await ask_admission(*attacker.stream, plain_hello(), scene.stage.address(),
                               {.credential = {none.begin(), none.end()}}, {}, report);
    EXPECT_EQ(answer.error().code, Code::denied) << report.text();
    EXPECT_EQ(scene.check.subjects, (std::vector<std::string>{"CN=client", "CN=other"}));
}
TEST(TlsAttack, PeerCheckReceivesCertificateSubject) { Scene().run(whose_certificate); }

// ---- what a network sees

// All messages, keys and payload between an honest client and the server go through a relay that
// stores all bytes. None of them is readable on the wire.
Task<> planted_bytes(Scene& scene) {
    const std::string planted = "planted: do not show this to the network";
    Relay relay(scene.core(), scene.stage.address());
    Report report;
    const ConstBytes ticket = as_bytes(planted);
    auto connected = co_await scene.stage.honest->connect(
        relay.address(), {.credential = {ticket.begin(), ticket.end()}}, report);
    EXPECT_TRUE(connected) << report.text();
    auto accepted = co_await scene.stage.listener->accept();
    EXPECT_TRUE(accepted);
    if (connected && accepted) {
        Endpoint& client = **connected;
        Endpoint& server = **accepted;
        auto memory = client.allocate(200'000);
        EXPECT_TRUE(memory);
        for (size_t at = 0; at + planted.size() <= memory->size(); at += planted.size()) {
            std::memcpy(memory->data() + at, planted.data(), planted.size());
        }
        auto region = client.grant(*memory, Rights::read_write);
        EXPECT_TRUE(region);
        EXPECT_TRUE(co_await client.send(as_bytes(planted), object_bytes(region->key())));
        auto request = co_await server.receive();
        EXPECT_TRUE(request);
        AlignedBuffer buffer(200'000);
        EXPECT_TRUE(co_await server.get(region->key(), 0, buffer.bytes()));
        EXPECT_EQ(std::memcmp(buffer.data(), memory->data(), 199'960), 0);
        EXPECT_TRUE(co_await server.put(region->key(), 0, buffer.bytes()));
        EXPECT_TRUE(server.reply(*request, as_bytes(planted)));
        auto answer = co_await client.receive();
        EXPECT_TRUE(answer);
        co_await region->revoke();
        client.free(*memory);
        answer = {};
        request = {};
        co_await client.close();
        co_await server.close();
    }
    co_await relay.close();
    EXPECT_GT(relay.seen().size(), 400'000U);
    EXPECT_FALSE(relay.seen().contains(planted.substr(0, 16)));
}
TEST(TlsAttack, PlaintextIsNotOnTheWire) { Scene().run(planted_bytes); }

// ---- keys

struct Pair {
    std::array<Descriptor, 2> ends;
    std::unique_ptr<SecureSockets> server_sockets, client_sockets;
    std::unique_ptr<SecureSocket> server, client;
};

void connect_pair(Pair& pair) {
    std::array<int, 2> ends{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()), 0);
    pair.ends = {Descriptor(ends[0]), Descriptor(ends[1])};
    Report report;
    pair.server_sockets = *open_secure_sockets(authority().server().identity, {}, report);
    pair.client_sockets = *open_secure_sockets(authority().client().identity, {}, report);
    pair.server = *pair.server_sockets->accept(ends[0], report);
    pair.client = *pair.client_sockets->connect(ends[1], "localhost", report);
    bool done = false;
    for (int i = 0; i < 10 && !done; ++i) {
        const Progress client = pair.client->shake_hands();
        done = pair.server->shake_hands() == Progress::done && client == Progress::done;
    }
    ASSERT_TRUE(done) << pair.server->why() << pair.client->why();
}

int waiting_bytes(const Descriptor& end) {
    int count = 0;
    EXPECT_EQ(::ioctl(end.get(), FIONREAD, &count), 0);
    return count;
}

TEST(TlsKeys, KeyChangesAfterRecordLimit) {
    Pair pair;
    connect_pair(pair);
    pair.client->change_key_every(3);
    pair.server->read_ahead();
    std::array<std::byte, 100> sent{}, got{};
    std::vector<int> sizes;
    for (int i = 0; i < 30; ++i) {
        sent.fill(static_cast<std::byte>(i));
        ASSERT_EQ(pair.client->write(sent, false).bytes, sent.size());
        sizes.push_back(waiting_bytes(pair.ends[0]));
        pair.server->became_readable(false);
        size_t have = 0;
        while (have < got.size()) {
            const Moved moved = pair.server->read(Bytes(got).subspan(have));
            ASSERT_EQ(moved.progress, Progress::done) << i;
            have += moved.bytes;
        }
        EXPECT_EQ(got, sent);
    }
    // The message with the new key precedes every third record.
    for (size_t i = 1; i < sizes.size(); ++i) {
        if (i % 3 == 0) {
            EXPECT_GT(sizes[i], sizes[1]) << i;
        } else {
            EXPECT_EQ(sizes[i], sizes[1]) << i;
        }
    }
}

// A peer that sends only key updates.
TEST(TlsKeys, FloodOfKeyUpdatesEndsConnection) {
    std::array<int, 2> ends{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()), 0);
    const Descriptor ours(ends[0]), theirs(ends[1]);
    Report report;
    const auto sockets = *open_secure_sockets(authority().server().identity, {}, report);
    const auto server = *sockets->accept(ours.get(), report);
    SSL_CTX* const settings = SSL_CTX_new(TLS_client_method());
    const pki::Identity identity = authority().client().identity;
    constexpr std::array<unsigned char, 13> protocol{12,  'r', 'o', 's', '2', 's', '-',
                                                     'f', 'a', 'b', 'r', 'i', 'c'};
    SSL_CTX_set_alpn_protos(settings, protocol.data(), protocol.size());
    SSL_CTX_use_certificate_chain_file(settings, identity.certificate_file.c_str());
    SSL_CTX_use_PrivateKey_file(settings, identity.key_file.c_str(), SSL_FILETYPE_PEM);
    SSL* const client = SSL_new(settings);
    SSL_set_fd(client, theirs.get());
    bool done = false;
    for (int i = 0; i < 10 && !done; ++i) {
        const bool connected = SSL_connect(client) == 1;
        done = server->shake_hands() == Progress::done && connected;
    }
    EXPECT_TRUE(done) << server->why();
    for (int i = 0; i < 100; ++i) {
        EXPECT_EQ(SSL_key_update(client, SSL_KEY_UPDATE_NOT_REQUESTED), 1);
        EXPECT_EQ(SSL_do_handshake(client), 1);
    }
    std::array<std::byte, 16> byte{};
    EXPECT_EQ(server->read(byte).progress, Progress::refused);
    EXPECT_EQ(server->why(), "too many records without data");
    SSL_free(client);
    SSL_CTX_free(settings);
}

}  // namespace
}  // namespace ros2s::fabric::tls
