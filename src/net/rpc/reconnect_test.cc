// Connections are lost, servers restart: requests are repeated with their update name, or return
// that they may have been done.
#include <array>

#include "ros2s/runtime/sim/co_test.h"
#include "test_support/rpc.h"

namespace ros2s::rpc {
namespace {

using namespace std::chrono_literals;

struct Outcome {
    bool finished = false;
    Result<> result{};
};

// A request with its own payload and update name; checks the reply.
Task<> send_one(Stage& stage, Channel& channel, TestMethod method, UpdateName id, size_t bytes,
                Outcome& outcome) {
    std::vector<std::byte> memory(bytes), back(bytes);
    fill(memory, id.sequence);
    const std::array<ConstBytes, 1> payload{ConstBytes(memory)};
    const std::array<Bytes, 1> sink{Bytes(back)};
    CopyReply reply(sink);
    const CallRequest request{.method = method, .id = id, .payload = payload, .sink = sink};
    outcome.result = co_await channel.call({}, request, reply);
    outcome.finished = true;
    if (outcome.result) EXPECT_TRUE(reply.payload == memory);
    static_cast<void>(stage);
}

UpdateName operation(const Stage& stage, uint32_t slot, uint64_t sequence) {
    return {.client = stage.channel_options.client, .slot = slot, .sequence = sequence};
}

// ---- lost connections, at every point of a request --------------------------------------------

Task<uint64_t> one_lost_connection(Stage& stage, uint64_t after_bytes) {
    co_await stage.start();
    auto channel = co_await stage.connect();
    EXPECT_TRUE(channel) << stage.report.text();
    if (!channel) co_return 0;
    stage.network.kill_after("client", after_bytes);
    Nursery nursery(stage.core(), 8);
    std::array<Outcome, 8> outcomes;
    for (uint32_t i = 0; i < outcomes.size(); ++i) {
        co_await nursery.spawn(send_one(stage, **channel, count_once, operation(stage, i, 1),
                                        size_t{1} << (2 * i + 2), outcomes[i]));
    }
    co_await nursery.join();
    for (const Outcome& outcome : outcomes) {
        EXPECT_TRUE(outcome.result) << describe(outcome.result.error());
    }
    EXPECT_EQ(stage.service.done.size(), outcomes.size());
    const uint64_t repeated = (*channel)->metrics().requests_repeated.value();
    co_await stage.leave(*channel);
    co_await stage.stop();
    EXPECT_EQ(stage.gate.inside, 0);
    co_return repeated;
}

TEST(Reconnect, AfterLossAtAnyByteRequestsComplete) {
    uint64_t repeated = 0;
    for (uint64_t seed = 1; seed <= 150; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        Stage stage(seed);
        repeated += stage.world.run(one_lost_connection(stage, seed * 700));
    }
    EXPECT_GT(repeated, 100U);
}

// ---- what may not be repeated -----------------------------------------------------------------

CO_TEST(Reconnect, RequestWithoutUpdateNameIsNotRepeated, Stage, stage, 1) {
    co_await stage.start();
    auto channel = co_await stage.connect();
    Outcome plain, named;
    Nursery nursery(stage.core(), 2);
    co_await nursery.spawn(send_one(stage, **channel, stubborn, {}, 10, plain));
    co_await nursery.spawn(send_one(stage, **channel, stubborn, operation(stage, 0, 1), 10, named));
    co_await sleep_for(stage.core(), 5ms);
    stage.network.kill("client");
    co_await sleep_for(stage.core(), 200ms);
    EXPECT_TRUE(plain.finished);
    EXPECT_EQ(plain.result, Result<>(fail(Code::disconnected)));
    EXPECT_FALSE(named.finished);
    stage.service.opened.set();
    co_await nursery.join();
    EXPECT_TRUE(named.result);
    EXPECT_EQ((*channel)->metrics().connections_lost.value(), 1U);
    EXPECT_EQ((*channel)->metrics().connections.value(), 2U);
    EXPECT_EQ((*channel)->metrics().server_restarts.value(), 0U);
    co_await stage.leave(*channel);
    co_await stage.stop();
}

// It waited for a credit when the connection was lost. A store that has no reply for it must not
// take it for one that may have been done.
CO_TEST(Reconnect, UnsentRequestIsNotARepetition, Stage, stage, 1) {
    stage.channel_options.requests_max = 1;
    co_await stage.start();
    auto channel = co_await stage.connect();
    Outcome sent, waiting;
    Nursery nursery(stage.core(), 2);
    co_await nursery.spawn(send_one(stage, **channel, stubborn, operation(stage, 0, 1), 10, sent));
    co_await sleep_for(stage.core(), 5ms);
    co_await nursery.spawn(
        send_one(stage, **channel, count_once, operation(stage, 1, 1), 10, waiting));
    co_await sleep_for(stage.core(), 5ms);
    EXPECT_TRUE(stage.service.done.empty());
    stage.network.kill("client");
    stage.service.opened.set();
    co_await nursery.join();
    EXPECT_TRUE(sent.result);
    EXPECT_TRUE(waiting.result);
    EXPECT_TRUE(stage.service.repeated.contains({0, 1}));
    EXPECT_FALSE(stage.service.repeated.contains({1, 1}));
    co_await stage.leave(*channel);
    co_await stage.stop();
}

// ---- restarts ---------------------------------------------------------------------------------

CO_TEST(Reconnect, RequestWaitsForRestartedServer, Stage, stage, 2) {
    co_await stage.start();
    auto channel = co_await stage.connect();
    Outcome outcome;
    Nursery nursery(stage.core(), 1);
    for (uint64_t round = 1; round <= 5; ++round) {
        stage.network.kill("server");
        co_await stage.stop();
        co_await nursery.spawn(
            send_one(stage, **channel, count_once, operation(stage, 0, round), 100000, outcome));
        co_await sleep_for(stage.core(), 700ms);
        EXPECT_FALSE(outcome.finished);
        co_await stage.start();
        co_await nursery.join();
        EXPECT_TRUE(outcome.result);
        outcome = {};
    }
    EXPECT_EQ((*channel)->metrics().server_restarts.value(), 5U);
    EXPECT_GT((*channel)->metrics().connections_failed.value(), 5U);
    co_await stage.leave(*channel);
    co_await stage.stop();
}

// Between its death and its end it still listens, and a new ticket is valid.
CO_TEST(Reconnect, AbandonedServerBeginsNoRequest, Stage, stage, 8) {
    co_await stage.start();
    auto channel = co_await stage.connect();
    stage.network.kill("server");
    stage.server->abandon();
    Outcome outcome;
    Nursery nursery(stage.core(), 1);
    co_await nursery.spawn(
        send_one(stage, **channel, count_once, operation(stage, 0, 1), 1000, outcome));
    co_await sleep_for(stage.core(), 700ms);
    EXPECT_GT(stage.server->metrics().connections_greeted.value(), 1U) << "nobody came";
    EXPECT_EQ(stage.server->metrics().requests.value(), 0U);
    EXPECT_FALSE(outcome.finished);
    co_await stage.stop();
    co_await stage.start();
    co_await nursery.join();
    EXPECT_TRUE(outcome.result);
    co_await stage.leave(*channel);
    co_await stage.stop();
    EXPECT_EQ(stage.gate.inside, 0);
}

// A server that was restarted elsewhere. Its old address has no listener, or one that admits no
// client.
Task<> moved(Stage& stage, bool another_stands_there) {
    co_await stage.start();
    auto channel = co_await stage.connect();
    co_await stage.stop();
    const auto others_domain = stage.network.open_domain(stage.core(), "another");
    TestService others_service(stage.core());
    TestGate others_gate;
    Result<std::unique_ptr<Server>> another = fail(Code::closed);
    if (another_stands_there) {
        another = co_await Server::listen(stage.core(), *others_domain, "here", others_service,
                                          others_gate, stage.server_options, stage.report);
        EXPECT_TRUE(another) << stage.report.text();
    }
    co_await stage.start("there");
    stage.tickets.moved_to = "there";
    Outcome outcome;
    co_await send_one(stage, **channel, count_once, operation(stage, 0, 1), 1000, outcome);
    EXPECT_TRUE(outcome.result) << describe(outcome.result.error());
    EXPECT_EQ((*channel)->address(), "there");
    EXPECT_TRUE(others_gate.used.empty()) << "a ticket of ours was shown to another server";
    co_await stage.leave(*channel);
    if (another) co_await (*another)->close();
    if (another) another->reset();
    co_await others_domain->close();
    co_await stage.stop();
}
TEST(Reconnect, MovedServerIsFound) {
    for (const bool another_stands_there : {false, true}) {
        SCOPED_TRACE(another_stands_there);
        Stage stage(7);
        stage.world.run(moved(stage, another_stands_there));
    }
}

CO_TEST(Reconnect, AbsentServerTimesOut, Stage, stage, 3) {
    stage.channel_options.absence_errno = absent_behind;
    co_await stage.start();
    auto channel = co_await stage.connect();
    co_await stage.stop();
    const Time begin = stage.core().now();
    Outcome outcome;
    co_await send_one(stage, **channel, echo, operation(stage, 0, 1), 10, outcome);
    EXPECT_TRUE((*channel)->absence());
    if (!(*channel)->absence()) co_return;
    const auto since = std::chrono::floor<std::chrono::seconds>((*channel)->absence()->since);
    EXPECT_EQ(outcome.result,
              Result<>(fail(Error{Code::disconnected, absent_behind,
                                  static_cast<uint64_t>(since.time_since_epoch().count())})));
    EXPECT_FALSE((*channel)->absence()->why.empty());
    EXPECT_GE(stage.core().now() - begin, 30s);
    EXPECT_LT(stage.core().now() - begin, 31s);
    // The waits between attempts have a bound, and so has their number.
    EXPECT_LT((*channel)->metrics().connections_failed.value(), 80U);
    EXPECT_GT((*channel)->metrics().connections_failed.value(), 30U);
    co_await stage.start();
    co_await send_one(stage, **channel, echo, operation(stage, 0, 2), 10, outcome);
    EXPECT_TRUE(outcome.result);
    EXPECT_FALSE((*channel)->absence());
    co_await stage.leave(*channel);
    co_await stage.stop();
}

CO_TEST(Reconnect, DrainAnswersBegunRequests, Stage, stage, 4) {
    co_await stage.start();
    auto channel = co_await stage.connect();
    Outcome outcome;
    Nursery nursery(stage.core(), 1);
    co_await nursery.spawn(send_one(stage, **channel, echo, {}, 300000, outcome));
    co_await sleep_for(stage.core(), 40us);
    EXPECT_EQ(stage.service.running, 1U);
    co_await stage.stop();  // without an update name: only a reply makes it succeed
    co_await nursery.join();
    EXPECT_TRUE(outcome.result) << describe(outcome.result.error());
    co_await stage.leave(*channel);
}

// ---- refusals ---------------------------------------------------------------------------------

// The server was restarted after it had given the ticket, and does not know it.
CO_TEST(Reconnect, TicketFromBeforeRestartIsReplaced, Stage, stage, 12) {
    co_await stage.start();
    auto channel = co_await stage.connect();
    stage.tickets.too_old = 1;
    stage.network.kill("client");
    Outcome outcome;
    co_await send_one(stage, **channel, echo, operation(stage, 0, 1), 10, outcome);
    EXPECT_TRUE(outcome.result) << describe(outcome.result.error());
    EXPECT_EQ(stage.tickets.too_old, 0U);
    co_await stage.leave(*channel);
    co_await stage.stop();
}

// The client's session has ended, or shows a capability that is out of date.
CO_TEST(Reconnect, OutdatedSessionOrCapabilityIsAwaited, Stage, stage, 13) {
    co_await stage.start();
    auto channel = co_await stage.connect();
    stage.tickets.outdated = 5;
    stage.network.kill("client");
    Outcome outcome;
    co_await send_one(stage, **channel, echo, operation(stage, 0, 1), 10, outcome);
    EXPECT_TRUE(outcome.result) << describe(outcome.result.error());
    EXPECT_EQ(stage.tickets.outdated, 0U);
    // There is no other one.
    stage.tickets.outdated = UINT64_MAX;
    stage.network.kill("client");
    const Time begin = stage.core().now();
    co_await send_one(stage, **channel, echo, operation(stage, 0, 2), 10, outcome);
    const auto is_absent = [&outcome] {
        return !outcome.result && outcome.result.error().code == Code::disconnected;
    };
    EXPECT_TRUE(is_absent());
    EXPECT_GE(stage.core().now() - begin, ChannelOptions::renewal_within);
    co_await send_one(stage, **channel, echo, operation(stage, 0, 3), 10, outcome);
    EXPECT_TRUE(is_absent());
    EXPECT_LT(stage.core().now() - begin, 2 * ChannelOptions::renewal_within);
    // There is one now.
    stage.tickets.outdated = 1;
    (*channel)->try_again();
    co_await send_one(stage, **channel, echo, operation(stage, 0, 4), 10, outcome);
    EXPECT_TRUE(outcome.result) << describe(outcome.result.error());
    // The server is away in between: the time begins anew.
    stage.tickets.outdated = 1;
    co_await stage.stop();
    Nursery nursery(stage.core(), 1);
    co_await nursery.spawn(send_one(stage, **channel, echo, operation(stage, 0, 5), 10, outcome));
    co_await sleep_for(stage.core(), 2 * ChannelOptions::renewal_within);
    EXPECT_EQ(stage.tickets.outdated, 0U);
    stage.tickets.outdated = 1;
    co_await stage.start();
    co_await nursery.join();
    EXPECT_TRUE(outcome.result) << describe(outcome.result.error());
    // There will be no other one.
    stage.tickets.outdated = UINT64_MAX;
    (*channel)->expect_no_reconnect();
    stage.network.kill("client");
    const Time then = stage.core().now();
    co_await send_one(stage, **channel, echo, operation(stage, 0, 6), 10, outcome);
    EXPECT_TRUE(is_absent());
    EXPECT_LT(stage.core().now() - then, 1s);
    co_await stage.leave(*channel);
    co_await stage.stop();
}

CO_TEST(Reconnect, RefusedTicketIsNotRetried, Stage, stage, 5) {
    co_await stage.start();
    auto channel = co_await stage.connect();
    stage.tickets.prefix = "forged ";
    stage.network.kill("client");
    Outcome outcome;
    const Time begin = stage.core().now();
    co_await send_one(stage, **channel, echo, operation(stage, 0, 1), 10, outcome);
    EXPECT_EQ(outcome.result, Result<>(fail(Code::denied)));
    EXPECT_LT(stage.core().now() - begin, 1s);
    // The control plane gives valid tickets again: it recovers by itself.
    stage.tickets.prefix = "ticket ";
    while (!(*channel)->is_connected()) co_await sleep_for(stage.core(), 100ms);
    co_await send_one(stage, **channel, echo, operation(stage, 0, 1), 10, outcome);
    EXPECT_TRUE(outcome.result);
    co_await stage.leave(*channel);
    co_await stage.stop();
}

CO_TEST(Reconnect, RefusedConnectionIsExplained, Stage, stage, 6) {
    auto nobody = co_await stage.connect();
    EXPECT_FALSE(nobody);
    if (!nobody) EXPECT_EQ(nobody.error().code, Code::disconnected);
    co_await stage.start();
    const auto expect_refused = [&stage](const auto& opened, Code code, std::string_view word) {
        EXPECT_FALSE(opened);
        if (!opened) EXPECT_EQ(opened.error().code, code);
        EXPECT_NE(stage.report.text().find(word), std::string::npos) << stage.report.text();
        stage.report = {};
    };
    stage.report = {};
    stage.tickets.prefix = "forged ";
    expect_refused(co_await stage.connect(), Code::denied, "ticket");
    stage.tickets.prefix = "ticket ";
    stage.tickets.number = 0;
    stage.gate.used.insert("ticket 1");
    expect_refused(co_await stage.connect(), Code::denied, "ticket");
    stage.tickets.valid = false;
    expect_refused(co_await stage.connect(), Code::denied, "no tickets");
    stage.tickets.valid = true;
    stage.channel_options.service = 9;
    expect_refused(co_await stage.connect(), Code::unsupported, "service 9");
    EXPECT_EQ(stage.server->metrics().refused_ticket.value(), 2U);
    EXPECT_EQ(stage.server->metrics().connections_greeted.value(), 0U);
    std::unique_ptr<Channel> none;
    co_await stage.leave(none);
    co_await stage.stop();
}

// ---- anything goes ----------------------------------------------------------------------------

Task<> one_client(Stage& stage, Channel& channel, uint32_t slot, Random random) {
    for (uint64_t sequence = 1; sequence <= 12; ++sequence) {
        Outcome outcome;
        const size_t bytes = random.below(3) == 0 ? random.below(400000) : random.below(9000);
        co_await send_one(stage, channel, count_once, operation(stage, slot, sequence), bytes,
                          outcome);
        EXPECT_TRUE(outcome.result) << describe(outcome.result.error());
    }
}

Task<> trouble(Stage& stage, Random random, const bool& over) {
    while (!over) {
        co_await sleep_for(stage.core(), std::chrono::microseconds(random.below(3000)));
        const std::string who = random.one_in(2) ? "client" : "server";
        if (random.one_in(3)) {
            co_await stage.stop();
            co_await sleep_for(stage.core(), std::chrono::milliseconds(random.below(60)));
            co_await stage.start();
        } else if (random.one_in(2)) {
            stage.network.kill(who);
        } else {
            stage.network.stall(who, true);
            co_await sleep_for(stage.core(), std::chrono::milliseconds(random.below(60)));
            stage.network.stall(who, false);
        }
    }
}

Task<uint64_t> all_of_it(Stage& stage, uint64_t seed) {
    Random random(seed);
    co_await stage.start();
    auto channel = co_await stage.connect();
    bool over = false;
    Nursery troubles(stage.core(), 1), clients(stage.core(), 6);
    co_await troubles.spawn(trouble(stage, Random(random.next()), over));
    for (uint32_t slot = 0; slot < 6; ++slot) {
        co_await clients.spawn(one_client(stage, **channel, slot, Random(random.next())));
    }
    co_await clients.join();
    over = true;
    co_await troubles.join();
    EXPECT_EQ(stage.service.done.size(), 6U * 12);
    const uint64_t repeated = (*channel)->metrics().requests_repeated.value();
    co_await stage.leave(*channel);
    co_await stage.stop();
    EXPECT_EQ(stage.gate.inside, 0);
    co_return repeated;
}
TEST(Reconnect, RandomLossesRestartsAndStallsAreSurvived) {
    uint64_t repeated = 0;
    for (uint64_t seed = 1; seed <= 30; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        Stage stage(seed);
        stage.server_options.requests_max = 3;
        repeated += stage.world.run(all_of_it(stage, seed));
    }
    EXPECT_GT(repeated, 30U);
}

}  // namespace
}  // namespace ros2s::rpc
