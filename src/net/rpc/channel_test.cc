// Requests over the simulated network: payload of all sizes, credits, deadlines, cancellation.
#include "channel.h"

#include <algorithm>
#include <array>

#include "test_support/rpc.h"

namespace ros2s::rpc {
namespace {

using namespace std::chrono_literals;

// Runs a test's body between a server's start and stop, with a channel.
struct Connected : Stage {
    using Stage::Stage;
    std::unique_ptr<Channel> channel;
    void run(Task<> (*body)(Connected&)) { world.run(whole(*this, body)); }
    static Task<> whole(Connected& self, Task<> (*body)(Connected&)) {
        co_await self.start();
        auto connected = co_await self.connect();
        EXPECT_TRUE(connected) << self.report.text();
        if (connected) {
            self.channel = std::move(*connected);
            co_await body(self);
        }
        co_await self.leave(self.channel);
        co_await self.stop();
        EXPECT_EQ(self.gate.inside, 0);
    }
};

// ---- payload --------------------------------------------------------------------------------

// Splits memory into `count` pieces, with a byte between them.
std::vector<Bytes> pieces_of(std::vector<std::byte>& memory, size_t bytes, size_t count) {
    memory.resize(bytes + count);
    std::vector<Bytes> pieces;
    size_t at = 0, done = 0;
    for (size_t i = 0; i < count; ++i) {
        const size_t size = (bytes - done) / (count - i);
        pieces.push_back(Bytes(memory).subspan(at, size));
        at += size + 1;
        done += size;
    }
    return pieces;
}

std::vector<std::byte> gather(std::span<const Bytes> pieces) {
    std::vector<std::byte> all;
    for (const Bytes piece : pieces) all.insert(all.end(), piece.begin(), piece.end());
    return all;
}

Task<Reply::Payload> echo_once(Connected& stage, size_t bytes, size_t pieces, size_t body_bytes) {
    std::vector<std::byte> source_memory, sink_memory, body(body_bytes);
    const std::vector<Bytes> source = pieces_of(source_memory, bytes, pieces);
    for (size_t i = 0; i < source.size(); ++i) fill(source[i], i);
    fill(body, 99);
    const std::vector<ConstBytes> payload(source.begin(), source.end());
    const std::vector<Bytes> sink = pieces_of(sink_memory, bytes, pieces);
    const CallRequest request{.method = echo,
                              .repeatable = true,
                              .body = body,
                              .payload = payload,
                              .sink = sink,
                              .reply_body_bytes_max = body_bytes};
    CopyReply reply(sink);
    const Result<> called = co_await stage.channel->call({}, request, reply);
    EXPECT_TRUE(called) << describe(called.error()) << " " << bytes << " in " << pieces;
    EXPECT_TRUE(reply.body == body);
    EXPECT_TRUE(reply.payload == gather(source)) << bytes << " in " << pieces;
    co_return reply.where;
}

Task<> echo_all_sizes(Connected& stage) {
    for (const size_t bytes : {0, 1, 100, 4096, 15000, 16384, 65536, 1048579, 20 << 20}) {
        for (const size_t pieces : {1, 3, 8, 9, 20}) {
            const auto where = co_await echo_once(stage, bytes, pieces, 40);
            if (bytes == 4096) EXPECT_EQ(where, Reply::Payload::placed);
            if (bytes >= 16384 && pieces <= windows_max) {
                EXPECT_EQ(where, Reply::Payload::placed);
            }
            if (bytes >= 16384 && pieces > windows_max) EXPECT_EQ(where, Reply::Payload::staged);
        }
    }
    const ChannelMetrics& metrics = stage.channel->metrics();
    EXPECT_GT(metrics.inline_bytes.value(), 0U);
    EXPECT_GT(metrics.window_bytes.value(), 40U << 20);
    EXPECT_GT(metrics.staged_bytes.value(), 40U << 20);
    EXPECT_EQ(stage.server->metrics().memory_bytes.value(), 0U);
}
TEST(Channel, PayloadOfAnySizeRoundTrips) { Connected(1).run(echo_all_sizes); }

// Payload in the reply's frame is copied directly to the sink if it fills the sink, and if the rest
// of the frame is short. Any other payload is given to the reader in place.
Task<> read_where_it_arrives(Connected& stage) {
    for (const size_t pieces : {1, 3}) {
        EXPECT_EQ(co_await echo_once(stage, 4096, pieces, 40), Reply::Payload::placed);
        EXPECT_EQ(co_await echo_once(stage, 4096, pieces, 1000), Reply::Payload::inline_);
    }
    std::vector<std::byte> source(4096), memory;
    fill(source, 3);
    const std::array<ConstBytes, 1> payload{source};
    const std::vector<Bytes> sink = pieces_of(memory, 8192, 2);
    CopyReply reply(sink);
    const CallRequest request{.method = echo, .payload = payload, .sink = sink};
    EXPECT_TRUE(co_await stage.channel->call({}, request, reply));
    EXPECT_EQ(reply.where, Reply::Payload::inline_);
    EXPECT_TRUE(reply.payload == source);
    EXPECT_EQ(stage.channel->metrics().window_bytes.value(), 0U);
    EXPECT_EQ(stage.channel->metrics().inline_bytes.value(), 10U * 4096);
}
TEST(Channel, PayloadIsReadInPlace) { Connected(1).run(read_where_it_arrives); }

Task<> echo_bodies(Connected& stage) {
    for (const size_t body : {0, 1, 10000, 16384, 100000, 250000}) {
        (void)co_await echo_once(stage, 0, 1, body);
        (void)co_await echo_once(stage, 100000, 2, body);
    }
    // More than the client accepts in one message.
    std::vector<std::byte> body(300000);
    ReadNothing reader;
    Report report;
    const CallRequest request{.method = echo, .body = body, .report = &report};
    const Result<> called = co_await stage.channel->call({}, request, reader);
    EXPECT_FALSE(called);
    if (!called) EXPECT_EQ(called.error().code, Code::too_large);
    EXPECT_FALSE(report.text().empty());
    body.resize(body_bytes_max + 1);
    const CallRequest larger{.method = echo, .body = body};
    EXPECT_EQ(co_await stage.channel->call({}, larger, reader),
              Result<>(fail(Code::too_large, body_bytes_max)));
}
TEST(Channel, BodyOfAnySizeRoundTrips) { Connected(2).run(echo_bodies); }

Task<> too_much(Connected& stage) {
    std::vector<std::byte> memory((64 << 20) + 1);
    const std::array<ConstBytes, 1> payload{ConstBytes(memory)};
    const std::array<Bytes, 1> sink{Bytes(memory)};
    ReadNothing reader;
    const Result<> refused(fail(Code::too_large, 64 << 20));
    EXPECT_EQ(co_await stage.channel->call({}, {.method = echo, .payload = payload}, reader),
              refused);
    EXPECT_EQ(co_await stage.channel->call({}, {.method = echo, .sink = sink}, reader), refused);
}
TEST(Channel, OversizedPayloadIsRefusedLocally) { Connected(3).run(too_much); }

Task<> little_staging(Connected& stage) {
    struct One {
        static Task<> run(Connected& where, int& done) {
            co_await echo_once(where, 700000, 20, 10);
            ++done;
        }
    };
    int done = 0;
    Nursery nursery(stage.core(), 20);
    for (int i = 0; i < 20; ++i) co_await nursery.spawn(One::run(stage, done));
    co_await nursery.join();
    EXPECT_EQ(done, 20);
    // More than the total.
    std::vector<std::byte> memory;
    const std::vector<Bytes> sink = pieces_of(memory, 3 << 20, 20);
    ReadNothing reader;
    const Result<> called =
        co_await stage.channel->call({}, {.method = echo, .sink = sink}, reader);
    EXPECT_EQ(called, Result<>(fail(Code::no_memory, 2 << 20)));
}
TEST(Channel, RequestsWaitForStagingMemory) {
    Connected stage(4);
    stage.channel_options.staging_bytes_max = 2 << 20;
    stage.run(little_staging);
}

// ---- credits --------------------------------------------------------------------------------

Task<> call_many(Connected& stage) {
    struct One {
        static Task<> run(Connected& where, int number, int& done) {
            co_await echo_once(where, static_cast<size_t>(number) * 997, 1, 16);
            ++done;
        }
    };
    int done = 0;
    Nursery nursery(stage.core(), 300);
    for (int i = 0; i < 300; ++i) co_await nursery.spawn(One::run(stage, i, done));
    co_await nursery.join();
    EXPECT_EQ(done, 300);
    EXPECT_EQ(stage.service.running_max, 4U);
}
TEST(Channel, RequestsAreLimitedByCredits) {
    Connected stage(5);
    stage.server_options.requests_max = 5;  // one of them for requests for which others wait
    stage.run(call_many);
}

// A server may grant more than the client wants to use.
TEST(Channel, RequestsAreLimitedByClientOption) {
    Connected stage(5);
    stage.channel_options.requests_max = 4;
    stage.run(call_many);
}

Task<> narrow_memory(Connected& stage) {
    co_await call_many(stage);
    EXPECT_EQ(stage.server->metrics().memory_bytes.value(), 0U);
}
TEST(Channel, ServerWithLittleMemoryServesInTurn) {
    Connected stage(6);
    stage.server_options.requests_max = 5;
    stage.server_options.admission.all.bytes = 300000;
    stage.server_options.admission.line_bytes = 300000;
    stage.run(narrow_memory);
}

Task<> call_beside_waiting(Connected& stage) {
    struct One {
        static Task<> run(Connected& where, uint16_t method, int& done) {
            ReadNothing reader;
            EXPECT_TRUE(co_await where.channel->call(
                {}, {.method = method, .is_awaited = method == awaited}, reader));
            ++done;
        }
    };
    int waited = 0, done = 0;
    Nursery nursery(stage.core(), 100);
    for (int i = 0; i < 50; ++i) co_await nursery.spawn(One::run(stage, stubborn, waited));
    co_await sleep_for(stage.core(), 10ms);
    for (int i = 0; i < 10; ++i) co_await nursery.spawn(One::run(stage, awaited, done));
    co_await sleep_for(stage.core(), 10ms);
    EXPECT_EQ(done, 10);
    EXPECT_EQ(waited, 0);
    stage.service.opened.set();
    co_await nursery.join();
    EXPECT_EQ(waited, 50);
    EXPECT_LE(stage.service.running_max, stage.server_options.requests_max);
}
TEST(Channel, AwaitedRequestsGoWhenAllCreditsAreTaken) {
    Connected stage(5);
    stage.server_options.requests_max = 8;
    stage.run(call_beside_waiting);
}

// At the server, too: others of the tenant are inside as long as they wait.
TEST(Channel, AwaitedRequestsTakeNoTurn) {
    Connected stage(5);
    stage.server_options.requests_max = 80;
    stage.server_options.admission.all.requests = 4;
    stage.server_options.admission.one.requests = 4;
    stage.run(call_beside_waiting);
}

// ---- failures -------------------------------------------------------------------------------

Task<> failures(Connected& stage) {
    ReadNothing reader;
    Report report;
    const Result<> called =
        co_await stage.channel->call({}, {.method = refuse, .report = &report}, reader);
    EXPECT_EQ(called, Result<>(fail(Error{Code::no_space, 28, 5})));
    EXPECT_EQ(report.text(), "there is no room");
    EXPECT_EQ(co_await stage.channel->call({}, {.method = 77}, reader),
              Result<>(fail(Code::unsupported)));
}
TEST(Channel, ErrorKeepsCodeDetailAndText) { Connected(7).run(failures); }

// ---- giving up ------------------------------------------------------------------------------

Task<> deadlines(Connected& stage) {
    ReadNothing reader;
    const Time begin = stage.core().now();
    const Call call{.deadline = begin + 100ms};
    EXPECT_EQ(co_await stage.channel->call(call, {.method = wait}, reader),
              Result<>(fail(Code::deadline)));
    EXPECT_GE(stage.core().now(), begin + 100ms);
    EXPECT_LT(stage.core().now(), begin + 600ms);
    EXPECT_EQ(stage.service.stopped, 1U);
    // A call that is over before it begins sends nothing.
    EXPECT_EQ(co_await stage.channel->call(call, {.method = echo}, reader),
              Result<>(fail(Code::deadline)));
    EXPECT_EQ(stage.server->metrics().requests.value(), 1U);
}
TEST(Channel, DeadlineEndsRequestAtServer) { Connected(8).run(deadlines); }

struct Cancelled {
    static Task<> run(Connected& stage, const Call& call, TestMethod method, Bytes memory,
                      Result<>& result) {
        const std::array<Bytes, 1> sink{memory};
        const std::array<ConstBytes, 1> payload{memory};
        ReadNothing reader;
        const CallRequest request{.method = method, .payload = payload, .sink = sink};
        result = co_await stage.channel->call(call, request, reader);
    }
};

// The memory belongs to the caller again when call() returns: a late reply does not change it. The
// reply returns its credit, of which there is one here.
Task<> late_reply(Connected& stage) {
    StopSource source;
    const Call call{.stop = source.token()};
    Result<> result;
    std::vector<std::byte> memory(4096);
    Nursery nursery(stage.core(), 1);
    co_await nursery.spawn(Cancelled::run(stage, call, stubborn, memory, result));
    co_await sleep_for(stage.core(), 10ms);
    EXPECT_EQ(stage.service.running, 1U);
    source.request_stop();
    co_await nursery.join();
    EXPECT_EQ(result, Result<>(fail(Code::cancelled)));
    fill(memory, 5);
    const std::vector<std::byte> expected = memory;
    stage.service.opened.set();
    co_await sleep_for(stage.core(), 100ms);
    EXPECT_EQ(stage.service.running, 0U);
    EXPECT_TRUE(memory == expected);
    EXPECT_EQ(co_await echo_once(stage, 4096, 1, 40), Reply::Payload::placed);
}
TEST(Channel, LateReplyLeavesMemoryUnchanged) {
    Connected stage(10);
    stage.server_options.requests_max = 1;
    stage.run(late_reply);
}

Task<> cancellation(Connected& stage) {
    StopSource source;
    const Call call{.stop = source.token()};
    Result<> result;
    std::vector<std::byte> memory(100000);
    Nursery nursery(stage.core(), 1);
    co_await nursery.spawn(Cancelled::run(stage, call, wait, memory, result));
    co_await sleep_for(stage.core(), 10ms);
    EXPECT_EQ(stage.service.running, 1U);
    source.request_stop();
    co_await nursery.join();
    EXPECT_EQ(result, Result<>(fail(Code::cancelled)));
    EXPECT_EQ(stage.service.stopped, 1U);
    EXPECT_EQ(stage.server->metrics().cancels.value(), 1U);
}
TEST(Channel, CancelledRequestEndsWithItsReply) { Connected(9).run(cancellation); }

// The server goes on. The memory is the caller's again, but the credit is not returned until the
// reply comes.
Task<> fence(Connected& stage) {
    StopSource source;
    const Call call{.stop = source.token()};
    Result<> result;
    std::vector<std::byte> memory(100000, std::byte{1});
    Nursery nursery(stage.core(), 1);
    co_await nursery.spawn(Cancelled::run(stage, call, stubborn, memory, result));
    co_await sleep_for(stage.core(), 10ms);
    source.request_stop();
    co_await nursery.join();
    EXPECT_EQ(result, Result<>(fail(Code::cancelled)));
    EXPECT_EQ(stage.channel->metrics().requests_given_up.value(), 1U);
    EXPECT_EQ(stage.service.running, 1U);
    std::ranges::fill(memory, std::byte{2});
    // The only credit is still in use.
    ReadNothing reader;
    const Call impatient{.deadline = stage.core().now() + 50ms};
    EXPECT_EQ(co_await stage.channel->call(impatient, {.method = refuse}, reader),
              Result<>(fail(Code::deadline)));
    stage.service.opened.set();
    EXPECT_EQ(co_await stage.channel->call({}, {.method = refuse}, reader),
              Result<>(fail(Error{Code::no_space, 28, 5})));
    EXPECT_TRUE(std::ranges::all_of(memory, [](std::byte b) { return b == std::byte{2}; }));
}
TEST(Channel, CancelledRequestReturnsMemoryToCaller) {
    Connected stage(10);
    stage.server_options.requests_max = 1;
    stage.run(fence);
}

// A server that does not reply, or whose process is stopped, keeps its connection. The request ends
// at the client's limit, and a late reply does not change the memory.
Task<> silent(Connected& stage, bool stalls) {
    std::vector<std::byte> memory(100000, std::byte{1});
    Result<> result;
    const Time begin = stage.core().now();
    if (stalls) stage.network.stall("server", true);
    co_await Cancelled::run(stage, {}, stubborn, memory, result);
    EXPECT_EQ(result, Result<>(fail(Code::deadline, 5)));
    EXPECT_GE(stage.core().now() - begin, 5s);
    EXPECT_LT(stage.core().now() - begin, 7s);
    std::ranges::fill(memory, std::byte{2});
    stage.network.stall("server", false);
    stage.service.opened.set();
    co_await sleep_for(stage.core(), 100ms);
    EXPECT_EQ(stage.service.running, 0U);
    EXPECT_TRUE(std::ranges::all_of(memory, [](std::byte b) { return b == std::byte{2}; }));
    // Others have the same connection, and their own deadlines if those are earlier.
    EXPECT_EQ(co_await echo_once(stage, 4096, 1, 40), Reply::Payload::placed);
    EXPECT_EQ(stage.channel->metrics().connections.value(), 1U);
    stage.network.stall("server", true);
    const Call call{.deadline = stage.core().now() + 1s};
    co_await Cancelled::run(stage, call, echo, memory, result);
    EXPECT_EQ(result, Result<>(fail(Code::deadline)));
    stage.network.stall("server", false);
}
Task<> silent_service(Connected& stage) { return silent(stage, false); }
Task<> silent_process(Connected& stage) { return silent(stage, true); }
TEST(Channel, SilentServerEndsRequestAtClientLimit) {
    for (const auto run : {silent_service, silent_process}) {
        Connected stage(13);
        stage.channel_options.call_within = 5s;
        stage.run(run);
    }
}

// A reply returns its credit, whatever the service does afterwards.
Task<> answers_and_goes_on(Connected& stage) {
    ReadNothing reader;
    for (int i = 0; i < 10; ++i) {
        EXPECT_TRUE(co_await stage.channel->call({}, {.method = dawdle}, reader));
    }
    EXPECT_EQ(stage.channel->metrics().connections.value(), 1U);
    EXPECT_EQ(stage.server->metrics().over_credit.value(), 0U);
    EXPECT_LE(stage.service.running_max, 4U);
}
TEST(Channel, ReplyFreesItsCredit) {
    Connected stage(12);
    stage.server_options.requests_max = 2;
    stage.run(answers_and_goes_on);
}

// ---- the end --------------------------------------------------------------------------------

Task<> close_with_calls(Connected& stage) {
    std::vector<std::byte> memory(100000);
    std::array<Result<>, 8> results;
    Nursery nursery(stage.core(), 8);
    for (Result<>& result : results) {
        co_await nursery.spawn(Cancelled::run(stage, {}, wait, memory, result));
    }
    co_await sleep_for(stage.core(), 10ms);
    co_await stage.channel->close();
    co_await nursery.join();
    for (const Result<>& result : results) EXPECT_EQ(result, Result<>(fail(Code::closed)));
    ReadNothing reader;
    EXPECT_EQ(co_await stage.channel->call({}, {.method = echo}, reader),
              Result<>(fail(Code::closed)));
}
TEST(Channel, CloseEndsOutstandingRequests) {
    Connected stage(11);
    stage.server_options.requests_max = 3;
    stage.run(close_with_calls);
}

}  // namespace
}  // namespace ros2s::rpc
