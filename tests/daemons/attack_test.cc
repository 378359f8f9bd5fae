// Attacks of strangers and hostile clients on real daemons. The process stays alive and within its
// bounds, and logs or counts each refusal. A client that works at the same time is not affected.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "client.h"
#include "control_clients.h"
#include "dpu_process.h"
#include "eventually.h"
#include "hostile_process.h"
#include "ros2s/base/crc32c.h"
#include "ros2s/base/random.h"
#include "ros2s/fabric/hello.h"
#include "ros2s/fabric/providers/providers.h"
#include "ros2s/hostlink/wire.h"
#include "ros2s/pki/authority.h"
#include "ros2s/remote/wire.h"
#include "ros2s/rpc/frame.h"
#include "scraped.h"
#include "stranger.h"
#include "verified_load.h"

namespace ros2s::tests {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

size_t count_of(std::string_view text, std::string_view part) {
    size_t count = 0;
    for (size_t at = 0; (at = text.find(part, at)) != text.npos; at += part.size()) ++count;
    return count;
}

// Sets the soft limit of this process and its later children, up to the hard limit. Returns the new
// limit.
rlim_t limit_descriptors(rlim_t count) {
    rlimit files{};
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = std::min(files.rlim_max, count);
    setrlimit(RLIMIT_NOFILE, &files);
    return files.rlim_cur;
}

// The adapter that ROS2STORE_TEST_VERBS names, such as "rxe0". Empty: there is none.
std::string adapter() {
    const char* named = std::getenv("ROS2STORE_TEST_VERBS");
    return named != nullptr ? named : "";
}

std::string device_of(const std::string& provider) {
    return provider == "ofi+verbs" ? adapter() : "lo";
}

// The parameter: "engine"; "dpu", in front of an engine; or "dpu_verbs", whose hosts use an
// adapter.
class DaemonAttack : public testing::TestWithParam<const char*> {
  protected:
    void SetUp() override {
        if (is_over_verbs() && adapter().empty()) {
            GTEST_SKIP() << "ROS2STORE_TEST_VERBS names no adapter";
        }
        if (is_over_verbs()) dpu.listen_on_verbs(adapter());
        reactor = started_reactor("bystander");
        limit_descriptors(1024);  // as most systems do
        ASSERT_TRUE(engine.start() && (!is_dpu() || dpu.start()));
        ASSERT_TRUE(enter(bystander)) << report.text();
        load = std::make_unique<VerifiedLoad>(*reactor, bystander.files(), "bystander");
        load->begin();
        load->expect_progress(20);
    }
    // The bystander worked all the time. The daemon accepts another client, and ends with status 0.
    void TearDown() override {
        if (IsSkipped() && load == nullptr) return;
        ASSERT_NE(load, nullptr);
        load->expect_progress(50);
        load->end();
        Client another;
        EXPECT_TRUE(enter(another)) << report.text();
        another.close(*reactor);
        bystander.close(*reactor);
        if (is_dpu()) EXPECT_EQ(dpu.stop(), 0) << dpu.log();
        EXPECT_EQ(engine.stop(), 0) << engine.log();
    }

    [[nodiscard]] static bool is_over_verbs() {
        return std::string_view(GetParam()).ends_with("_verbs");
    }
    [[nodiscard]] static bool is_dpu() { return std::string_view(GetParam()).starts_with("dpu"); }
    // The provider of the bystander and of admitted clients.
    [[nodiscard]] static std::string provider() { return is_over_verbs() ? "ofi+verbs" : "shm"; }
    Result<> enter(Client& client) {
        return is_dpu() ? client.open(*reactor, dpu.options(), report)
                        : client.open(*reactor, engine.options("shm"), report);
    }
    [[nodiscard]] api::ServicePaths places() const { return engine.places(); }
    [[nodiscard]] std::string certificates() const {
        return is_dpu() ? places().host_certs : places().storage_certs;
    }
    [[nodiscard]] ListenAddress control() const {
        return {"control", is_dpu() ? places().dpu_control : places().engine_control};
    }
    [[nodiscard]] ListenAddress over_shm() const {
        return {"shm", is_dpu() ? places().dpu_data : places().engine_data};
    }
    [[nodiscard]] std::vector<ListenAddress> data_listeners() const {
        std::vector<ListenAddress> listeners{over_shm()};
        if (is_over_verbs()) listeners.push_back({"ofi+verbs", DpuProcess::verbs_address()});
        // A DPU has no such listener (0530).
        if (!is_dpu())
            listeners.push_back({"ucx+tcp", fmt::format("127.0.0.1:{}", engine.data_port())});
        return listeners;
    }
    [[nodiscard]] std::vector<ListenAddress> listeners() const {
        auto listeners = data_listeners();
        listeners.push_back(control());
        return listeners;
    }

    [[nodiscard]] int pid() const { return is_dpu() ? dpu.pid() : engine.pid(); }
    [[nodiscard]] std::string log() const { return is_dpu() ? dpu.log() : engine.log(); }
    [[nodiscard]] size_t descriptors() const {
        size_t count = 0;
        for ([[maybe_unused]] const auto& each :
             std::filesystem::directory_iterator(fmt::format("/proc/{}/fd", pid()))) {
            ++count;
        }
        return count;
    }
    [[nodiscard]] uint64_t resident_kib() const { return tests::resident_kib(pid()); }
    // The sum of these counters of the daemon is at least this number.
    void expect_counted(const std::vector<std::string>& names, double least) const {
        double sum = 0;
        EXPECT_TRUE(eventually([&] {
            const std::string counters = is_dpu() ? dpu.metrics() : engine.metrics();
            sum = 0;
            for (const std::string& name : names) sum += counted(counters, name);
            return sum >= least;
        })) << names.front()
            << " and the like: " << sum << " of " << least;
    }
    // The daemon has closed the descriptors that the attack made it open.
    void expect_closed(size_t before) {
        constexpr size_t tolerance = 16;  // files of its index, threads' pipes
        EXPECT_TRUE(eventually([&] { return descriptors() <= before + tolerance; }))
            << descriptors() << " descriptors, " << before << " before";
    }
    // A stranger's handshake with that certificate. Our own client would not send it.
    void shake_hands(const pki::Identity& identity) const {
        std::string said;
        (void)run_program(
            fmt::format("timeout 60 openssl s_client -unix '{}' -CAfile '{}' -cert '{}' -key '{}' "
                        "-alpn h2 </dev/null",
                        control().address, identity.authority_file, identity.certificate_file,
                        identity.key_file),
            said);
    }

    EngineProcess engine;
    DpuProcess dpu{engine, "shm"};
    std::unique_ptr<OsReactor> reactor;
    Report report;
    Client bystander;
    std::unique_ptr<VerifiedLoad> load;
};

INSTANTIATE_TEST_SUITE_P(Of, DaemonAttack, testing::Values("engine", "dpu", "dpu_verbs"),
                         [](const auto& info) { return std::string(info.param); });

class ShmDaemonAttack : public DaemonAttack {};
INSTANTIATE_TEST_SUITE_P(Of, ShmDaemonAttack, testing::Values("engine", "dpu"),
                         [](const auto& info) { return std::string(info.param); });

class UcxDaemonAttack : public DaemonAttack {};
INSTANTIATE_TEST_SUITE_P(Of, UcxDaemonAttack, testing::Values("engine"),
                         [](const auto& info) { return std::string(info.param); });

// ---- strangers

// The growth of a daemon that is allowed after strangers have left. A sanitizer's allocator keeps
// 256 MiB of freed memory.
#ifdef ROS2S_SANITIZED
constexpr uint64_t growth_kib_max = uint64_t{768} << 10;
#else
constexpr uint64_t growth_kib_max = uint64_t{256} << 10;
#endif

constexpr const char* refused_at_data = "ros2store_fabric_handshakes_refused_total";
constexpr const char* refused_at_control = "ros2store_control_connections_refused_total";
constexpr const char* died = "ros2store_fabric_ended_peer_died_total";
// The daemon ended the connection.
const std::vector<std::string> ended_for_what_it_did{"ros2store_fabric_ended_violation_total",
                                                     "ros2store_server_malformed_total"};

constexpr const char* audited = "audit: a connection to the control plane was refused";

TEST_P(DaemonAttack, HalfOpenConnectionsLeaveClientsServed) {
    constexpr size_t connections = 1000;
    if (limit_descriptors(4 * connections) < 4 * connections) {
        GTEST_SKIP() << "descriptors are limited here";
    }
    const size_t before = descriptors();
    const uint64_t memory = resident_kib();
    {
        std::vector<Stranger> strangers;
        for (const ListenAddress& listener : listeners()) {
            for (size_t i = 0; i < connections; ++i) {
                strangers.emplace_back(listener);
                ASSERT_TRUE(strangers.back().is_connected()) << listener.name << ", " << i;
                // Half of them send a part of a message.
                if (i % 2 == 1)
                    strangers.back().say(listener.name == "control" ? "\x16\x03\x01" : "R");
            }
            load->expect_progress(20);
            // The data plane limits concurrent handshakes. The control plane accepts all.
            EXPECT_TRUE(eventually([&] { return descriptors() <= before + connections + 200; }))
                << listener.name << ": " << descriptors();
        }
        // Others are refused for at most the time limit of a handshake.
        Client another;
        EXPECT_TRUE(eventually([&] { return enter(another).has_value(); })) << report.text();
        another.close(*reactor);
    }
    expect_closed(before);
    EXPECT_LE(resident_kib(), memory + growth_kib_max);
    EXPECT_LE(count_of(log(), audited), connections / 2) << "a flood does not fill the log";
    expect_counted({refused_at_data}, connections * static_cast<double>(data_listeners().size()));
    expect_counted({refused_at_control}, connections);
}

std::vector<std::string> other_protocols() {
    std::vector<std::string> all{"GET / HTTP/1.1\r\nHost: ros2store\r\n\r\n",
                                 "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + std::string(200, '\0'),
                                 "SSH-2.0-OpenSSH_9.2\r\n" + std::string(200, ' ')};
    Random random(20);
    for (int i = 0; i < 10; ++i) {
        std::string noise(1 + random.below(8192), '\0');
        for (char& byte : noise) byte = static_cast<char>(random.next());
        // After bytes that look like TLS, the server waits for the rest.
        noise[0] = static_cast<char>(noise[0] | 0x80);
        all.push_back(std::move(noise));
    }
    // A hello with large numbers, and a request header before any hello.
    fabric::Hello hello{.memory_bytes = UINT64_MAX, .operations_max = UINT32_MAX};
    hello.appended_bytes = UINT32_MAX;
    hello.set_provider("none");
    hello.seal();
    all.emplace_back(reinterpret_cast<const char*>(&hello), sizeof hello);
    return all;
}

TEST_P(DaemonAttack, OtherProtocolsAreRefused) {
    const size_t before = descriptors();
    const auto protocols = other_protocols();
    std::vector<Stranger> strangers;
    for (const ListenAddress& listener : listeners()) {
        for (const auto& bytes : protocols) {
            strangers.emplace_back(listener);
            ASSERT_TRUE(strangers.back().is_connected()) << listener.name;
            strangers.back().say(bytes);
        }
    }
    load->expect_progress(20);
    for (size_t i = 0; i < strangers.size(); ++i) {
        EXPECT_TRUE(strangers[i].is_hung_up()) << "protocol " << i % protocols.size();
    }
    EXPECT_TRUE(eventually([&] {
        return count_of(log(), audited) > 0 && log().contains("it does not speak TLS");
    })) << log();
    expect_closed(before);
    expect_counted({refused_at_data},
                   static_cast<double>(protocols.size() * data_listeners().size()));
    expect_counted({refused_at_control}, static_cast<double>(protocols.size()));
}

TEST_P(DaemonAttack, WrongProviderOrVersionIsReported) {
    for (const ListenAddress& listener : data_listeners()) {
        fabric::Hello hello{.domain = 1, .message_bytes_max = 65536, .operations_max = 16};
        hello.set_provider(listener.name == "shm" ? "ucx+tcp" : "shm");
        hello.seal();
        const Stranger other(listener);
        other.say({reinterpret_cast<const char*>(&hello), sizeof hello});
        std::string heard = other.hear(sizeof hello);
        auto answer = fabric::Hello::decode(std::as_bytes(std::span(heard)));
        ASSERT_TRUE(answer) << listener.name;
        EXPECT_EQ(answer->answer, fabric::Answer::other_provider);
        EXPECT_EQ(answer->provider_name(), listener.name) << "and is told which one";
        EXPECT_TRUE(other.is_hung_up());

        hello.set_provider(listener.name);
        hello.version = 7;
        hello.seal();
        const Stranger newer(listener);
        newer.say({reinterpret_cast<const char*>(&hello), sizeof hello});
        heard = newer.hear(sizeof hello);
        answer = fabric::Hello::decode(std::as_bytes(std::span(heard)));
        ASSERT_TRUE(answer) << listener.name;
        EXPECT_EQ(answer->answer, fabric::Answer::other_version);
        EXPECT_TRUE(newer.is_hung_up());
    }
    expect_counted({refused_at_data}, 2 * static_cast<double>(data_listeners().size()));
}

// Shared memory of sessions, as the daemon has mapped it.
size_t segments_of(int pid) {
    std::ifstream maps(fmt::format("/proc/{}/maps", pid));
    const std::string all((std::istreambuf_iterator<char>(maps)), {});
    return count_of(all, "/memfd:ros2store-control") + count_of(all, "/memfd:ros2store-payload");
}

std::string hello_of(const ListenAddress& listener, std::string_view appended = {}) {
    fabric::Hello hello{.domain = 1,
                        .message_bytes_max = 65536,
                        .incoming_bytes_max = 1 << 20,
                        .memory_bytes = UINT64_MAX,
                        .operations_max = 16};
    hello.appended_bytes = static_cast<uint32_t>(appended.size());
    hello.set_provider(listener.name);
    hello.seal();
    return std::string(reinterpret_cast<const char*>(&hello), sizeof hello) + std::string(appended);
}

// Strangers speak the protocol, request all memory, have no ticket, and stay. More of them keep
// coming. A client with a ticket still gets in.
TEST_P(ShmDaemonAttack, ListenerFullOfPeersAdmitsTicketHolder) {
    ListenAddress listener = over_shm();
    const std::filesystem::path place(listener.address);
    for (const auto& entry : std::filesystem::directory_iterator(place.parent_path())) {
        const std::string name = entry.path().filename();
        // The listener of the bystander's tenant.
        if (is_dpu() && name.starts_with(place.filename().string() + ".")) {
            listener.address = entry.path();
        }
    }
    const size_t before = segments_of(pid());
    std::atomic<size_t> came = 0;
    std::jthread crowd([&](const std::stop_token& stop) {
        std::deque<Stranger> strangers;
        while (!stop.stop_requested()) {
            strangers.emplace_back(listener);
            strangers.back().say(hello_of(listener));
            if (strangers.size() > 300) strangers.pop_front();
            ++came;
        }
    });
    EXPECT_TRUE(eventually([&] { return came > 300; }));
    for (int i = 0; i < 30; ++i) {
        Client another;
        ASSERT_TRUE(enter(another)) << i << ": " << report.text();
        another.close(*reactor);
    }
    EXPECT_TRUE(eventually([&] { return segments_of(pid()) <= before; }))
        << segments_of(pid()) << " segments, " << before << " before";
}

// As if a peer sent the address of its library without a ticket. UCX would not check these bytes,
// and would connect to the address in them.
TEST_P(UcxDaemonAttack, AddressWithoutTicketIsIgnored) {
    const ListenAddress listener = data_listeners().back();
    ASSERT_EQ(listener.name, "ucx+tcp");
    Random random(11);
    for (int i = 0; i < 60; ++i) {
        std::string address(1 + random.below(200), '\0');
        for (char& byte : address) byte = static_cast<char>(random.one_in(3) ? 0 : random.next());
        std::string greeting(16, '\1');
        const auto size = static_cast<uint32_t>(address.size());
        const uint32_t crc = crc32c(as_bytes(address));
        std::memcpy(greeting.data() + 8, &size, sizeof size);
        std::memcpy(greeting.data() + 12, &crc, sizeof crc);
        const Stranger stranger(listener);
        ASSERT_TRUE(stranger.is_connected());
        stranger.say(hello_of(listener, greeting + address));
        std::string heard;
        EXPECT_TRUE(stranger.is_hung_up(&heard));
        ASSERT_GE(heard.size(), sizeof(fabric::Hello)) << i;
        const auto answer = fabric::Hello::decode(as_bytes(heard).first(sizeof(fabric::Hello)));
        ASSERT_TRUE(answer);
        EXPECT_EQ(answer->answer, fabric::Answer::refused);
        EXPECT_EQ(answer->appended_bytes, 0U) << "nor told where the daemon's is";
    }
    EXPECT_EQ(::kill(pid(), 0), 0);
    expect_counted({refused_at_data}, 60);
}

TEST_P(DaemonAttack, InvalidCertificatesAreRefused) {
    const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
    const auto late = pki::issue(
        certificates(), {.name = "late", .alternative_names = {}, .lifetime = std::chrono::days(1)},
        false, now - std::chrono::days(3), report);
    ASSERT_TRUE(late) << report.text();
    shake_hands(pki::identity_in(certificates(), "late"));
    EXPECT_TRUE(eventually([&] { return log().contains("certificate has expired"); })) << log();

    const std::string strange = engine.path("strange");
    const auto made = pki::make_authority(
        strange, {.certificates = {{.name = "client", .alternative_names = {}}}}, now, report);
    ASSERT_TRUE(made) << report.text();
    // It trusts the daemon's authority, but the daemon does not trust its authority.
    shake_hands({certificates() + "/ca.crt", strange + "/client.crt", strange + "/client.key"});
    EXPECT_TRUE(eventually([&] { return count_of(log(), audited) == 2; })) << log();
    EXPECT_THAT(log(), HasSubstr("issuer certificate"));
    expect_counted({refused_at_control}, 2);
}

// ---- clients that speak the protocol, and lie

std::vector<std::byte> frame_of(rpc::FrameHeader header, ConstBytes body) {
    std::vector<std::byte> memory(rpc::frame_bytes(0, body.size()));
    rpc::encode_frame(header, {}, {}, body, memory);
    return memory;
}

// The answer of a data plane to these bytes as a credential; `cancelled` if it accepts them.
// `listener.name` is the provider.
Task<Code> answer_to(Reactor& reactor, ListenAddress listener, std::vector<std::byte> credential) {
    Report report;
    auto domain = fabric::open_domain(reactor, listener.name, device_of(listener.name), report);
    EXPECT_TRUE(domain) << report.text();
    if (!domain) co_return Code::invalid;
    std::vector<std::byte> verdict;
    auto connected = co_await (*domain)->connect(
        std::move(listener.address), {.credential = std::move(credential), .verdict = &verdict},
        report);
    Code code = Code::cancelled;
    if (connected) {
        co_await (*connected)->close();
    } else {
        EXPECT_EQ(connected.error().code, Code::denied) << report.text();
        const auto frame = rpc::decode_frame(verdict);
        EXPECT_TRUE(frame);
        const auto failure = frame ? rpc::decode_failure(frame->body) : fail(Code::corrupt);
        EXPECT_TRUE(failure && !failure->text.empty());
        code = failure ? failure->error.code : Code::corrupt;
    }
    co_await (*domain)->close();
    co_return code;
}

Task<Code> answer_to(Reactor& reactor, ListenAddress listener, rpc::HelloBody hello) {
    std::vector<std::byte> memory(rpc::hello_bytes_max);
    rpc::FrameHeader header;
    header.kind = rpc::Kind::hello;
    return answer_to(reactor, std::move(listener), frame_of(header, rpc::encode(hello, memory)));
}

Task<Code> answer_to_version(Reactor& reactor, ListenAddress listener, uint16_t version) {
    rpc::FrameHeader header;
    header.kind = rpc::Kind::hello;
    header.version = version;
    return answer_to(reactor, std::move(listener), frame_of(header, {}));
}

Task<> drop(std::unique_ptr<control::ControlClient> client) {
    client.reset();
    co_return;
}

TEST_P(DaemonAttack, InvalidTicketsAreRefused) {
    const uint32_t service = is_dpu() ? hostlink::file_service : remote::object_service;
    const Uuid instance = Uuid::make(reactor->secrets());
    const ListenAddress first = is_over_verbs() ? data_listeners().back() : over_shm();
    ListenAddress listener = first;
    const auto ask = [&](std::string_view ticket, const Uuid& client) {
        return run_blocking(*reactor, [&] {
            return answer_to(*reactor, listener,
                             {.service = service, .client = client, .ticket = ticket});
        });
    };
    EXPECT_EQ(ask("", instance), Code::denied);
    EXPECT_EQ(ask(std::string(session::ticket_bytes, 'x'), instance), Code::denied);
    EXPECT_EQ(ask(std::string(rpc::HelloBody::ticket_bytes_max, 'x'), instance), Code::denied);

    auto control = control_client(*reactor, this->control().address, certificates(), "client");
    const Call call;
    const auto open = [&] {
        return run_blocking(*reactor, [&] {
            return control->open_session(
                call,
                {.client = instance,
                 .purpose = is_dpu() ? session::Purpose::link : session::Purpose::store,
                 .pool = "pool",
                 .program = "test",
                 .providers = {provider()}},
                report);
        });
    };
    const auto opened = open();
    ASSERT_TRUE(opened) << report.text();
    listener.address = opened->address;  // its tenant's, at a DPU
    const std::string good(opened->ticket.ticket.view());
    std::string forged = good;
    forged.back() = static_cast<char>(forged.back() ^ 1);
    EXPECT_EQ(ask(forged, instance), Code::denied);
    EXPECT_EQ(ask(good, instance), Code::cancelled) << "it is good once";
    EXPECT_EQ(ask(good, instance), Code::denied);
    // Another client's ticket. The attempt uses it up.
    const auto second = open();
    ASSERT_TRUE(second) << report.text();
    const std::string stolen(second->ticket.ticket.view());
    EXPECT_EQ(ask(stolen, Uuid::make(reactor->secrets())), Code::denied);
    EXPECT_EQ(ask(stolen, instance), Code::denied);
    run_blocking(*reactor, [&] { return answer_to_version(*reactor, first, 99); });
    EXPECT_EQ(run_blocking(*reactor, [&] { return answer_to_version(*reactor, first, 99); }),
              Code::bad_version);
    expect_counted({"ros2store_server_refused_ticket_total"}, 7);
    expect_counted({"ros2store_server_refused_version_total"}, 2);
    // Destroyed on the core that used it.
    run_blocking(*reactor, [&] { return drop(std::move(control)); });
}

// ---- clients that were admitted

class HostileClients : public DaemonAttack {
  protected:
    void attack(const std::string& how, uint64_t seed) {
        SCOPED_TRACE(fmt::format("{}, seed {}", how, seed));
        const size_t before = descriptors();
        {
            HostileProcess hostile({"unix:" + control().address, certificates(), "client",
                                    is_dpu() ? "dpu" : "engine", "main", provider(),
                                    device_of(provider()), how, std::to_string(seed)});
            hostile.wait();
            // A stopped client keeps its resources, and delays nobody.
            load->expect_progress(100);
        }
        expect_closed(before);
    }
    // hostile_tenants_test runs the same attack on a DPU over shared memory many times.
    [[nodiscard]] static uint64_t seeds_of_long_attacks() {
        return is_dpu() && provider() == "shm" ? 1 : 3;
    }
};
INSTANTIATE_TEST_SUITE_P(Of, HostileClients, testing::Values("engine", "dpu", "dpu_verbs"),
                         [](const auto& info) { return std::string(info.param); });

class ShmClientAttack : public HostileClients {};
INSTANTIATE_TEST_SUITE_P(Of, ShmClientAttack, testing::Values("engine", "dpu"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(ShmClientAttack, GarbageInSharedMemoryIsHarmless) {
    const uint64_t memory = resident_kib();
    for (uint64_t seed = 1; seed <= 3; ++seed) attack("garbage", seed);
    EXPECT_LE(resident_kib(), memory + growth_kib_max);
    // Not every attack ends its session: some random bytes are valid.
    expect_counted(ended_for_what_it_did, 1);
}
TEST_P(ShmClientAttack, FalseIndicesEndOnlyTheirSession) {
    const uint64_t seeds = seeds_of_long_attacks();
    for (uint64_t seed = 1; seed <= seeds; ++seed) attack("indices", seed);
    expect_counted(ended_for_what_it_did, static_cast<double>(seeds));
}

class AdapterClientAttack : public HostileClients {};
INSTANTIATE_TEST_SUITE_P(Of, AdapterClientAttack, testing::Values("dpu_verbs"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(AdapterClientAttack, FalseKeysEndOnlyTheirSession) {
    const std::string refused = "ros2store_fabric_ended_violation_total";
    for (const char* lie : {"forged", "foreign", "stale", "bounded", "rightless"}) {
        const double before = counted(dpu.metrics(), refused);
        attack(lie, 1);
        // The daemon's adapter refuses the key, and the attacker loses its connection.
        expect_counted({refused}, before + 1);
    }
}

// The resources of dead hosts are freed soon, not only after the idle timeout.
TEST_P(HostileClients, DeadClientsAreCleanedUpSoon) {
    const auto sessions = [&] {
        return counted(is_dpu() ? dpu.metrics() : engine.metrics(), "ros2store_sessions");
    };
    const double before = sessions();
    const uint64_t seeds = seeds_of_long_attacks();
    auto begun = std::chrono::steady_clock::now();
    for (uint64_t seed = 1; seed <= seeds; ++seed) {
        begun = std::chrono::steady_clock::now();
        attack("die", seed);
    }
    EXPECT_TRUE(eventually([&] { return sessions() <= before; })) << sessions() << ", " << before;
    const auto took = std::chrono::steady_clock::now() - begun;
    std::printf("the last session was gone after %.1f s\n",
                std::chrono::duration<double>(took).count());
    expect_counted({"ros2store_sessions_reaped_total"}, static_cast<double>(seeds));
    // An adapter may report the memory of an ended process as a false key.
    std::vector<std::string> ends{died};
    if (provider() == "ofi+verbs") ends.emplace_back("ros2store_fabric_ended_violation_total");
    expect_counted(ends, static_cast<double>(seeds));
}
TEST_P(HostileClients, StalledClientsAreEnded) {
    attack("stall", 1);
    expect_counted({died}, 1);
}

}  // namespace
}  // namespace ros2s::tests
