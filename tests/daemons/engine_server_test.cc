// A real ros2store-engine, from a client in this process: over shared memory and over UCX on tcp.
#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <deque>
#include <filesystem>
#include <fstream>
#include <ranges>
#include <thread>

#include "append_load.h"
#include "client.h"
#include "engine_process.h"
#include "eventually.h"
#include "ros2s/fs/dfs.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/os_reactor.h"
#include "ros2s/runtime/run_blocking.h"
#include "scraped.h"
#include "stranger.h"

namespace ros2s::tests {
namespace {

using connection::DirectPool;
using fs::Window;

const Call call;

struct Shape {
    std::string provider;
    uint32_t reactors = 1;
};

class EngineServer : public testing::TestWithParam<Shape> {
  protected:
    EngineServer() {
        engine.listen_on(GetParam().provider);
        engine.write_settings(fmt::format("service: {{reactors: {}}}\n", GetParam().reactors));
    }
    // False, with a sentence in `report`: it cannot be opened.
    bool open() {
        return client.open(*reactor, engine.options(GetParam().provider), report).has_value();
    }
    EngineProcess engine;
    std::unique_ptr<OsReactor> reactor = started_reactor("client");
    Client client;
    Report report;
};

// ---- a whole session

Task<> write_and_read(fs::FileSystem& files) {
    const auto made = co_await files.mkdir(call, fs::root_node, "directory", 0755, {});
    EXPECT_TRUE(made);
    const auto opened = co_await files.create(call, made->node, "file", 0644, {.write = true}, {});
    EXPECT_TRUE(opened);
    std::vector<std::byte> written(5'000'003), read(written.size() + 1);
    for (size_t i = 0; i < written.size(); ++i) written[i] = static_cast<std::byte>(i * 7 >> 3);
    EXPECT_EQ(co_await files.pwrite(call, opened->handle, Window::local(ConstBytes(written)), 0),
              Result<uint64_t>(written.size()));
    EXPECT_EQ(co_await files.pread(call, opened->handle, Window::local(Bytes(read)), 0),
              Result<uint64_t>(written.size()));
    read.resize(written.size());
    EXPECT_TRUE(read == written);
    EXPECT_TRUE(co_await files.rename(call, made->node, "file", fs::root_node, "renamed", {}));
    EXPECT_TRUE(co_await files.lookup(call, fs::root_node, "renamed"));
    EXPECT_TRUE(co_await files.close(call, opened->handle));
}

// -1: it is not there.
double value_in(const std::string& counters, const std::string& name) {
    const size_t at = counters.find("\n" + name + " ");
    return at == std::string::npos ? -1 : std::atof(counters.c_str() + at + name.size() + 2);
}

TEST_P(EngineServer, FileSystemIsServed) {
    ASSERT_TRUE(engine.start());
    ASSERT_TRUE(open()) << report.text();
    EXPECT_TRUE(client.pool().path().starts_with(GetParam().provider + " to "))
        << client.pool().path();
    EXPECT_EQ(client.pool().layers(),
              "VerifyingStore → RemoteStore → Channel → Domain → SessionTickets → ControlClient");
    run_blocking(*reactor, [&] { return write_and_read(client.files()); });
    // Each reactor served a part of it.
    const std::string counters = engine.metrics();
    EXPECT_NE(counters.find(
                  fmt::format("ros2store_engine_cores{{pool=\"pool\"}} {}\n", GetParam().reactors)),
              std::string::npos)
        << counters;
    EXPECT_GT(value_in(counters, "ros2store_reactor_steps_total{reactor=\"0\"}"), 0);
    for (const char* method : {"fetch", "update"}) {
        expect_histogram(counters, "ros2store_request_duration_seconds", method, 1);
    }
    expect_histogram(counters, "ros2store_request_duration_seconds", "destroy_container", 0);
    expect_histogram(counters, "ros2store_control_call_duration_seconds", "OpenSession", 1);
    const double arrivals = value_in(counters, "ros2store_reactor_arrivals_total{reactor=\"1\"}");
    if (GetParam().reactors == 1) {
        EXPECT_EQ(arrivals, -1) << counters;
    } else {
        EXPECT_GT(arrivals, 0) << counters;
    }
    client.close(*reactor);
    EXPECT_EQ(engine.stop(), 0) << engine.log();
    // The pool was closed cleanly. An embedded client finds the file.
    std::string said;
    EXPECT_EQ(run_program(fmt::format("'{}' ls 'ros2s+local:///pool/main?dir={}'", PROGRAM_CLI,
                                      engine.path("pool")),
                          said),
              0);
    EXPECT_NE(said.find("renamed"), std::string::npos) << said;
}

// ---- an engine that stops while a client connects

// The control plane has admitted the client, but nothing listens on the data plane: the engine is
// dying, and is started again.
TEST_P(EngineServer, ClientOfDyingEngineWaitsForTheNext) {
    if (GetParam().provider != "shm") GTEST_SKIP() << "its socket cannot be taken away";
    ASSERT_TRUE(engine.start());
    const std::string listener = engine.places().engine_data;
    std::filesystem::rename(listener, listener + ".away");
    std::atomic<bool> opened = false;
    bool done = false;
    std::thread guest([&] {
        done = open();
        opened = true;
    });
    // Several attempts, then a restart.
    ::usleep(500'000);
    EXPECT_FALSE(opened);
    engine.kill_hard();
    EXPECT_TRUE(engine.start());
    guest.join();
    ASSERT_TRUE(done) << report.text();
    run_blocking(*reactor, [&] { return write_and_read(client.files()); });
    client.close(*reactor);
}

// ---- kill -9, again and again, under load

TEST_P(EngineServer, KilledEngineLosesAndRepeatsNothing) {
    ASSERT_TRUE(engine.start());
    ASSERT_TRUE(open()) << report.text();
    {
        AppendLoad load(*reactor, client.files());
        load.begin();
        // Recovery of an engine does not depend on the provider, so one reconnection is enough for
        // the other providers.
        const unsigned kills = GetParam().provider == "shm" ? 3 : 1;
        for (unsigned kill = 0; kill < kills; ++kill) {
            load.expect_progress(200);
            engine.kill_hard();
            ASSERT_TRUE(engine.start());
        }
        load.expect_progress(200);
        load.end();
        uint64_t restarts = 0;
        client.pool().visit_metrics([&](std::string_view name, std::string_view, uint64_t value) {
            if (name == "ros2store_channel_server_restarts_total") restarts += value;
        });
        EXPECT_GE(restarts, kills);
        load.expect_each_once();
    }
    client.close(*reactor);
}

INSTANTIATE_TEST_SUITE_P(Over, EngineServer,
                         testing::Values(Shape{"shm"}, Shape{"ucx+tcp"}, Shape{"ofi+tcp;ofi_rxm"},
                                         Shape{"tls"}, Shape{"shm", 2}),
                         [](const auto& info) {
                             const std::string& provider = info.param.provider;
                             return std::string(provider == "shm"       ? "Shm"
                                                : provider == "ucx+tcp" ? "UcxTcp"
                                                : provider == "tls"     ? "Tls"
                                                                        : "OfiTcp") +
                                    (info.param.reactors == 1 ? "" : "ByTwoReactors");
                         });

// ---- its log

// An engine whose standard error is a full pipe without a reader.
TEST(EngineLog, UnreadPipeDoesNotStopTheEngine) {
    const EngineProcess engine;  // not started: its settings
    std::array<int, 2> ends{};
    ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    ASSERT_EQ(::fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
    const std::string page(4096, '.');
    while (::write(ends[1], page.data(), page.size()) > 0) {
    }
    ASSERT_EQ(::fcntl(ends[1], F_SETFL, 0), 0);
    const std::string settings = engine.path("engine.yaml");
    const int pid = ::fork();
    if (pid == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        ::dup2(ends[1], STDERR_FILENO);
        ::execl(PROGRAM_ENGINE, PROGRAM_ENGINE, "--config", settings.c_str(), nullptr);
        ::_exit(127);
    }
    // Its last step before it reports that it is ready.
    const auto is_listening = [&] {
        sockaddr_in name{};
        name.sin_family = AF_INET;
        name.sin_port = htons(engine.metrics_port());
        name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        const bool connected =
            ::connect(descriptor, reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0;
        ::close(descriptor);
        return connected;
    };
    EXPECT_TRUE(eventually(is_listening));
    {
        const auto reactor = started_reactor("client");
        Client client;
        Report report;
        EXPECT_TRUE(client.open(*reactor, engine.options("shm"), report)) << report.text();
        client.close(*reactor);
    }
    EXPECT_TRUE(
        eventually([&] { return engine.metrics().contains("ros2store_log_dropped_total 0"); }));
    ::kill(pid, SIGTERM);
    int status = -1, ended = 0;
    EXPECT_TRUE(eventually([&] { return (ended = ::waitpid(pid, &status, WNOHANG)) == pid; }));
    EXPECT_EQ(status, 0);
    if (ended == 0) ::kill(pid, SIGKILL);
    ::close(ends[0]);
    ::close(ends[1]);
}

// ---- systemd's watchdog

// Sets the environment as systemd does, for the lifetime of this object.
class Watchdog {
  public:
    explicit Watchdog(const std::string& path)
        : socket_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
        sockaddr_un name{.sun_family = AF_UNIX, .sun_path = {}};
        path.copy(name.sun_path, sizeof name.sun_path - 1);
        EXPECT_EQ(::bind(socket_, reinterpret_cast<const sockaddr*>(&name), sizeof name), 0);
        const timeval wait{.tv_sec = 60};
        ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
        ::setenv("NOTIFY_SOCKET", path.c_str(), 1);
        ::setenv("WATCHDOG_USEC", "3000000", 1);
    }
    Watchdog& operator=(Watchdog&&) = delete;
    ~Watchdog() {
        ::unsetenv("NOTIFY_SOCKET");
        ::unsetenv("WATCHDOG_USEC");
        ::close(socket_);
    }
    [[nodiscard]] std::string hear() const {
        char text[4096];
        const ssize_t bytes = ::recv(socket_, text, sizeof text, 0);
        return {text, bytes > 0 ? static_cast<size_t>(bytes) : 0};
    }

    // Drops received messages, and counts them.
    [[nodiscard]] int forget() const {
        int count = 0;
        for (char text[4096]; ::recv(socket_, text, sizeof text, MSG_DONTWAIT) > 0;) ++count;
        return count;
    }

  private:
    int socket_;
};

// Stops a thread of another process for the lifetime of this object: the oldest of that name except
// the main thread.
class StoppedThread {
  public:
    StoppedThread(int pid, const std::string& name) {
        const auto tasks = std::filesystem::path("/proc") / std::to_string(pid) / "task";
        for (const auto& task : std::filesystem::directory_iterator(tasks)) {
            std::ifstream file(task.path() / "comm");
            std::string line;
            std::getline(file, line);
            const int id = std::stoi(task.path().filename());
            if (line == name && id != pid && (id_ == 0 || id < id_)) id_ = id;
        }
        EXPECT_EQ(::ptrace(PTRACE_SEIZE, id_, nullptr, nullptr), 0) << name;
        EXPECT_EQ(::ptrace(PTRACE_INTERRUPT, id_, nullptr, nullptr), 0);
        EXPECT_EQ(::waitpid(id_, nullptr, __WALL), id_);
    }
    StoppedThread& operator=(StoppedThread&&) = delete;
    ~StoppedThread() { ::ptrace(PTRACE_DETACH, id_, nullptr, nullptr); }

  private:
    int id_ = 0;
};

TEST(EngineWatchdog, StuckThreadStopsNotifications) {
    EngineProcess engine;
    engine.write_settings("service: {reactors: 2}\n");
    const Watchdog watchdog(engine.path("notify"));
    ASSERT_TRUE(engine.start());
    EXPECT_EQ(watchdog.hear().substr(0, 7), "READY=1");
    for (const auto& [thread, complaint] : {std::pair{"ros2store-engin", "reactor 0 does not run"},
                                            {"ros2store-1", "reactor 1 does not run"},
                                            {"ros2s-accept", "does not accept connections"}}) {
        EXPECT_EQ(watchdog.hear(), "WATCHDOG=1") << "before " << thread << " is stopped";
        const StoppedThread stopped(engine.pid(), thread);
        // The first check after that may still see earlier work of the thread.
        const auto complaints = [&, part = std::string(complaint)] {
            return std::ranges::distance(std::views::split(engine.log(), part)) - 1;
        };
        for (int i = 0; i < 400 && complaints() == 0; ++i)
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
        (void)watchdog.forget();
        for (int i = 0; i < 400 && complaints() < 2; ++i)
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
        EXPECT_GE(complaints(), 2) << engine.log();
        EXPECT_EQ(watchdog.forget(), 0) << thread << " is stopped";
    }
    EXPECT_EQ(watchdog.hear(), "WATCHDOG=1") << "all run again";
    EXPECT_EQ(engine.stop(), 0);
}

// Prometheus drops a whole reply in which a series occurs twice.
TEST(EngineCounters, TwoPoolsHaveSeparateSeries) {
    EngineProcess engine;
    engine.add_pool("second");
    ASSERT_TRUE(engine.start());
    std::istringstream counters(engine.metrics());
    std::set<std::string> series;
    for (std::string line; std::getline(counters, line);) {
        if (!line.starts_with("ros2store_")) continue;
        EXPECT_TRUE(series.insert(line.substr(0, line.rfind(' '))).second) << line;
    }
    EXPECT_TRUE(series.contains("ros2store_device_reads_total{pool=\"pool\"}"));
    EXPECT_TRUE(series.contains("ros2store_device_reads_total{pool=\"second\"}"));
}

// ---- clients that are not admitted, and invalid settings

class EngineRefusals : public testing::Test {
  protected:
    // Opens a client, which must fail with a sentence. Returns the error.
    Error open(connection::Options options, std::string& sentence) {
        Report report;
        const auto reactor = started_reactor("client");
        const auto opened =
            run_blocking(*reactor, [&] { return DirectPool::open(*reactor, options, {}, report); });
        EXPECT_FALSE(opened);
        sentence = report.text();
        return opened ? Error{} : opened.error();
    }
    EngineProcess engine;
};

TEST_F(EngineRefusals, UnavailablePoolOrProviderIsRefused) {
    ASSERT_TRUE(engine.start());
    std::string sentence, said;
    auto options = engine.options("shm");
    options.server.pool = "other";
    EXPECT_EQ(open(options, sentence).code, Code::denied);  // nobody has a right there
    EXPECT_NE(sentence.find("the pool 'other'"), std::string::npos) << sentence;
    EXPECT_EQ(open(engine.options("ucx+rc"), sentence).code, Code::unsupported);
    EXPECT_NE(sentence.find("ucx+tcp"), std::string::npos) << sentence;
    // A certificate of a foreign authority.
    ASSERT_EQ(
        run_program(fmt::format("'{}' certs init '{}'", PROGRAM_CLI, engine.path("strange")), said),
        0);
    options = engine.options("shm");
    options.server.identity = {engine.places().storage_certs + "/ca.crt",
                               engine.path("strange/client.crt"),
                               engine.path("strange/client.key")};
    (void)open(options, sentence);
    EXPECT_FALSE(sentence.empty());
    // It still serves: the attempts above did no harm.
}

// Starts it in the foreground, where it cannot start. Returns its exit status and output.
int start_in_vain(const std::string& arguments, std::string& said) {
    return run_program(fmt::format("timeout 60 '{}' {}", PROGRAM_ENGINE, arguments), said);
}

TEST_F(EngineRefusals, InvalidSettingsAreRefused) {
    std::string said;
    const std::string config = fmt::format("--config '{}'", engine.path("engine.yaml"));
    EXPECT_EQ(start_in_vain("", said), 2);
    EXPECT_NE(said.find("--print-config"), std::string::npos) << said;
    EXPECT_EQ(start_in_vain("--config /nowhere/engine.yaml", said), 1);
    EXPECT_NE(said.find("--print-config"), std::string::npos) << said;
    engine.write_settings("servise: {drain: 1s}\n");
    EXPECT_EQ(start_in_vain(config, said), 1);
    EXPECT_NE(said.find("servise"), std::string::npos) << said;
    engine.write_settings("service: {drain: fast}\n");
    EXPECT_EQ(start_in_vain(config, said), 1);
    EXPECT_NE(said.find("drain"), std::string::npos) << said;
    const std::string authority = engine.path("hosts.crt");
    engine.write_settings(fmt::format("capabilities: {{authority: {}}}\n", authority));
    const auto refuses_authority = [&](const std::string& wrong) {
        EXPECT_EQ(start_in_vain(config, said), 1);
        EXPECT_NE(said.find("'capabilities: authority'"), std::string::npos) << said;
        EXPECT_NE(said.find(wrong), std::string::npos) << said;
    };
    refuses_authority(authority);
    std::ofstream(authority) << "no certificate";
    refuses_authority(authority);
    std::filesystem::copy_file(engine.places().storage_certs + "/ca.crt", authority,
                               std::filesystem::copy_options::overwrite_existing);
    std::ofstream(engine.path("hosts.crl")) << "no list";
    refuses_authority(engine.path("hosts.crl"));
    engine.write_settings();
    EXPECT_EQ(start_in_vain("--print-config", said), 0);
    EXPECT_NE(said.find("ucx_device"), std::string::npos) << said;
}

TEST_F(EngineRefusals, PortInUseIsRefused) {
    const int descriptor = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(engine.metrics_port());
    ASSERT_EQ(::bind(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    ASSERT_EQ(::listen(descriptor, 1), 0);
    std::string said;
    EXPECT_EQ(start_in_vain(fmt::format("--config '{}'", engine.path("engine.yaml")), said), 1);
    EXPECT_NE(said.find(std::to_string(engine.metrics_port())), std::string::npos) << said;
    ::close(descriptor);
}

TEST_F(EngineRefusals, SecondOwnerOfPoolIsRefused) {
    ASSERT_TRUE(engine.start());
    std::string said;
    EXPECT_EQ(start_in_vain(fmt::format("--config '{}'", engine.path("engine.yaml")), said), 1);
    EXPECT_NE(said.find("served by process"), std::string::npos) << said;
    EXPECT_NE(said.find("ros2store-engine"), std::string::npos) << said;
}

TEST_F(EngineRefusals, ScrapeOfCountersIsAnswered) {
    ASSERT_TRUE(engine.start());
    const std::string answer = engine.metrics();
    EXPECT_NE(answer.find("ros2store_server_requests_total{provider=\"ucx+tcp\"} 0"),
              std::string::npos)
        << answer.substr(0, 2000);
    EXPECT_NE(answer.find("# TYPE ros2store_device_reads_total counter"), std::string::npos);
}

// Earlier, one of them could delay all scrapes without limit.
TEST_F(EngineRefusals, SilentScrapersDoNotDelayOthers) {
    ASSERT_TRUE(engine.start());
    const ListenAddress listener{"metrics", fmt::format("127.0.0.1:{}", engine.metrics_port())};
    std::deque<Stranger> silent;
    for (int round = 0; round < 10; ++round) {
        for (int i = 0; i < 40; ++i) {
            silent.emplace_back(listener);
            if (i % 2 == 0) silent.back().say("GET /metrics HTTP/1.1\r\n");
        }
        const auto begin = std::chrono::steady_clock::now();
        const std::string answer = engine.metrics();
        EXPECT_NE(answer.find("ros2store_device_reads_total"), answer.npos) << answer;
        ASSERT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10)) << round;
    }
    EXPECT_TRUE(silent.front().is_hung_up());
}

}  // namespace
}  // namespace ros2s::tests
