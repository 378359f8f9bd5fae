// A listener whose library can accept no further connection.
#include "ros2s/fabric/lanes/lane_domain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ros2s/fabric/lanes/greeting.h"
#include "ros2s/fabric/socket/socket_listener.h"
#include "ros2s/runtime/test_support/made_reactor.h"
#include "test_support/silent_worker.h"

namespace ros2s::fabric::lanes {
namespace {

class FullWorker final : public SilentWorker {
  public:
    using SilentWorker::SilentWorker;
    Result<std::unique_ptr<Lane>> open_lane(const Ends& /*ends*/, LaneUser& /*user*/) override {
        return fail(Code::no_memory);
    }
};

Task<> connect_to_a_full_one(Reactor& reactor) {
    const auto domain = [&] {
        return make_domain(
            reactor, {.provider = "full", .device = "none"},
            [&](Counters& counters) { return std::make_unique<FullWorker>(reactor, counters); });
    };
    const auto server = domain(), client = domain();
    Report report;
    const auto listener = co_await server->listen("127.0.0.1:0", {}, report);
    EXPECT_TRUE(listener) << report.text();
    if (!listener) co_return;
    const auto made = co_await client->connect((*listener)->address(), {}, report);
    // A client that reconnects tries again; a refusal is final.
    EXPECT_EQ(made.error().code, Code::no_memory);
    EXPECT_THAT(report.text(), testing::HasSubstr("has no memory left for another connection"));
    co_await (*listener)->close();
    co_await client->close();
    co_await server->close();
}
TEST(LaneDomain, FullListenerAnswersOutOfMemory) {
    const auto reactor = made_reactor();
    reactor->run(connect_to_a_full_one(*reactor));
}

// Counts the connections that it is asked for.
class AskedWorker final : public SilentWorker {
  public:
    AskedWorker(Reactor& reactor, Counters& counters, int& asked)
        : SilentWorker(reactor, counters), asked_(asked) {}
    Result<std::unique_ptr<Lane>> open_lane(const Ends& /*ends*/, LaneUser& /*user*/) override {
        ++asked_;
        return fail(Code::no_memory);
    }

  private:
    int& asked_;
};

class OneTicket final : public PeerCheck {
  public:
    Verdict admit(uint64_t /*session*/, ConstBytes credential, const Peer& /*peer*/) override {
        return {.admitted = as_text(credential) == "ticket" && !std::exchange(used_, true),
                .said = {}};
    }
    void withdraw(uint64_t /*session*/) noexcept override { ++withdrawn; }
    int withdrawn = 0;

  private:
    bool used_ = false;
};

// A peer that sends its library's address, whatever the answer is.
Task<> say_where(Reactor& reactor, std::string address, std::string_view credential) {
    Report report;
    auto socket = co_await connect_to(reactor, address, {}, report);
    EXPECT_TRUE(socket) << report.text();
    if (!socket) co_return;
    const ConstBytes shown = as_bytes(credential);
    Hello hello{.message_bytes_max = 65536, .incoming_bytes_max = 1 << 20, .operations_max = 1};
    hello.set_provider("asked");
    (void)co_await ask_admission(reactor, socket->get(), hello, address,
                                 {.credential = {shown.begin(), shown.end()}}, {}, report);
    const auto greeting = encode_greeting(7, as_bytes("here"));
    hello.appended_bytes = static_cast<uint32_t>(greeting.size());
    hello.seal();
    (void)co_await send_all(reactor, socket->get(), object_bytes(hello), {});
    (void)co_await send_all(reactor, socket->get(), greeting, {});
    std::array<std::byte, 1> rest{};
    while (co_await receive_all(reactor, socket->get(), rest, {})) {
    }
}

Task<> strangers_say_where_they_are(Reactor& reactor) {
    int asked = 0;
    OneTicket peer_check;
    const auto server =
        make_domain(reactor, {.provider = "asked", .device = "none"}, [&](Counters& counters) {
            return std::make_unique<AskedWorker>(reactor, counters, asked);
        });
    Report report;
    const auto listener =
        co_await server->listen("127.0.0.1:0", {.peer_check = &peer_check}, report);
    EXPECT_TRUE(listener) << report.text();
    if (!listener) co_return;
    for (const char* credential : {"", "forged"}) {
        co_await say_where(reactor, (*listener)->address(), credential);
        EXPECT_EQ(asked, 0) << credential;
    }
    EXPECT_EQ(server->counters().handshakes_refused.value(), 2U);
    co_await say_where(reactor, (*listener)->address(), "ticket");
    EXPECT_EQ(asked, 1);
    EXPECT_EQ(peer_check.withdrawn, 1) << "it could not be set up";
    co_await say_where(reactor, (*listener)->address(), "ticket");
    EXPECT_EQ(asked, 1) << "a ticket is for one connection";
    co_await (*listener)->close();
    co_await server->close();
}
TEST(LaneDomain, PeerWithoutTicketNeverReachesLibrary) {
    const auto reactor = made_reactor();
    reactor->run(strangers_say_where_they_are(*reactor));
}

}  // namespace
}  // namespace ros2s::fabric::lanes
