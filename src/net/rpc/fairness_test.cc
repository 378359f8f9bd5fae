// One tenant attacks; another one keeps at least a fraction of its speed. Processor time is
// modelled: a core does one step at a time, first come, first served, as a reactor does.
#include <map>
#include <numeric>

#include "test_support/rpc.h"

namespace ros2s::rpc {
namespace {

using namespace std::chrono_literals;

constexpr uint64_t mib = uint64_t{1} << 20;
// Returns many entries: it takes 34 times as long as another request, which is known only at its
// end.
constexpr uint16_t long_list = 2;
// What a client of an engine, such as a DPU, may have even if others want less.
constexpr admission::Limits at_an_engine{.least = {.requests = 32, .bytes = 8 * mib}};

// Replies without content after some steps on the core; more steps if payload is requested.
class CostlyService final : public Service {
  public:
    explicit CostlyService(Reactor& reactor) : reactor_(reactor), core_(reactor, 1) {}
    [[nodiscard]] uint32_t number() const override { return 7; }
    Task<> serve(Request& request) override {
        ++served[request.guest().tenant];
        for (int step = 0; step < 3; ++step) co_await use(3us);
        // Like a read that learns afterwards where its bytes should go: 10 GB/s.
        if (request.sink_bytes() > mib) co_await use(Duration(request.sink_bytes() / 10));
        if (request.method() == long_list) {
            co_await use(300us);
            request.charge(300'000);
        }
        co_await request.reply({});
    }
    std::map<uint64_t, uint64_t> served;  // by tenant

  private:
    Task<> use(Duration time) {
        co_await core_.acquire();
        const SemaphoreHold hold(core_);
        co_await sleep_for(reactor_, time);
    }
    Reactor& reactor_;
    Semaphore core_;
};

class TenantGate final : public Gate {
  public:
    explicit TenantGate(uint64_t tenant) : tenant_(tenant) {}
    Result<Guest> admit(const HelloBody&, const fabric::Peer&) override {
        return Guest{.session = 1, .tenant = tenant_};
    }
    void left(const Guest&) override {}

  private:
    const uint64_t tenant_;
};

// A server for each of two tenants, as on a DPU.
struct SharedStage {
    struct Side {
        Side(SharedStage& stage, uint64_t tenant, std::string name)
            : gate(tenant),
              server_domain(stage.network.open_domain(stage.core(), "server of " + name)),
              client_domain(stage.network.open_domain(stage.core(), name)),
              address(std::move(name)) {}
        Task<> listen(SharedStage& stage) {
            auto listening =
                co_await Server::listen(stage.core(), *server_domain, address, stage.service, gate,
                                        {.group = &stage.group}, stage.report);
            EXPECT_TRUE(listening) << stage.report.text();
            server = std::move(*listening);
        }
        Task<std::unique_ptr<Channel>> connect(SharedStage& stage) {
            auto channel = co_await Channel::open(stage.core(), *client_domain, address, tickets,
                                                  {.service = 7}, stage.report);
            EXPECT_TRUE(channel) << stage.report.text();
            co_return std::move(*channel);
        }
        Task<> close() {
            co_await server->close();
            server.reset();
            co_await server_domain->close();
            co_await client_domain->close();
        }
        TenantGate gate;
        TestTickets tickets;
        std::unique_ptr<fabric::Domain> server_domain, client_domain;
        std::unique_ptr<Server> server;
        const std::string address;
    };
    explicit SharedStage(admission::Allowances allowances = {}, admission::Limits all = {})
        : limits(all), accounts(world.core(), std::move(allowances)) {}
    Reactor& core() { return world.core(); }
    void run(Task<> (*body)(SharedStage&)) { world.run(whole(*this, body)); }
    static Task<> whole(SharedStage& self, Task<> (*body)(SharedStage&)) {
        co_await self.good.listen(self);
        co_await self.bad.listen(self);
        co_await body(self);
        co_await self.good.close();
        co_await self.bad.close();
    }
    // Sends requests, one after the other, until `stop`.
    static Task<> ask(Channel& channel, const bool& stop, uint16_t method = 1) {
        ReadNothing reader;
        while (!stop) EXPECT_TRUE(co_await channel.call({}, {.method = method}, reader));
    }
    // The bystander's finished requests in a period, one after the other.
    Task<uint64_t> bystander() {
        auto channel = co_await good.connect(*this);
        bool stop = false;
        Nursery nursery(core(), 1);
        co_await nursery.spawn(ask(*channel, stop));
        co_await sleep_for(core(), 20ms);  // requests that began before are over
        const uint64_t before = service.served[1];
        co_await sleep_for(core(), 50ms);
        const uint64_t done = service.served[1] - before;
        stop = true;
        co_await nursery.join();
        co_await channel->close();
        co_return done;
    }
    sim::World world{1};
    fabric::sim::Network network{world.random()};
    Report report;
    CostlyService service{world.core()};
    const admission::Limits limits;
    admission::Accounts accounts;
    std::shared_ptr<admission::Account> of_good = accounts.open("bystander"),
                                        of_bad = accounts.open("attacker");
    ServerGroup group{world.core(), limits, &accounts};
    Side good{*this, 1, "bystander"};
    Side bad{*this, 2, "attacker"};
};

Task<> many_requests(SharedStage& stage) {
    const uint64_t alone = co_await stage.bystander();
    EXPECT_GT(alone, 100U);
    bool stop = false;
    std::vector<std::unique_ptr<Channel>> channels;
    Nursery nursery(stage.core(), 256 * 64);
    for (int i = 0; i < 256; ++i) {
        channels.push_back(co_await stage.bad.connect(stage));
        for (int j = 0; j < 64; ++j)
            co_await nursery.spawn(SharedStage::ask(*channels.back(), stop));
    }
    EXPECT_GE(4 * co_await stage.bystander(), alone);
    EXPECT_GT(stage.service.served[2], 1000U);
    // Nearly all of them wait, all the time.
    EXPECT_GE(Duration(stage.of_bad->metrics.queued_ns.value()), 1000 * 70ms);
    EXPECT_EQ(stage.of_bad->metrics.throttled_ns.value(), 0U);
    stop = true;
    co_await nursery.join();
    for (auto& channel : channels) co_await channel->close();
}
TEST(RpcFairness, ManyRequestsLeaveBystanderServed) { SharedStage().run(many_requests); }

// All credits are in use, so the requests wait at the server, where weights apply, and not at the
// clients. Returns what the attacker got, as a multiple of the bystander's.
Task<double> heavy_beside_light(SharedStage& stage, int connections_of_heavy) {
    std::vector<std::unique_ptr<Channel>> channels;
    channels.push_back(co_await stage.good.connect(stage));
    for (int i = 0; i < connections_of_heavy; ++i) {
        channels.push_back(co_await stage.bad.connect(stage));
    }
    bool stop = false;
    Nursery nursery(stage.core(), 512 * channels.size());
    for (const auto& channel : channels) {
        for (int i = 0; i < 512; ++i) {
            co_await nursery.spawn(SharedStage::ask(*channel, stop));
        }
    }
    co_await sleep_for(stage.core(), 100ms);
    const auto before = stage.service.served;
    co_await sleep_for(stage.core(), 300ms);
    const auto of_light = static_cast<double>(stage.service.served[1] - before.at(1));
    const auto of_heavy = static_cast<double>(stage.service.served[2] - before.at(2));
    stop = true;
    co_await nursery.join();
    for (const auto& channel : channels) co_await channel->close();
    co_return of_heavy / of_light;
}
Task<> weights(SharedStage& stage) { EXPECT_NEAR(co_await heavy_beside_light(stage, 1), 4, 0.12); }
TEST(RpcFairness, WeightsHoldForOneConnectionEach) {
    SharedStage({.by_account = {{"attacker", {.weight = 4}}}}).run(weights);
}

// As at an engine: a tenant comes by one DPU, and another one by three.
Task<> more_connections(SharedStage& stage) {
    EXPECT_NEAR(co_await heavy_beside_light(stage, 3), 1, 0.03);
}
TEST(RpcFairness, MoreConnectionsGiveTenantNoMore) {
    SharedStage({}, at_an_engine).run(more_connections);
}
Task<> weights_of_more(SharedStage& stage) {
    EXPECT_NEAR(co_await heavy_beside_light(stage, 3), 4, 0.12);
}
TEST(RpcFairness, WeightsHoldOverManyConnections) {
    SharedStage({.by_account = {{"attacker", {.weight = 4}}}}, at_an_engine).run(weights_of_more);
}

// A list is charged for its result: 300 µs, and the 16 of a small request.
Task<> lists_and_looks(SharedStage& stage) {
    const auto looks = co_await stage.good.connect(stage);
    const auto lists = co_await stage.bad.connect(stage);
    bool stop = false;
    Nursery nursery(stage.core(), 128);
    for (int i = 0; i < 64; ++i) {
        co_await nursery.spawn(SharedStage::ask(*looks, stop, 1));
        co_await nursery.spawn(SharedStage::ask(*lists, stop, long_list));
    }
    co_await sleep_for(stage.core(), 100ms);
    const auto before = stage.service.served;
    co_await sleep_for(stage.core(), 1s);
    const auto looked = static_cast<double>(stage.service.served[1] - before.at(1));
    const auto listed = static_cast<double>(stage.service.served[2] - before.at(2));
    EXPECT_NEAR(looked / listed, 316.0 / 16, 1.5);
    stop = true;
    co_await nursery.join();
    co_await looks->close();
    co_await lists->close();
}
TEST(RpcFairness, ListingCostsItsResultSize) { SharedStage().run(lists_and_looks); }

// Claims a sink, and grants no window for it.
Task<> claim(SharedStage& stage, const bool& stop, std::map<Code, uint64_t>& answers) {
    std::vector<std::byte> body_memory(hello_bytes_max), memory(8192), verdict;
    FrameHeader header;
    header.kind = Kind::hello;
    const ConstBytes body = encode(HelloBody{.service = 7, .ticket = "any"}, body_memory);
    const ConstBytes hello = encode_frame(header, {}, {}, body, memory);
    auto connected = co_await stage.bad.client_domain->connect(
        "attacker", {.credential = {hello.begin(), hello.end()}, .verdict = &verdict},
        stage.report);
    EXPECT_TRUE(connected) << stage.report.text();
    fabric::Endpoint& endpoint = **connected;
    header.session = decode_frame(verdict)->header.session;
    header.kind = Kind::request;
    header.sink_bytes = 64 * mib;
    while (!stop) {
        header.request += uint64_t{1} << 16;
        EXPECT_TRUE(co_await endpoint.send(encode_frame(header, {}, {}, {}, memory)));
        const auto answer = co_await endpoint.receive();
        const auto frame = decode_frame(answer->bytes());
        ++answers[frame->header.kind == Kind::failure ? decode_failure(frame->body)->error.code
                                                      : Code::exists];
        co_await sleep_for(stage.core(), 1ms);
    }
    co_await endpoint.close();
}

Task<> no_windows(SharedStage& stage) {
    const uint64_t alone = co_await stage.bystander();
    bool stop = false;
    std::map<Code, uint64_t> answers;
    Nursery nursery(stage.core(), 16);
    for (int i = 0; i < 16; ++i) co_await nursery.spawn(claim(stage, stop, answers));
    EXPECT_GE(4 * co_await stage.bystander(), alone);
    stop = true;
    co_await nursery.join();
    EXPECT_EQ(stage.service.served[2], 0U);
    EXPECT_EQ(answers.size(), 1U);
    EXPECT_GT(answers[Code::too_large], 100U);
    EXPECT_EQ(stage.bad.server->metrics().undeliverable.value(), answers[Code::too_large]);
    EXPECT_EQ(stage.of_bad->metrics.refused.value(), answers[Code::too_large]);
    EXPECT_EQ(stage.of_good->metrics.refused.value(), 0U);
    const HistogramReading times = stage.of_good->metrics.latency.read();
    EXPECT_EQ(std::accumulate(times.counts.begin(), times.counts.end(), uint64_t{0}),
              stage.service.served[1]);
    // Each takes 9 µs of the core, and longer beside the attack.
    EXPECT_GE(times.sum_ns, stage.service.served[1] * 9000);
}
TEST(RpcFairness, UndeliverableRequestIsNotBegun) { SharedStage().run(no_windows); }

}  // namespace
}  // namespace ros2s::rpc
