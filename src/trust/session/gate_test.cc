// Tickets at a listener of the data plane, over the simulated network.
#include "gate.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ros2s/fabric/sim/network.h"
#include "ros2s/rpc/channel.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/sim/world.h"

namespace ros2s::session {
namespace {

using namespace std::chrono_literals;

class Greeter final : public rpc::Service {
  public:
    [[nodiscard]] uint32_t number() const override { return 1; }
    Task<> serve(rpc::Request& request) override {
        tenant = request.call().tenant;
        co_await request.reply({});
    }
    uint64_t tenant = 0;
};

class ReadNothing final : public rpc::ReplyReader {
  public:
    Result<> read(const rpc::Reply&) override { return {}; }
};

// Issues tickets without a control plane.
class Issuer final : public rpc::TicketSource {
  public:
    explicit Issuer(SessionTable& sessions) : sessions_(sessions) {}
    Task<Result<std::string>> take(Report& report) override {
        const auto use = sessions_.find(session, "alice");
        if (!use) co_return report.fail(Code::denied, "the session has ended");
        ROS2S_CO_TRY_ASSIGN(const IssuedTicket issued, sessions_.issue_ticket(**use));
        co_return std::string(issued.ticket.view());
    }
    SessionId session{};

  private:
    SessionTable& sessions_;
};

struct Stage {
    Stage() : network(world.random()) {
        client.bytes[0] = 5;
        auto opened = sessions.open({.subject = "alice", .client = client, .pool = "pool"});
        EXPECT_TRUE(opened);
        if (opened) issuer.session = (*opened)->id;
    }
    Task<Result<std::unique_ptr<rpc::Channel>>> connect(const Uuid& who) {
        co_return co_await rpc::Channel::open(world.core(), *domain, "here", issuer,
                                              {.service = 1, .client = who}, report);
    }
    void run(Task<> (*body)(Stage&)) { world.run(whole(*this, body)); }
    static Task<> whole(Stage& self, Task<> (*body)(Stage&)) {
        self.server_domain = self.network.open_domain(self.world.core(), "server");
        self.domain = self.network.open_domain(self.world.core(), "client");
        auto listening =
            co_await rpc::Server::listen(self.world.core(), *self.server_domain, "here",
                                         self.greeter, self.gate, {}, self.report);
        EXPECT_TRUE(listening) << self.report.text();
        self.gate.add(**listening);
        co_await body(self);
        self.gate.remove(**listening);
        co_await (*listening)->close();
        co_await self.domain->close();
        co_await self.server_domain->close();
        co_await self.sessions.close_all();
    }

    sim::World world{1};
    fabric::sim::Network network;
    TicketTable tickets{world.core(), {}};
    SessionTable sessions{world.core(), tickets, {}};
    SessionGate gate{sessions, Purpose::store};
    Issuer issuer{sessions};
    Greeter greeter;
    Uuid client;
    Report report;
    std::unique_ptr<fabric::Domain> server_domain, domain;
};

Task<> let_in(Stage& stage) {
    auto channel = co_await stage.connect(stage.client);
    EXPECT_TRUE(channel) << stage.report.text();
    if (!channel) co_return;
    ReadNothing reader;
    EXPECT_TRUE(co_await (*channel)->call({}, {.method = 1}, reader));
    EXPECT_EQ(stage.greeter.tenant, 1U);
    EXPECT_EQ(stage.sessions.all().front()->connections, 1U);
    // A connection that is opened again has a new ticket.
    stage.network.kill("client");
    EXPECT_TRUE(co_await (*channel)->call({}, {.method = 1, .repeatable = true}, reader));
    EXPECT_EQ(stage.tickets.metrics().redeemed.value(), 2U);
    co_await (*channel)->close();
    while (stage.sessions.all().front()->connections > 0) {
        co_await sleep_for(stage.world.core(), 1ms);
    }
}
TEST(SessionGate, TicketAdmitsOneConnection) { Stage().run(let_in); }

Task<> kept_out(Stage& stage) {
    Uuid other = stage.client;
    other.bytes[1] = 1;
    const auto channel = co_await stage.connect(other);
    EXPECT_FALSE(channel);
    if (!channel) EXPECT_EQ(channel.error().code, Code::denied);
    EXPECT_EQ(stage.tickets.metrics().refused_holder.value(), 1U);
    EXPECT_EQ(stage.sessions.all().front()->connections, 0U);
}
TEST(SessionGate, TicketOfAnotherClientIsRefused) { Stage().run(kept_out); }

Task<> ended(Stage& stage) {
    auto channel = co_await stage.connect(stage.client);
    EXPECT_TRUE(channel) << stage.report.text();
    if (!channel) co_return;
    co_await stage.sessions.close(stage.issuer.session);
    EXPECT_TRUE(stage.sessions.all().empty());
    ReadNothing reader;
    EXPECT_EQ(co_await (*channel)->call({}, {.method = 1, .repeatable = true}, reader),
              Result<>(fail(Code::denied)));
    co_await (*channel)->close();
}
TEST(SessionGate, EndedSessionClosesItsConnections) { Stage().run(ended); }

pid_t ended_process() {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(0);
    EXPECT_EQ(::waitpid(child, nullptr, 0), child);
    return child;
}

// Others wait for what it has.
Task<> killed(Stage& stage) {
    StopSource stop;
    Nursery nursery(stage.world.core(), 1);
    co_await nursery.spawn(stage.sessions.reap(stop.token()));
    const auto ticket = co_await stage.issuer.take(stage.report);
    const rpc::HelloBody hello{.client = stage.client, .ticket = *ticket};
    EXPECT_TRUE(stage.gate.admit(hello, {.name = "peer", .process = ended_process()}));
    stage.sessions.detach(stage.issuer.session);
    co_await sleep_for(stage.world.core(), 2s);
    EXPECT_TRUE(stage.sessions.all().empty());
    stop.request_stop();
    co_await nursery.join();
}
TEST(SessionGate, SessionOfAnEndedProcessEndsWithinTwoSeconds) { Stage().run(killed); }

}  // namespace
}  // namespace ros2s::session
