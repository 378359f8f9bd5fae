// A hostile or broken client can only end its own connection.
#include "server.h"

#include <cstdlib>

#include "ros2s/fabric/deadline.h"
#include "test_support/rpc.h"

namespace ros2s::rpc {
namespace {

using namespace std::chrono_literals;

// A peer that writes its frames by hand.
struct Raw {
    std::unique_ptr<fabric::Domain> domain;
    std::unique_ptr<fabric::Endpoint> endpoint;
    uint32_t session = 0;

    // With any bytes instead of a hello. The server's answer is kept in `verdict`.
    Task<Code> connect(Stage& stage, std::vector<std::byte> credential) {
        if (!domain) domain = stage.network.open_domain(stage.core(), "stranger");
        verdict.clear();
        Report report;
        auto connected = co_await domain->connect(
            "here", {.credential = std::move(credential), .verdict = &verdict}, report);
        if (!connected) co_return connected.error().code;
        endpoint = std::move(*connected);
        co_return Code::exists;
    }
    static std::vector<std::byte> frame_of(FrameHeader header, ConstBytes body = {}) {
        std::vector<std::byte> memory(frame_bytes(0, body.size()));
        encode_frame(header, {}, {}, body, memory);
        return memory;
    }
    static std::vector<std::byte> hello_of(Stage& stage, HelloBody hello) {
        std::vector<std::byte> memory(hello_bytes_max);
        hello.client = stage.channel_options.client;
        FrameHeader header;
        header.kind = Kind::hello;
        return frame_of(header, encode(hello, memory));
    }
    // The server's answer if it did not admit us.
    [[nodiscard]] std::optional<Error> refusal() const {
        const auto frame = decode_frame(verdict);
        EXPECT_TRUE(frame && frame->header.kind == Kind::failure);
        const auto read = frame ? decode_failure(frame->body) : fail(Code::corrupt);
        EXPECT_TRUE(read && !read->text.empty());
        return read ? std::optional(read->error) : std::nullopt;
    }
    Task<> send(FrameHeader header, ConstBytes body = {}, ConstBytes payload = {}) {
        EXPECT_TRUE(co_await endpoint->send(frame_of(header, body), payload));
    }
    // Sends a hello with a valid ticket, and receives the welcome.
    Task<> enter(Stage& stage) {
        const std::string ticket = "ticket " + std::to_string(++entered);
        EXPECT_EQ(co_await connect(stage, hello_of(stage, {.service = 7, .ticket = ticket})),
                  Code::exists);
        const auto frame = decode_frame(verdict);
        EXPECT_TRUE(frame && frame->header.kind == Kind::welcome);
        if (frame) session = frame->header.session;
    }
    [[nodiscard]] FrameHeader request(uint64_t number, uint16_t method) const {
        FrameHeader header;
        header.kind = Kind::request;
        header.method = method;
        header.session = session;
        header.request = number;
        return header;
    }
    // The failure that arrives; nothing if the connection just ends.
    Task<std::optional<Error>> failure() {
        auto message = co_await endpoint->receive();
        if (!message) co_return std::nullopt;
        const auto frame = decode_frame(message->bytes());
        EXPECT_TRUE(frame && frame->header.kind == Kind::failure);
        const auto read = decode_failure(frame->body);
        EXPECT_TRUE(read && !read->text.empty());
        co_return read->error;
    }
    Task<> expect_thrown_out() {
        while (true) {
            auto message = co_await endpoint->receive();
            if (!message) break;
        }
        EXPECT_FALSE(endpoint->alive());
    }
    Task<> leave() {
        if (endpoint) co_await endpoint->close();
        endpoint.reset();
        if (domain) co_await domain->close();
        domain.reset();
    }
    std::vector<std::byte> verdict;
    static inline int entered = 1000;
};

// Before and after each attack another client is served.
Task<> whole(Stage& stage, Task<> (*attack)(Stage&, Raw&)) {
    co_await stage.start();
    auto channel = co_await stage.connect();
    EXPECT_TRUE(channel) << stage.report.text();
    Raw raw;
    co_await attack(stage, raw);
    co_await raw.leave();
    ReadNothing reader;
    EXPECT_TRUE(co_await (*channel)->call({}, {.method = echo}, reader));
    EXPECT_EQ((*channel)->metrics().connections.value(), 1U);
    co_await stage.leave(*channel);
    co_await stage.stop();
    EXPECT_EQ(stage.gate.inside, 0);
}
void attack(Task<> (*body)(Stage&, Raw&), ServerOptions options = {}) {
    Stage stage(1);
    stage.server_options = options;
    stage.world.run(whole(stage, body));
}

// A client that is not admitted costs nothing: no endpoint, and none of the connections.
Task<> not_let_in(Stage& stage, Raw& raw, std::vector<std::byte> credential) {
    EXPECT_EQ(co_await raw.connect(stage, std::move(credential)), Code::denied);
    EXPECT_EQ(stage.server->metrics().connections.value(), 1U);
    EXPECT_EQ(stage.gate.inside, 1);
}

Task<> garbage(Stage& stage, Raw& raw) {
    const ConstBytes http = as_bytes("GET / HTTP/1.1\r\n\r\n");
    co_await not_let_in(stage, raw, {http.begin(), http.end()});
    co_await not_let_in(stage, raw, {});
    co_await not_let_in(stage, raw, Raw::frame_of(raw.request(uint64_t{1} << 16, echo)));
    EXPECT_EQ(stage.server->metrics().malformed.value(), 3U);
    EXPECT_EQ(stage.server->metrics().requests.value(), 0U);
}
TEST(RpcServer, PeerWithoutHelloIsRefused) { attack(garbage); }

Task<> other_versions(Stage& stage, Raw& raw) {
    const Error wanted{Code::bad_version, 0, FrameHeader::current_version};
    co_await not_let_in(stage, raw,
                        Raw::hello_of(stage, {.version_least = FrameHeader::current_version + 1,
                                              .version_most = 99,
                                              .service = 7}));
    EXPECT_EQ(raw.refusal(), wanted);
    FrameHeader header;
    header.kind = Kind::hello;
    header.version = FrameHeader::current_version + 1;
    co_await not_let_in(stage, raw, Raw::frame_of(header));
    EXPECT_EQ(raw.refusal(), wanted);
    EXPECT_EQ(stage.server->metrics().refused_version.value(), 2U);
}
TEST(RpcServer, OtherVersionIsRefusedWithOwnVersion) { attack(other_versions); }

Task<> used_ticket(Stage& stage, Raw& raw) {
    // The good client's.
    co_await not_let_in(stage, raw, Raw::hello_of(stage, {.service = 7, .ticket = "ticket 1"}));
    const auto error = raw.refusal();
    EXPECT_TRUE(error && error->code == Code::denied);
}
TEST(RpcServer, UsedTicketIsRefused) { attack(used_ticket); }

// A client cannot infer the number of other connections from its own number.
Task<> connect_again(Stage& stage, Raw& raw) {
    std::vector<int64_t> numbers;
    for (int i = 0; i < 3; ++i) {
        co_await raw.enter(stage);
        numbers.push_back(raw.session);
        co_await raw.leave();
    }
    for (size_t i = 1; i < numbers.size(); ++i) {
        EXPECT_GT(std::abs(numbers[i] - numbers[i - 1]), 1000);
    }
}
TEST(RpcServer, ConnectionNumbersRevealNothing) { attack(connect_again); }

// It was admitted, but does not connect.
Task<> let_in_and_gone(Stage& stage, Raw& raw) {
    raw.domain = stage.network.open_domain(stage.core(), "stranger");
    Report report;
    for (int i = 1; i <= 20; ++i) {
        fabric::Deadline soon(stage.core(), stage.core().now() + std::chrono::microseconds(2 * i),
                              {});
        auto connected = co_await raw.domain->connect(
            "here",
            {.stop = soon.token(),
             .credential = Raw::hello_of(
                 stage, {.service = 7, .ticket = "ticket " + std::to_string(9000 + i)})},
            report);
        co_await soon.finish();
        if (connected) co_await (*connected)->close();
    }
    while (stage.gate.inside > 1) co_await sleep_for(stage.core(), 1ms);
    EXPECT_GT(stage.gate.used.size(), 2U);
}
TEST(RpcServer, AdmittedPeerThatLeavesIsReleased) { attack(let_in_and_gone); }

Task<> other_session(Stage& stage, Raw& raw) {
    co_await raw.enter(stage);
    raw.session = 1;  // the good client's
    co_await raw.send(raw.request(uint64_t{1} << 16, echo));
    co_await raw.expect_thrown_out();
    EXPECT_EQ(stage.server->metrics().malformed.value(), 1U);
}
TEST(RpcServer, RequestForAnotherSessionEndsConnection) { attack(other_session); }

Task<> odd_frames(Stage& stage, Raw& raw) {
    uint64_t malformed = 0;
    for (const Kind kind : {Kind::hello, Kind::welcome, Kind::failure, Kind::reply}) {
        co_await raw.enter(stage);
        FrameHeader header = raw.request(uint64_t{1} << 16, 0);
        header.kind = kind;
        co_await raw.send(header);
        co_await raw.expect_thrown_out();
        co_await raw.leave();
        EXPECT_EQ(stage.server->metrics().malformed.value(), ++malformed);
    }
    // Slots that were not granted, and payload beyond the announced size.
    for (const int which : {0, 1, 2}) {
        co_await raw.enter(stage);
        FrameHeader header = raw.request(which == 0 ? 4711 : uint64_t{1} << 16, echo);
        if (which == 1) header.sink_bytes = (64 << 20) + 1;
        std::vector<std::byte> payload(which == 2 ? 5 : 0);
        co_await raw.send(header, {}, payload);  // the header says 0
        co_await raw.expect_thrown_out();
        co_await raw.leave();
        EXPECT_EQ(stage.server->metrics().malformed.value(), ++malformed);
    }
    EXPECT_EQ(stage.server->metrics().requests.value(), 0U);
}
TEST(RpcServer, MalformedFrameEndsConnection) { attack(odd_frames); }

Task<> beyond_credit(Stage& stage, Raw& raw) {
    co_await raw.enter(stage);
    for (uint64_t i = 0; i < 2; ++i) co_await raw.send(raw.request(uint64_t{1} << 16 | i, wait));
    co_await raw.send(raw.request(uint64_t{2} << 16, wait));  // a slot that is in use
    co_await raw.expect_thrown_out();
    EXPECT_EQ(stage.server->metrics().over_credit.value(), 1U);
    while (stage.service.running > 0) co_await sleep_for(stage.core(), 1ms);
    EXPECT_EQ(stage.service.stopped, 2U);
}
TEST(RpcServer, RequestOverCreditsEndsConnection) { attack(beyond_credit, {.requests_max = 2}); }

Task<> cancels_of_nothing(Stage& stage, Raw& raw) {
    co_await raw.enter(stage);
    FrameHeader header = raw.request(uint64_t{9} << 16 | 3, 0);
    header.kind = Kind::cancel;
    for (int i = 0; i < 1000; ++i) co_await raw.send(header);
    co_await raw.send(raw.request(uint64_t{1} << 16, refuse));
    EXPECT_EQ(co_await raw.failure(), (Error{Code::no_space, 28, 5}));
    EXPECT_EQ(stage.server->metrics().cancels.value(), 0U);
}
TEST(RpcServer, CancelOfUnknownRequestIsHarmless) { attack(cancels_of_nothing); }

Task<> false_keys(Stage& stage, Raw& raw) {
    co_await raw.enter(stage);
    FrameHeader header = raw.request(uint64_t{1} << 16, echo);
    header.set(Flag::in_source);
    header.payload_bytes = 5000;
    const WindowDescriptor window{.length = 5000};  // the key: zeros
    std::vector<std::byte> memory(frame_bytes(1, 0));
    EXPECT_TRUE(co_await raw.endpoint->send(encode_frame(header, {&window, 1}, {}, {}, memory)));
    co_await raw.expect_thrown_out();
    EXPECT_EQ(stage.server->metrics().malformed.value(), 1U);
}
TEST(RpcServer, InvalidKeyEndsConnection) { attack(false_keys); }

Task<> never_served(Stage& stage, Raw& raw) {
    co_await raw.enter(stage);
    auto memory = raw.endpoint->allocate(100000);
    EXPECT_TRUE(memory);
    auto region = raw.endpoint->grant(*memory, fabric::Rights::read);
    EXPECT_TRUE(region);
    FrameHeader header = raw.request(uint64_t{1} << 16, echo);
    header.set(Flag::in_source);
    header.payload_bytes = memory->size();
    WindowDescriptor window{.length = memory->size()};
    std::memcpy(window.key.data(), &region->key(), sizeof window.key);
    std::vector<std::byte> frame(frame_bytes(1, 0));
    EXPECT_TRUE(co_await raw.endpoint->send(encode_frame(header, {&window, 1}, {}, {}, frame)));
    while (stage.server->metrics().requests.value() == 0) co_await sleep_for(stage.core(), 1us);
    stage.network.stall("stranger", true);
    while (stage.server->metrics().stalled.value() == 0) co_await sleep_for(stage.core(), 1s);
    stage.network.stall("stranger", false);
    co_await raw.expect_thrown_out();
    EXPECT_EQ(stage.server->metrics().memory_bytes.value(), 0U);
    co_await region->revoke();
    raw.endpoint->free(*memory);
}
TEST(RpcServer, UnservedWindowEndsConnection) { attack(never_served); }

Task<> never_reads(Stage& stage, Raw& raw) {
    co_await raw.enter(stage);
    const std::vector<std::byte> body(60000);
    for (uint64_t i = 0; i < 24; ++i)
        co_await raw.send(raw.request(uint64_t{1} << 16 | i, echo), body);
    while (stage.server->metrics().stalled.value() == 0) co_await sleep_for(stage.core(), 1s);
    while (stage.service.running > 0) co_await sleep_for(stage.core(), 1s);
    co_await raw.expect_thrown_out();
}
TEST(RpcServer, UnreadRepliesEndConnection) { attack(never_reads); }

// All credits, with requests and replies that are larger than what is reserved for them. Memory is
// bounded whatever the number of credits: the client waits, then a reply does, then the connection
// ends.
Task<> all_credits(Stage& stage, Raw& raw) {
    co_await raw.enter(stage);
    const std::vector<std::byte> body(12000);
    Result<> sent;
    uint64_t count = 0;
    for (; sent && count < 4000; ++count) {
        const uint64_t slot = count % ServerOptions().requests_max;
        const uint64_t use = count / ServerOptions().requests_max + 1;
        sent =
            co_await raw.endpoint->send(Raw::frame_of(raw.request(use << 16 | slot, echo), body));
    }
    EXPECT_FALSE(sent);
    if (!sent) EXPECT_EQ(sent.error().code, Code::disconnected);
    co_await raw.expect_thrown_out();
    const uint64_t frames = 2 * 32 * (60 << 10);  // on their way, in both directions
    EXPECT_LE(count * body.size(), ServerOptions::requests_bytes_max +
                                       ServerOptions::replies_bytes_max + frames +
                                       fabric::Limits().incoming_bytes_max);
    EXPECT_EQ(stage.server->metrics().stalled.value(), 1U);
    EXPECT_EQ(stage.server->metrics().over_credit.value(), 0U);
}
TEST(RpcServer, UnreadRepliesOnAllCreditsStayBounded) { attack(all_credits); }

// Requests in progress: the server accepts only as many as their memory allows.
Task<> all_large(Stage& stage, Raw& raw) {
    co_await raw.enter(stage);
    const std::vector<std::byte> body(60000);
    for (uint64_t i = 0; i < ServerOptions().requests_max; ++i) {
        fabric::Deadline soon(stage.core(), stage.core().now() + 1s, {});
        const auto sent = co_await raw.endpoint->send(
            Raw::frame_of(raw.request(uint64_t{1} << 16 | i, wait), body), {}, soon.token());
        co_await soon.finish();
        if (!sent) break;
    }
    EXPECT_GT(stage.service.running, 1U);
    EXPECT_LE(stage.service.running * body.size(), ServerOptions::requests_bytes_max);
    EXPECT_TRUE(raw.endpoint->alive());
}
TEST(RpcServer, LargestRequestsOnAllCreditsStayBounded) { attack(all_large); }

Task<> crowd(Stage& stage, Raw& raw) {
    // One of the connections is the good client's.
    co_await raw.enter(stage);
    Raw late;
    EXPECT_EQ(
        co_await late.connect(stage, Raw::hello_of(stage, {.service = 7, .ticket = "ticket 5000"})),
        Code::denied);
    const auto error = late.refusal();
    EXPECT_TRUE(error && error->code == Code::busy);
    EXPECT_TRUE(as_text(late.verdict).contains("'connections_of_user' under 'service'"))
        << as_text(late.verdict);
    co_await late.leave();
    EXPECT_EQ(stage.server->metrics().refused_busy.value(), 1U);
}
TEST(RpcServer, ConnectionOverLimitIsRefused) {
    attack(crowd, {.connections = {.in_all = 5, .subjects_share = true}});
}

Task<> ended_session(Stage& stage, Raw& raw) {
    co_await raw.enter(stage);
    co_await raw.send(raw.request(uint64_t{1} << 16, wait));
    co_await sleep_for(stage.core(), 1ms);
    EXPECT_EQ(stage.service.running, 1U);
    co_await stage.server->end_session(stage.gate.sessions);
    EXPECT_EQ(stage.service.running, 0U);
    co_await raw.expect_thrown_out();
}
TEST(RpcServer, EndedSessionEndsItsRequests) { attack(ended_session); }

// The client reads nothing, so that its requests wait for room for their replies.
Task<> gone_with_requests(Stage& stage, Raw& raw) {
    co_await raw.enter(stage);
    const std::vector<std::byte> body(4000);
    bool sent = true;
    for (uint64_t i = 0; sent && i < 4000; ++i) {
        const uint64_t slot = i % ServerOptions().requests_max;
        const uint64_t use = i / ServerOptions().requests_max + 1;
        fabric::Deadline soon(stage.core(), stage.core().now() + 1s, {});
        sent = bool(co_await raw.endpoint->send(
            Raw::frame_of(raw.request(use << 16 | slot, echo), body), {}, soon.token()));
        co_await soon.finish();
    }
    EXPECT_FALSE(sent);
    const uint64_t begun = stage.server->metrics().requests.value();
    raw.endpoint->abandon();
    co_await sleep_for(stage.core(), 1s);
    EXPECT_EQ(stage.server->metrics().requests.value(), begun);
    EXPECT_EQ(stage.service.running, 0U);
}
TEST(RpcServer, RequestsOfGoneClientDoNotBegin) { attack(gone_with_requests); }

}  // namespace
}  // namespace ros2s::rpc
