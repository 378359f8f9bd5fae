// Offload with real daemons: this process is the host. It uses a ros2store-dpu over shared memory
// and gRPC, which uses a ros2store-engine.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "append_load.h"
#include "dpu_host.h"
#include "dpu_process.h"
#include "name_load.h"
#include "peers.h"
#include "scraped.h"

namespace ros2s::tests {
namespace {

using fs::Window;
using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

const Call call;

class DpuServer : public testing::TestWithParam<const char*> {
  protected:
    // The path report of a file that is open on a host. It names what is behind the DPU, but not
    // its address.
    void expect_path(const std::string& path) {
        EXPECT_TRUE(path.starts_with("host link over shm to the DPU at ")) << path;
        EXPECT_THAT(path, HasSubstr(fmt::format(", {} to its engine, ", GetParam())));
        EXPECT_THAT(path, EndsWith(" 1 device"));
        EXPECT_THAT(path, Not(HasSubstr(engine.places().engine_data)));
    }
    DpuServer() {
        reactor = started_reactor("host");
        engine.listen_on(GetParam());
        engine.write_settings();
    }
    std::unique_ptr<HostFiles> open(Report& report) {
        return open_host(*reactor, dpu.options(), report);
    }
    void close(std::unique_ptr<HostFiles>& host) { close_host(*reactor, host); }
    EngineProcess engine;
    DpuProcess dpu{engine, GetParam()};
    std::unique_ptr<OsReactor> reactor;
};

TEST_P(DpuServer, FilesAreServedToHosts) {
    dpu.trace_each_request();
    ASSERT_TRUE(engine.start() && dpu.start());
    Report report;
    auto host = open(report);
    auto other = open(report);
    ASSERT_TRUE(host != nullptr && other != nullptr) << report.text() << dpu.log();
    expect_path(run_blocking(*reactor, [&] {
                    return write_and_read(host->file_system(), other->file_system(),
                                          five_megabytes());
                }).path);
    const std::string counters = dpu.metrics();
    for (const char* method : {"read", "write", "make_directory", "create", "open", "close"}) {
        expect_histogram(counters, "ros2store_request_duration_seconds", method, 1);
    }
    for (const char* method : {"OpenSession", "Mount"}) {
        expect_histogram(counters, "ros2store_control_call_duration_seconds", method, 1);
    }
    // A trace has the steps of the DPU and of the engine, and names the tenant.
    const std::string traces = dpu.traces();
    EXPECT_THAT(traces, AllOf(HasSubstr(R"("traceEvents": [)"), HasSubstr("\"read of CN=client\""),
                              HasSubstr("\"dpu.serve\""), HasSubstr("\"rpc.queue\""),
                              HasSubstr("\"engine.fetch\""), HasSubstr("\"device.read\"")));
    close(other);
    close(host);
}

TEST_P(DpuServer, KilledEngineLosesAndRepeatsNothing) {
    ASSERT_TRUE(engine.start() && dpu.start());
    Report report;
    auto host = open(report);
    ASSERT_NE(host, nullptr) << report.text() << dpu.log();
    {
        AppendLoad load(*reactor, host->file_system());
        load.begin();
        // Recovery of an engine does not depend on the provider, so one reconnection is enough for
        // the other providers.
        const int kills = std::string_view(GetParam()) == "shm" ? 3 : 1;
        for (int kill = 0; kill < kills; ++kill) {
            load.expect_progress(200);
            engine.kill_hard();
            ASSERT_TRUE(engine.start());
        }
        load.expect_progress(200);
        load.end();
        load.expect_each_once();
    }
    close(host);
}

// The open descriptors of the host's process: no device, and no socket to the engine or to any IP
// address.
TEST_P(DpuServer, HostHasNoStorageDescriptors) {
    ASSERT_TRUE(engine.start() && dpu.start());
    Report report;
    auto host = open(report);
    ASSERT_NE(host, nullptr) << report.text() << dpu.log();
    size_t looked = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
        std::error_code gone;
        const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
        if (gone) continue;
        ++looked;
        EXPECT_EQ(target.find(engine.pool_directory()), std::string::npos) << target;
    }
    EXPECT_GT(looked, 5U);
    const Peers peers = peers_of_this_process();
    EXPECT_THAT(peers.processes, ElementsAre(dpu.pid()));
    EXPECT_THAT(peers.inet, IsEmpty());
    for (const char* provider : {"shm", "ucx+tcp"}) {  // which would be seen
        const auto trusted = run_blocking(*reactor, [&] {
            return connection::DirectPool::open(*reactor, engine.options(provider), {}, report);
        });
        ASSERT_TRUE(trusted) << report.text();
        const Peers now = peers_of_this_process();
        EXPECT_TRUE(now.processes.contains(engine.pid())) << provider;
        EXPECT_EQ(now.inet.empty(), provider == std::string_view("shm")) << provider;
        (void)run_blocking(*reactor, [&] { return (*trusted)->close(); });
    }
    // Its certificate has no right at the engine.
    connection::Options stolen = engine.options("shm");
    stolen.server.identity = dpu.options().dpu.identity;
    const auto direct = run_blocking(
        *reactor, [&] { return connection::DirectPool::open(*reactor, stolen, {}, report); });
    EXPECT_FALSE(direct);
    close(host);
}

TEST_P(DpuServer, KilledDpuLosesAndRepeatsNothing) {
    ASSERT_TRUE(engine.start() && dpu.start());
    Report report;
    auto host = open(report);
    ASSERT_NE(host, nullptr) << report.text() << dpu.log();
    {
        AppendLoad load(*reactor, host->file_system());
        NameLoad names(*reactor, host->file_system());
        load.begin();
        names.begin();
        // Host and DPU always use shm. With another provider behind the DPU, killing both once is
        // enough.
        const int first = std::string_view(GetParam()) == "shm" ? 0 : 3;
        for (int kill = first; kill < 4; ++kill) {
            load.expect_progress(200);
            names.expect_progress(20);
            if (kill == 1) {  // once in good order
                EXPECT_EQ(dpu.stop(), 0) << dpu.log();
            } else {
                dpu.kill_hard();
            }
            if (kill == 3) {  // and once both
                engine.kill_hard();
                ASSERT_TRUE(engine.start());
            }
            ASSERT_TRUE(dpu.start());
        }
        load.expect_progress(200);
        names.expect_progress(20);
        names.end();
        load.end();
        load.expect_each_once();
    }
    close(host);
}

// The provider between DPU and engine does not matter here.
class DpuServerOverShm : public DpuServer {
  protected:
    void expect_what_is_open_stays(bool killed);
    // Until a host has its session and its connection.
    void await_a_host() const {
        const std::string entered =
            "ros2store_server_connections_greeted_total{provider=\"shm\",tenant=\"CN=client\"} 1\n";
        const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
        while (dpu.metrics().find(entered) == std::string::npos) {
            ASSERT_LT(std::chrono::steady_clock::now(), until);
            ::usleep(10'000);
        }
    }
};

constexpr int names_in_directory = 50;

struct OpenHandles {
    fs::FileHandle file, unlinked, directory;
    std::vector<fs::DirectoryEntry> listed;
};

Task<> open_things(fs::FileSystem& files, OpenHandles& kept) {
    const auto directory = co_await files.mkdir(call, fs::root_node, "d", 0755, {});
    EXPECT_TRUE(directory);
    for (int i = 0; i < names_in_directory; ++i) {
        EXPECT_TRUE(co_await files.mknod(call, directory->node, fmt::format("n{}", i),
                                         S_IFREG | 0644, 0, {}));
    }
    const fs::OpenFlags writable{.write = true};
    const auto file = co_await files.create(call, fs::root_node, "f", 0644, writable, {});
    const auto unlinked = co_await files.create(call, fs::root_node, "u", 0644, writable, {});
    const auto listing = co_await files.open(call, directory->node, {});
    EXPECT_TRUE(file && unlinked && listing);
    kept = {.file = file->handle,
            .unlinked = unlinked->handle,
            .directory = listing->handle,
            .listed = {}};
    for (const fs::FileHandle each : {kept.file, kept.unlinked}) {
        EXPECT_TRUE(co_await files.pwrite(call, each, Window::local(as_bytes("before")), 0));
    }
    EXPECT_TRUE(co_await files.unlink(call, fs::root_node, "u"));
    const auto some = co_await files.readdir(call, kept.directory, 0, 20);
    EXPECT_TRUE(some);
    kept.listed = *some;
}

// The walk returns each name once, although the DPU restarted in the middle.
Task<> use_things(fs::FileSystem& files, OpenHandles& kept) {
    for (const fs::FileHandle each : {kept.file, kept.unlinked}) {
        const auto written =
            co_await files.pwrite(call, each, Window::local(as_bytes(" after")), 6);
        EXPECT_TRUE(written) << describe(written.error());
        std::string text(20, '?');
        const auto read = co_await files.pread(
            call, each, Window::local(std::as_writable_bytes(std::span(text))), 0);
        text.resize(read.value_or(0));
        EXPECT_EQ(text, "before after");
    }
    std::set<std::string> seen;
    for (const fs::DirectoryEntry& entry : kept.listed) seen.insert(entry.name);
    for (size_t total = kept.listed.size(); !kept.listed.empty(); total += kept.listed.size()) {
        EXPECT_EQ(seen.size(), total);
        const auto more =
            co_await files.readdir(call, kept.directory, kept.listed.back().cookie, 20);
        EXPECT_TRUE(more) << describe(more.error());
        kept.listed = more.value_or(std::vector<fs::DirectoryEntry>{});
        for (const fs::DirectoryEntry& entry : kept.listed) seen.insert(entry.name);
    }
    EXPECT_EQ(seen.size(), static_cast<size_t>(names_in_directory));
}

Task<> close_things(fs::FileSystem& files, const OpenHandles& kept) {
    for (const fs::FileHandle each : {kept.file, kept.unlinked, kept.directory}) {
        EXPECT_TRUE(co_await files.close(call, each));
        EXPECT_FALSE(co_await files.close(call, each));
    }
}

void DpuServerOverShm::expect_what_is_open_stays(bool killed) {
    ASSERT_TRUE(engine.start() && dpu.start());
    Report report;
    auto host = open(report);
    ASSERT_NE(host, nullptr) << report.text() << dpu.log();
    fs::FileSystem& files = host->file_system();
    OpenHandles kept;
    run_blocking(*reactor, [&] { return open_things(files, kept); });
    if (killed) {
        dpu.kill_hard();
    } else {
        EXPECT_EQ(dpu.stop(), 0) << dpu.log();
    }
    ASSERT_TRUE(dpu.start());
    run_blocking(*reactor, [&] { return use_things(files, kept); });
    // Also names. Their server is another process now.
    EXPECT_TRUE(run_blocking(*reactor,
                             [&] { return files.mkdir(call, fs::root_node, "after", 0755, {}); }));
    run_blocking(*reactor, [&] { return close_things(files, kept); });
    close(host);
}
// The DPU dies when a host has a session and a connection, but no mount: the DPU was waiting for an
// engine that does not answer.
TEST_P(DpuServerOverShm, HostOfDyingDpuWaitsForTheNext) {
    ASSERT_TRUE(engine.start() && dpu.start());
    ASSERT_EQ(::kill(engine.pid(), SIGSTOP), 0);
    std::unique_ptr<HostFiles> host;
    Report report;
    std::thread guest([&] { host = open(report); });
    await_a_host();
    ::usleep(200'000);
    dpu.kill_hard();
    EXPECT_EQ(::kill(engine.pid(), SIGCONT), 0);
    EXPECT_TRUE(dpu.start());
    guest.join();
    ASSERT_NE(host, nullptr) << report.text();
    EXPECT_TRUE(run_blocking(*reactor, [&] {
        return host->file_system().mkdir(call, fs::root_node, "directory", 0755, {});
    }));
    close(host);
}

// The DPU never answers the host's Mount, because its engine hangs.
TEST_P(DpuServerOverShm, UnansweredMountTimesOut) {
    ASSERT_TRUE(engine.start() && dpu.start());
    ASSERT_EQ(::kill(engine.pid(), SIGSTOP), 0);
    Result<std::unique_ptr<HostFiles>> host = fail(Code::unsupported);
    std::thread guest([&] {
        Report report;
        host = run_blocking(*reactor,
                            [&] { return HostFiles::open(*reactor, dpu.options(), report); });
    });
    await_a_host();
    guest.join();
    EXPECT_TRUE(!host && host.error().code == Code::deadline);
    if (host) close(*host);
    EXPECT_EQ(::kill(engine.pid(), SIGCONT), 0);
}

Task<std::string> layers_of(const HostFiles& host) { co_return host.layers(); }

// Unmounting gets no answer.
TEST_P(DpuServerOverShm, HangingDaemonDoesNotBlockUnmount) {
    ASSERT_TRUE(engine.start() && dpu.start());
    Report report;
    auto host = open(report);
    ASSERT_NE(host, nullptr) << report.text() << dpu.log();
    ASSERT_EQ(::kill(dpu.pid(), SIGSTOP), 0);
    std::thread leaving([&] { (void)run_blocking(*reactor, [&] { return host->close(); }); });
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(40);
    bool is_unmounted = false;
    while (!is_unmounted && std::chrono::steady_clock::now() < until) {
        ::usleep(50'000);
        const std::string layers = run_blocking(*reactor, [&] { return layers_of(*host); });
        is_unmounted = layers.find("HostMountLocator") == layers.npos;
    }
    EXPECT_TRUE(is_unmounted) << "it waits for the daemon";
    // Closing the session would wait for the same time again.
    EXPECT_EQ(::kill(dpu.pid(), SIGCONT), 0);
    leaving.join();
    host.reset();
}

TEST_P(DpuServerOverShm, OpenFilesSurviveADpuKill) { expect_what_is_open_stays(true); }
TEST_P(DpuServerOverShm, OpenFilesSurviveADpuStop) { expect_what_is_open_stays(false); }

INSTANTIATE_TEST_SUITE_P(Behind, DpuServerOverShm, testing::Values("shm"));
INSTANTIATE_TEST_SUITE_P(Behind, DpuServer, testing::Values("shm", "ucx+tcp", "ofi+tcp;ofi_rxm"),
                         [](const auto& info) {
                             const std::string provider = info.param;
                             return provider == "shm"       ? "Shm"
                                    : provider == "ucx+tcp" ? "UcxTcp"
                                                            : "OfiTcp";
                         });

// ---- settings

TEST(DpuSettings, TrustedPeerProvidersAreRefusedForHosts) {
    const TemporaryDirectory directory;
    for (const char* provider :
         {"ucx+tcp", "ucx+rc", "ucx+dc_x", "ofi+tcp;ofi_rxm", "ofi+verbs;ofi_rxm"}) {
        std::string said;
        std::ofstream(directory.path("dpu.yaml"))
            << fmt::format("pools: p\ndata: {{listen: '{} 127.0.0.1:1'}}\n", provider);
        EXPECT_EQ(
            run_program(fmt::format("'{}' --config '{}'", PROGRAM_DPU, directory.path("dpu.yaml")),
                        said),
            1);
        EXPECT_NE(said.find(fmt::format("{}, which is for trusted peers only", provider)),
                  std::string::npos)
            << said;
    }
}

}  // namespace
}  // namespace ros2s::tests
