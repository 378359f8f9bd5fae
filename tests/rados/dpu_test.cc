// A real ros2store-dpu serves a pool of the cluster that cluster.py has started, and dies under
// load and between the steps of transactions. This process is the host.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "append_load.h"
#include "dpu_process.h"
#include "eventually.h"
#include "name_load.h"
#include "ros2s/connection/host_files.h"
#include "ros2s/runtime/os_reactor.h"
#include "ros2s/runtime/run_blocking.h"
#include "strike.h"

namespace ros2s::tests {
namespace {

using connection::HostFiles;
using testing::HasSubstr;

const Call call;

std::string conf() {
    const char* const path = std::getenv("ROS2STORE_TEST_CEPH_CONF");
    return path == nullptr ? "" : path;  // run it by cluster.py
}

// A path on this machine without a daemon.
std::string uri(const std::string& path = {}) {
    return fmt::format("ros2s+local:///pool/main{}?rados={}&metadata=main&data=data", path, conf());
}
std::string command(const std::string& line) {
    std::string said;
    EXPECT_EQ(run_program(fmt::format("'{}' {}", PROGRAM_CLI, line), said), 0) << line << said;
    return said;
}

std::string names_in(const std::string& path) { return command(fmt::format("ls '{}'", uri(path))); }

// A process that renames and ignores replies. It dies when it enters the function.
void strike_rename(const std::string& from, const std::string& to, const std::string& function) {
    const int pid = ::fork();
    if (pid == 0) {
        (void)::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
        ::execl(PROGRAM_CLI, PROGRAM_CLI, "mv", from.c_str(), to.c_str(), nullptr);
        ::_exit(127);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(pid, &status, 0), pid);
    // Before it runs anything.
    ASSERT_TRUE(WIFSTOPPED(status)) << status;
    strike_at(pid, PROGRAM_CLI, function);
    EXPECT_EQ(::ptrace(PTRACE_DETACH, pid, nullptr, nullptr), 0);
    EXPECT_EQ(::waitpid(pid, &status, 0), pid);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTRAP) << status;
}

class RadosDpu : public testing::Test {
  protected:
    RadosDpu() {
        command(fmt::format("container create '{}'", uri()));
        Report report;
        auto made = OsReactor::create({.thread_name = "host"}, report);
        EXPECT_TRUE(made && (*made)->start(report)) << report.text();
        reactor = std::move(*made);
    }
    ~RadosDpu() override { command(fmt::format("container destroy --yes '{}'", uri())); }

    static std::string pools(const std::string& settings = conf()) {
        return fmt::format("pools:\n  pool: {{rados: {{conf: {}, metadata: main, data: data}}}}\n",
                           settings);
    }
    std::unique_ptr<HostFiles> open(const DpuProcess& which) {
        Report report;
        auto opened = run_blocking(
            *reactor, [&] { return HostFiles::open(*reactor, which.options(), report); });
        EXPECT_TRUE(opened.has_value()) << report.text() << which.log();
        return opened ? std::move(*opened) : nullptr;
    }
    void close(std::unique_ptr<HostFiles>& host) {
        (void)run_blocking(*reactor, [&] { return host->close(); });
        host.reset();
    }
    fs::NodeId make_directory(fs::FileSystem& files, const std::string& name) {
        const auto made = run_blocking(
            *reactor, [&] { return files.mkdir(call, fs::root_node, name, 0755, {}); });
        EXPECT_TRUE(made.has_value());
        return made ? made->node : fs::root_node;
    }

    TemporaryDirectory directory;
    DpuProcess dpu{directory.path("dpu"), pools()};
    std::unique_ptr<OsReactor> reactor;
};

TEST_F(RadosDpu, KilledDpuLosesAndRepeatsNothing) {
    ASSERT_TRUE(dpu.start());
    auto host = open(dpu);
    ASSERT_NE(host, nullptr);
    EXPECT_THAT(host->path(), HasSubstr("Ceph cluster"));
    {
        AppendLoad load(*reactor, host->file_system());
        NameLoad names(*reactor, host->file_system());
        load.begin();
        names.begin();
        for (int kill = 0; kill < 4; ++kill) {
            load.expect_progress(50);
            names.expect_progress(8);
            if (kill == 1) {  // once in good order
                EXPECT_EQ(dpu.stop(), 0) << dpu.log();
            } else {
                dpu.kill_hard();
            }
            ASSERT_TRUE(dpu.start());
        }
        load.expect_progress(50);
        names.expect_progress(8);
        names.end();
        load.end();
        load.expect_each_once();
    }
    close(host);
}

// Hosts of two DPUs use one container. One DPU is killed while both work.
TEST_F(RadosDpu, TwoDpusShareOneContainer) {
    DpuProcess other{directory.path("other"), pools()};
    ASSERT_TRUE(dpu.start() && other.start());
    auto host = open(dpu);
    auto second = open(other);
    ASSERT_TRUE(host != nullptr && second != nullptr);
    {
        AppendLoad load(*reactor, host->file_system());
        NameLoad names(*reactor, host->file_system());
        NameLoad others(*reactor, second->file_system(), "other");
        load.begin();
        names.begin();
        others.begin();
        for (int kill = 0; kill < 2; ++kill) {
            load.expect_progress(20);
            others.expect_progress(8);
            dpu.kill_hard();
            others.expect_progress(8);  // what the dead one has locked does not stop it
            ASSERT_TRUE(dpu.start());
        }
        names.expect_progress(8);
        others.end();
        names.end();
        load.end();
        load.expect_each_once();
    }
    EXPECT_EQ(command(fmt::format("ls '{}'", uri())), "log\n") << "each sees what the other does";
    close(second);
    close(host);
}

// The DPU dies when it enters a step of a rename between two directories. The next reader sees the
// file in one of them. The host's library repeats the rename, which takes effect once.
TEST_F(RadosDpu, RenameInterruptedByDpuDeathIsDoneOnce) {
    ASSERT_TRUE(dpu.start());
    auto host = open(dpu);
    ASSERT_NE(host, nullptr);
    fs::FileSystem& files = host->file_system();
    const fs::NodeId here = make_directory(files, "here"), there = make_directory(files, "there");
    for (const char* const step :
         {"Coordinator::execute", "Coordinator::prepare", "Coordinator::apply", "Tidier::start"}) {
        SCOPED_TRACE(step);
        const auto made = run_blocking(*reactor, [&] {
            return files.create(call, here, "file", 0600, {.write = true, .exclusive = true}, {});
        });
        ASSERT_TRUE(made.has_value()) << describe(made.error());
        EXPECT_TRUE(run_blocking(*reactor, [&] { return files.close(call, made->handle); }));
        dpu.strike_at(fmt::format("ros2s::rados::{}", step));
        Result<> renamed;
        std::thread guest([&] {
            renamed = run_blocking(
                *reactor, [&] { return files.rename(call, here, "file", there, "file", {}); });
        });
        dpu.expect_struck();
        EXPECT_EQ(names_in("/here") + names_in("/there"), "file\n");
        EXPECT_TRUE(dpu.start());
        guest.join();
        EXPECT_TRUE(renamed) << describe(renamed.error());
        EXPECT_EQ(names_in("/here"), "");
        EXPECT_EQ(names_in("/there"), "file\n");
        EXPECT_TRUE(run_blocking(*reactor, [&] { return files.unlink(call, there, "file"); }));
    }
    close(host);
}

// One of the directories decides. The next process completes what the dead process began, and may
// die during it, too.
TEST_F(RadosDpu, InterruptedRenameIsCompletedByTheNext) {
    const std::string file = directory.path("file"), here = uri("/here/file"),
                      there = uri("/there/file");
    std::ofstream(file) << "bytes";
    command(fmt::format("mkdir '{}' '{}'", uri("/here"), uri("/there")));
    command(fmt::format("cp '{}' '{}'", file, here));
    const auto expect_in = [](bool is_there) {
        EXPECT_EQ(names_in("/here"), is_there ? "" : "file\n");
        EXPECT_EQ(names_in("/there"), is_there ? "file\n" : "");
    };
    struct Strike {
        const char* step;
        bool is_done;
    };
    for (const auto& [step, is_done] : {Strike{"Coordinator::decide", false},
                                        {"Coordinator::prepare", false},
                                        {"Coordinator::commit", false},
                                        {"Publisher::apply_rest", true},
                                        {"Coordinator::apply", true}}) {
        SCOPED_TRACE(step);
        strike_rename(here, there, fmt::format("ros2s::rados::{}", step));
        expect_in(is_done);
        if (!is_done) command(fmt::format("mv '{}' '{}'", here, there));
        expect_in(true);
        command(fmt::format("mv '{}' '{}'", there, here));
    }
    for (const char* const step :
         {"Coordinator::commit", "Coordinator::end_pending", "Coordinator::unlock"}) {
        SCOPED_TRACE(step);
        strike_rename(here, there, fmt::format("ros2s::rados::{}", step));
        expect_in(false);
    }
    command(fmt::format("mv '{}' '{}'", here, there));
    expect_in(true);
}

TEST_F(RadosDpu, SilentClusterIsReported) {
    pid_t osd = 0;
    std::ifstream(std::filesystem::path(conf()).parent_path() / "osd.0.pid") >> osd;
    ASSERT_GT(osd, 0);
    const std::string impatient = directory.path("ceph.conf");
    std::ofstream(impatient) << std::ifstream(conf()).rdbuf()
                             << "\n[client]\nrados_osd_op_timeout = 2\n";
    DpuProcess dpu{directory.path("impatient"), pools(impatient)};
    ASSERT_TRUE(dpu.start()) << dpu.log();
    const auto is_reachable = [&] {
        return dpu.metrics().contains(
            "ros2store_engine_reachable{side=\"engine\",pool=\"pool\",provider=\"rados\"} 1");
    };
    EXPECT_TRUE(is_reachable());
    EXPECT_EQ(::kill(osd, SIGSTOP), 0);
    EXPECT_TRUE(eventually([&] { return !is_reachable(); }));
    EXPECT_TRUE(eventually([&] { return dpu.log().contains("does not answer"); }));
    EXPECT_THAT(dpu.log(), HasSubstr(fmt::format(
                               "the Ceph cluster of {}, which has the pool 'pool', does not answer",
                               impatient)));
    EXPECT_EQ(::kill(osd, SIGCONT), 0);
    EXPECT_TRUE(eventually(is_reachable));
    EXPECT_TRUE(eventually([&] { return dpu.log().contains("is back after"); }));
}

TEST_F(RadosDpu, InvalidSettingsAreReported) {
    int count = 0;
    const auto refuses = [&](const std::string& settings, const std::string& sentence) {
        DpuProcess wrong{directory.path(fmt::format("wrong-{}", ++count)), settings};
        std::string said;
        EXPECT_NE(run_program(fmt::format("timeout 60 '{}' --config '{}' 2>&1", PROGRAM_DPU,
                                          wrong.places().dpu_settings),
                              said),
                  0);
        EXPECT_THAT(said, HasSubstr(sentence));
    };
    refuses(fmt::format("pools: {{pool: {{rados: {{conf: {}, metadata: absent}}}}}}\n", conf()),
            "the pool 'pool': the RADOS cluster of " + conf() + " has no pool 'absent'");
    refuses("pools: {pool: {rados: {conf: /nonexistent/ceph.conf}}}\n",
            "cannot read the Ceph configuration /nonexistent/ceph.conf");
    refuses("pools: {pool: {rados: {conf: x, sweep: often}}}\n", "'sweep'");
    refuses("pools: {pool: {rados: {config: x}}}\n", "did you mean \"conf\"?");
}

}  // namespace
}  // namespace ros2s::tests
