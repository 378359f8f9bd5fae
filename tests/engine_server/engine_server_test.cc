// A real ros2store-engine, from a client in this process: over shared memory and over UCX on tcp.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <map>

#include "engine_process.h"
#include "ros2s/fs/dfs.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/os_reactor.h"
#include "ros2s/runtime/run_blocking.h"

namespace ros2s::tests {
namespace {

using direct::DirectPool;
using fs::FileHandle;
using fs::Window;

const Call call;

// A client with its file system on the engine's container "main".
struct Client {
    Task<> open(OsReactor& reactor, direct::DirectOptions options) {
        Report report;
        auto opened = co_await DirectPool::open(reactor, std::move(options), {}, report);
        EXPECT_TRUE(opened) << report.text();
        if (!opened) co_return;
        pool = std::move(*opened);
        const auto containers = co_await pool->store().list_containers(call);
        EXPECT_TRUE(containers && containers->size() == 1);
        auto mounted = co_await fs::Dfs::mount(call, pool->store(), containers->front().id, reactor,
                                               {}, report);
        EXPECT_TRUE(mounted) << report.text();
        files = std::move(*mounted);
    }
    Task<> close() {
        if (files) co_await files->close_all();
        files.reset();
        if (pool) co_await pool->close();
        pool.reset();
    }
    [[nodiscard]] uint64_t counter(std::string_view name) const {
        uint64_t found = 0;
        pool->visit_metrics([&](std::string_view each, std::string_view, uint64_t value) {
            if (each == name) found += value;
        });
        return found;
    }
    std::unique_ptr<DirectPool> pool;
    std::unique_ptr<fs::FileSystem> files;
};

class EngineServer : public testing::TestWithParam<const char*> {
  protected:
    EngineServer() {
        Report report;
        auto made = OsReactor::create({.thread_name = "client"}, report);
        EXPECT_TRUE(made && (*made)->start(report)) << report.text();
        reactor = std::move(*made);
    }
    EngineProcess engine;
    std::unique_ptr<OsReactor> reactor;
    Client client;
};

// ---- a session from beginning to end

Task<> write_and_read(Client& client) {
    fs::FileSystem& files = *client.files;
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

TEST_P(EngineServer, ServesAFileSystem) {
    ASSERT_TRUE(engine.start());
    run_blocking(*reactor, [&] { return client.open(*reactor, engine.options(GetParam())); });
    ASSERT_NE(client.files, nullptr);
    EXPECT_TRUE(client.pool->path().starts_with(std::string(GetParam()) + " to "))
        << client.pool->path();
    run_blocking(*reactor, [&] { return write_and_read(client); });
    run_blocking(*reactor, [&] { return client.close(); });
    EXPECT_EQ(engine.stop(), 0) << engine.log();
    // Closed cleanly, and the file is there for whoever opens the pool itself.
    std::string said;
    EXPECT_EQ(run_program(fmt::format("'{}' ls 'ros2s+local:///pool/main?dir={}'", PROGRAM_CLI,
                                      engine.path("pool")),
                          said),
              0);
    EXPECT_NE(said.find("renamed"), std::string::npos) << said;
}

// ---- kill -9, again and again, under load

constexpr size_t record_bytes = 4096;

struct Load {
    Client& client;
    FileHandle file;
    bool stop = false;
    uint64_t acknowledged = 0;
};

// Appends numbered records until it is told to stop; each is in the file exactly once.
Task<> append(Load& load, uint32_t writer) {
    std::vector<std::byte> record(record_bytes);
    for (uint32_t number = 0; !load.stop; ++number) {
        std::memcpy(record.data(), &writer, sizeof writer);
        std::memcpy(record.data() + sizeof writer, &number, sizeof number);
        const auto written = co_await load.client.files->pwrite(
            call, load.file, Window::local(ConstBytes(record)), 0);
        EXPECT_TRUE(written) << describe(written.error());
        if (!written) co_return;
        ++load.acknowledged;
    }
}

constexpr uint32_t writers = 8;

Task<> run_load(OsReactor& reactor, Load& load) {
    Nursery nursery(reactor, writers);
    for (uint32_t i = 0; i < writers; ++i) co_await nursery.spawn(append(load, i));
    co_await nursery.join();
}

Task<> open_log(Client& client, FileHandle& file) {
    const auto opened = co_await client.files->create(call, fs::root_node, "log", 0644,
                                                      {.write = true, .append = true}, {});
    EXPECT_TRUE(opened);
    if (opened) file = opened->handle;
}

Task<> expect_each_once(Client& client, FileHandle file, uint64_t acknowledged) {
    std::map<uint32_t, uint32_t> next;
    std::vector<std::byte> record(record_bytes);
    uint64_t records = 0;
    for (;; ++records) {
        const auto read = co_await client.files->pread(call, file, Window::local(Bytes(record)),
                                                       records * record_bytes);
        EXPECT_TRUE(read);
        if (!read || *read == 0) break;
        uint32_t writer = 0, number = 0;
        std::memcpy(&writer, record.data(), sizeof writer);
        std::memcpy(&number, record.data() + sizeof writer, sizeof number);
        EXPECT_EQ(number, next[writer]++) << "of writer " << writer;
    }
    EXPECT_EQ(records, acknowledged);
}

TEST_P(EngineServer, KilledUnderLoadItLosesNothingAndDoublesNothing) {
    ASSERT_TRUE(engine.start());
    run_blocking(*reactor, [&] { return client.open(*reactor, engine.options(GetParam())); });
    ASSERT_NE(client.files, nullptr);
    Load load{.client = client, .file = {}};
    run_blocking(*reactor, [&] { return open_log(client, load.file); });
    Nursery* nursery = nullptr;
    Task<> (*begin)(OsReactor&, Load&, Nursery*&) = [](OsReactor& on, Load& what,
                                                       Nursery*& where) -> Task<> {
        where = new Nursery(on, 1);
        co_await where->spawn(run_load(on, what));
    };
    run_blocking(*reactor, [&] { return begin(*reactor, load, nursery); });
    const auto acknowledged = [&] {
        uint64_t now = 0;
        Task<> (*look)(Load&, uint64_t&) = [](Load& what, uint64_t& into) -> Task<> {
            into = what.acknowledged;
            co_return;
        };
        run_blocking(*reactor, [&] { return look(load, now); });
        return now;
    };
    for (int kill = 0; kill < 3; ++kill) {
        // Some progress first, so that requests are on their way.
        const uint64_t before = acknowledged();
        for (int i = 0; i < 60'000 && acknowledged() < before + 200; ++i) ::usleep(1000);
        EXPECT_GE(acknowledged(), before + 200);
        engine.kill_hard();
        ASSERT_TRUE(engine.start());
    }
    Task<> (*end)(Load&, Nursery*) = [](Load& what, Nursery* where) -> Task<> {
        what.stop = true;
        co_await where->join();
        delete where;
    };
    run_blocking(*reactor, [&] { return end(load, nursery); });
    EXPECT_GE(client.counter("ros2store_channel_server_restarts_total"), 3U);
    run_blocking(*reactor, [&] { return expect_each_once(client, load.file, load.acknowledged); });
    run_blocking(*reactor, [&] { return client.close(); });
    EXPECT_EQ(engine.stop(), 0) << engine.log();
}

INSTANTIATE_TEST_SUITE_P(Over, EngineServer, testing::Values("shm", "ucx+tcp"),
                         [](const auto& info) {
                             return std::string(info.param) == "shm" ? "Shm" : "UcxTcp";
                         });

// ---- who is not let in, and what cannot start

class EngineRefuses : public testing::Test {
  protected:
    // The error of opening, which has a sentence.
    Error open(direct::DirectOptions options, std::string& sentence) {
        Report report;
        auto reactor = OsReactor::create({.thread_name = "client"}, report);
        EXPECT_TRUE(reactor && (*reactor)->start(report)) << report.text();
        const auto opened = run_blocking(
            **reactor, [&] { return DirectPool::open(**reactor, options, {}, report); });
        EXPECT_FALSE(opened);
        sentence = report.text();
        return opened ? Error{} : opened.error();
    }
    EngineProcess engine;
};

TEST_F(EngineRefuses, WhatItDoesNotHave) {
    ASSERT_TRUE(engine.start());
    std::string sentence, said;
    auto options = engine.options("shm");
    options.pool = "other";
    EXPECT_EQ(open(options, sentence).code, Code::not_found);
    EXPECT_NE(sentence.find("there is pool"), std::string::npos) << sentence;
    EXPECT_EQ(open(engine.options("ucx+rc"), sentence).code, Code::unsupported);
    EXPECT_NE(sentence.find("ucx+tcp"), std::string::npos) << sentence;
    // A certificate of somebody else's authority.
    ASSERT_EQ(
        run_program(fmt::format("'{}' certs init '{}'", PROGRAM_CLI, engine.path("strange")), said),
        0);
    options = engine.options("shm");
    options.identity = {engine.path("certs/ca.crt"), engine.path("strange/client.crt"),
                        engine.path("strange/client.key")};
    (void)open(options, sentence);
    EXPECT_FALSE(sentence.empty());
    // It serves on: the others above did it no harm.
    EXPECT_EQ(engine.stop(), 0) << engine.log();
}

// Its exit status and what it said, started in the foreground where it cannot start.
int start_in_vain(const std::string& arguments, std::string& said) {
    return run_program(fmt::format("timeout 60 '{}' {}", PROGRAM_ENGINE, arguments), said);
}

TEST_F(EngineRefuses, SettingsThatMakeNoSense) {
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
    engine.write_settings();
    EXPECT_EQ(start_in_vain("--print-config", said), 0);
    EXPECT_NE(said.find("ucx_device"), std::string::npos) << said;
}

TEST_F(EngineRefuses, APortThatIsTaken) {
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

TEST_F(EngineRefuses, ASecondOwnerOfItsPool) {
    ASSERT_TRUE(engine.start());
    std::string said;
    EXPECT_NE(run_program(fmt::format("'{}' ls 'ros2s+local:///pool/main?dir={}'", PROGRAM_CLI,
                                      engine.path("pool")),
                          said),
              0);
    EXPECT_NE(said.find("ros2store-engine"), std::string::npos) << said;
    EXPECT_EQ(engine.stop(), 0) << engine.log();
}

TEST_F(EngineRefuses, NobodyWhoAsksForItsCounters) {
    ASSERT_TRUE(engine.start());
    const int descriptor = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(engine.metrics_port());
    ASSERT_EQ(::connect(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    const std::string_view request = "GET /metrics HTTP/1.0\r\n\r\n";
    ASSERT_EQ(::send(descriptor, request.data(), request.size(), 0),
              static_cast<ssize_t>(request.size()));
    std::string answer;
    char part[4096];
    for (ssize_t bytes = 0; (bytes = ::recv(descriptor, part, sizeof part, 0)) > 0;) {
        answer.append(part, static_cast<size_t>(bytes));
    }
    ::close(descriptor);
    EXPECT_NE(answer.find("ros2store_server_requests_total{provider=\"ucx+tcp\"} 0"),
              std::string::npos)
        << answer.substr(0, 2000);
    EXPECT_NE(answer.find("# TYPE ros2store_device_reads_total counter"), std::string::npos);
    EXPECT_EQ(engine.stop(), 0) << engine.log();
}

}  // namespace
}  // namespace ros2s::tests
