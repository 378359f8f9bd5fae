// The life of tenants' domains, over real shared memory. Attacks of one tenant on another are in
// tests/daemons (dpu_tenants_test).
#include "tenant_domains.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <tuple>

#include "ros2s/daemon/tenant_sources.h"
#include "ros2s/fabric/providers/providers.h"
#include "ros2s/fabric/socket/socket.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/os_reactor.h"
#include "ros2s/runtime/run_blocking.h"

namespace ros2s::dpud {
namespace {

class NoService final : public rpc::Service {
  public:
    [[nodiscard]] uint32_t number() const override { return 1; }
    Task<> serve(rpc::Request& request) override { co_await request.reply({}); }
};

struct Rig {
    Rig(Reactor& on, daemon::Listen place)
        : reactor(on),
          provider(place.provider),
          tickets(on, {}),
          accounts(on),
          sessions(on, tickets, {.accounts = &accounts}),
          group(on),
          domains(on, group, sessions, {}) {
        domains.begin({std::move(place)}, {.device = "lo", .identity = {}}, service);
    }
    Task<session::SessionId> enter(std::string subject, std::string& address,
                                   std::string pool = "pool") {
        Report report;
        const auto opened = sessions.open({.subject = std::move(subject),
                                           .client = {},
                                           .purpose = session::Purpose::link,
                                           .pool = std::move(pool),
                                           .program = {}});
        EXPECT_TRUE(opened);
        const auto listener = co_await domains.open(**opened, provider, report);
        EXPECT_TRUE(listener) << report.text();
        address = listener.value_or("");
        co_return (*opened)->id;
    }
    Reactor& reactor;
    std::string provider;
    NoService service;
    session::TicketTable tickets;
    admission::Accounts accounts;
    session::SessionTable sessions;
    rpc::ServerGroup group;
    TenantDomains domains;
};

class DpuTenantDomains : public testing::Test {
  protected:
    DpuTenantDomains() {
        std::string pattern = std::filesystem::temp_directory_path() / "ros2store-tenants-XXXXXX";
        EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
        directory = pattern;
        Report report;
        auto made = OsReactor::create({.thread_name = "dpu"}, report);
        EXPECT_TRUE(made && (*made)->start(report)) << report.text();
        reactor = std::move(*made);
    }
    ~DpuTenantDomains() override {
        std::error_code ignored;
        std::filesystem::remove_all(directory, ignored);
    }
    [[nodiscard]] size_t sockets() const {
        size_t count = 0;
        for (const auto& entry : std::filesystem::directory_iterator(directory)) {
            count += entry.is_socket() ? 1 : 0;
        }
        return count;
    }
    // Everything runs on the reactor's core.
    void run(Task<> (*body)(DpuTenantDomains&, Rig&)) {
        run(body, {.provider = "shm", .address = directory + "/listener"});
    }
    void run(Task<> (*body)(DpuTenantDomains&, Rig&), const daemon::Listen& place) {
        run_blocking(*reactor, [&] { return whole(*this, body, place); });
    }
    static Task<> whole(DpuTenantDomains& self, Task<> (*body)(DpuTenantDomains&, Rig&),
                        daemon::Listen place) {
        Rig rig(*self.reactor, std::move(place));
        co_await body(self, rig);
        co_await rig.domains.drain();
        co_await rig.sessions.close_all();
        EXPECT_EQ(rig.domains.size(), 0U);
        EXPECT_EQ(self.sockets(), 0U);
    }
    std::string directory;
    std::unique_ptr<OsReactor> reactor;
};

Task<> come_and_go(DpuTenantDomains&, Rig& rig) {
    std::string first, second, other, again;
    const auto alice = co_await rig.enter("CN=alice", first);
    const auto same = co_await rig.enter("CN=alice", second);
    const auto bob = co_await rig.enter("CN=bob", other);
    EXPECT_EQ(first, second);
    EXPECT_NE(first, other);
    EXPECT_EQ(rig.domains.size(), 2U);
    co_await rig.sessions.close(alice);
    EXPECT_TRUE(std::filesystem::is_socket(first));
    co_await rig.sessions.close(same);
    EXPECT_FALSE(std::filesystem::exists(first));
    EXPECT_EQ(rig.domains.size(), 1U);
    co_await rig.enter("CN=alice", again);
    EXPECT_EQ(first, again) << "where a host looks for it after a restart";
    co_await rig.sessions.close(bob);
    EXPECT_FALSE(std::filesystem::exists(other));
}
TEST_F(DpuTenantDomains, TenantHasADomainWhileItHasSessions) { run(come_and_go); }

// Their accounts differ, and so do their listeners.
Task<> be_two(DpuTenantDomains&, Rig& rig) {
    admission::Allowances allowances;
    allowances.accounts["CN=alice"] = {{"other", "guests"}, {"pool", "batch"}};
    allowances.accounts["CN=alice-2"] = {{"pool", "batch"}};
    rig.accounts.set(std::move(allowances));
    std::string here, there, beside;
    co_await rig.enter("CN=alice", here);
    co_await rig.enter("CN=alice", there, "other");
    co_await rig.enter("CN=alice-2", beside);
    EXPECT_NE(here, there);
    EXPECT_EQ(here, beside);
    EXPECT_EQ(rig.domains.size(), 2U);
}
TEST_F(DpuTenantDomains, SubjectOfTwoTenantsHasTwoDomains) { run(be_two); }

// On a network, a listener has one of a thousand ports, so hashes of names can collide.
Task<> meet(DpuTenantDomains&, Rig& rig) {
    const daemon::Listen any{.provider = rig.provider, .address = "127.0.0.1:7600"};
    std::map<std::string, std::string> names;
    std::string one, other;
    for (int i = 0; other.empty(); ++i) {
        const std::string name = fmt::format("CN=tenant {}", i);
        const auto [met, is_new] = names.emplace(*listener_address(any, name), name);
        if (!is_new) std::tie(one, other) = std::pair(met->second, name);
    }
    std::string first, second, again;
    const auto session = co_await rig.enter(one, first);
    co_await rig.enter(other, second);
    EXPECT_NE(first, second);
    co_await rig.sessions.close(session);
    co_await rig.enter(one, again);
    EXPECT_EQ(first, again);
}
TEST_F(DpuTenantDomains, CollidingNamesGetDifferentListeners) {
    const int ports = 20000 + getpid() % 20000;
    run(meet, {.provider = "ofi+tcp;ofi_rxm", .address = fmt::format("127.0.0.1:{}", ports)});
}

// Peers without a ticket have one bound for the listeners of all tenants.
Task<> knock(DpuTenantDomains&, Rig& rig) {
    Report report;
    std::vector<fabric::Descriptor> silent;
    for (const char* const subject : {"CN=alice", "CN=bob"}) {
        std::string address;
        co_await rig.enter(subject, address);
        auto socket = co_await fabric::connect_to(rig.reactor, address, {}, report);
        EXPECT_TRUE(socket) << report.text();
        if (socket) silent.push_back(std::move(*socket));
    }
    const Time until = rig.reactor.now() + std::chrono::seconds(30);
    while (rig.group.pending_peers.size() < 2 && rig.reactor.now() < until) {
        co_await sleep_for(rig.reactor, std::chrono::milliseconds(1));
    }
    EXPECT_EQ(rig.group.pending_peers.size(), 2U);
}
TEST_F(DpuTenantDomains, PendingPeersOfAllTenantsAreCountedTogether) { run(knock); }

// Another process has the port of the first one, so the first one waits. Meanwhile a second one is
// opened and closed.
Task<> come_slowly(Rig& rig, std::vector<std::string>& order) {
    std::string address;
    co_await rig.enter("CN=slow", address);
    order.emplace_back("slow");
}
Task<> come_beside(DpuTenantDomains&, Rig& rig) {
    std::vector<std::string> order;
    std::string address;
    Nursery slow(rig.reactor, 1);
    co_await slow.spawn(come_slowly(rig, order));
    const auto session = co_await rig.enter("CN=quick", address);
    co_await rig.sessions.close(session);
    order.emplace_back("quick");
    co_await slow.join();
    EXPECT_EQ(order, (std::vector<std::string>{"quick", "slow"}));
}
TEST_F(DpuTenantDomains, OpeningOneDomainDoesNotDelayOthers) {
    const daemon::Listen place{
        .provider = "ofi+tcp;ofi_rxm",
        .address = fmt::format("127.0.0.1:{}", 20000 + (getpid() + 5000) % 20000)};
    const std::string taken = listener_address(place, "CN=slow").value_or("");
    const int port = std::stoi(taken.substr(taken.rfind(':') + 1));
    const sockaddr_in address{.sin_family = AF_INET,
                              .sin_port = htons(static_cast<uint16_t>(port)),
                              .sin_addr = {htonl(INADDR_LOOPBACK)},
                              .sin_zero = {}};
    const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ASSERT_EQ(::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    ASSERT_EQ(::listen(listener, 1), 0);
    run(come_beside, place);
    ::close(listener);
}

constexpr size_t over_the_bound = daemon::TenantSources::labels_max + 3;

Task<> be_many(DpuTenantDomains&, Rig& rig) {
    for (size_t i = 0; i < over_the_bound; ++i) {
        std::string address;
        co_await rig.enter(fmt::format("CN=tenant {}", i), address);
    }
    std::set<std::string> labels;
    for (const exporter::Source& source : rig.domains.metrics()) {
        for (const auto& [name, text] : source.labels) {
            if (name == "tenant") EXPECT_TRUE(labels.insert(text).second) << text;
        }
        size_t listed = 0;
        source.list([&listed](std::string_view, std::string_view, uint64_t) { ++listed; });
        EXPECT_GT(listed, 20U);
    }
    EXPECT_EQ(labels.size(), daemon::TenantSources::labels_max + 1);
    EXPECT_TRUE(labels.contains("(others)"));
}
TEST_F(DpuTenantDomains, LabelsAreBounded) { run(be_many); }

// A socket file without a process, as after kill -9.
Task<> leave_a_socket(Reactor& reactor, std::string directory) {
    Report report;
    const auto domain = fabric::open_domain(reactor, "shm", {}, report);
    const std::string elsewhere = directory + "/left";
    auto listener = co_await (*domain)->listen(elsewhere, {}, report);
    EXPECT_TRUE(listener) << report.text();
    // Closing removes it by its name.
    std::filesystem::rename(elsewhere, directory + "/listener" + listener_suffix("CN=alice"));
    co_await (*listener)->close();
    listener->reset();
    co_await (*domain)->close();
}

Task<> nothing(DpuTenantDomains&, Rig&) { co_return; }

TEST_F(DpuTenantDomains, ListenersOfAKilledProcessAreRemoved) {
    const std::string others = directory + "/listener.notes";
    std::ofstream(others) << "no socket";
    run_blocking(*reactor, [&] { return leave_a_socket(*reactor, directory); });
    EXPECT_EQ(sockets(), 1U);
    run(nothing);
    EXPECT_TRUE(std::filesystem::exists(others));
}

TEST(ListenerAddress, AddressFollowsFromTenantName) {
    const daemon::Listen shm{.provider = "shm", .address = "/run/dpu.sock"};
    EXPECT_EQ(listener_address(shm, "a"), "/run/dpu.sock" + listener_suffix("a"));
    const daemon::Listen verbs{.provider = "ofi+verbs", .address = "[fe80::1]:7600"};
    const auto listener = listener_address(verbs, "a");
    ASSERT_TRUE(listener);
    EXPECT_EQ(listener, listener_address(verbs, "a"));
    EXPECT_NE(listener, listener_address(verbs, "b"));
    ASSERT_TRUE(listener->starts_with("[fe80::1]:")) << *listener;
    const int port = std::stoi(listener->substr(listener->rfind(':') + 1));
    EXPECT_GT(port, 7600);
    EXPECT_LE(port, 7600 + static_cast<int>(listener_ports));
    std::set<std::string> all;
    for (uint32_t attempt = 0; attempt < listener_ports; ++attempt) {
        all.insert(listener_address(verbs, "a", attempt).value_or(""));
    }
    EXPECT_EQ(all.size(), listener_ports);
    EXPECT_TRUE(all.contains("[fe80::1]:7601") && all.contains("[fe80::1]:8600"));
    EXPECT_FALSE(listener_address(verbs, "a", listener_ports));
    EXPECT_FALSE(listener_address(shm, "a", 1));
    const daemon::Listen any{.provider = "ofi+verbs", .address = "192.0.2.1:0"};
    EXPECT_EQ(listener_address(any, "a"), "192.0.2.1:0");
    EXPECT_FALSE(listener_address(any, "a", 1));
    for (const char* none :
         {"192.0.2.1", ":7600", "192.0.2.1:", "192.0.2.1:65000", "192.0.2.1:-1", "192.0.2.1:76x"}) {
        EXPECT_FALSE(listener_address({.provider = "ofi+verbs", .address = none}, "a")) << none;
    }
}

}  // namespace
}  // namespace ros2s::dpud
