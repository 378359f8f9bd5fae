// A real ros2store-dpu that serves a pool of DAOS. Here the pool is an embedded pool of ROS2,
// behind the library of plugins/daos. This process is the host, over shared memory and gRPC.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "dpu_host.h"
#include "dpu_process.h"

namespace ros2s::tests {
namespace {

using fs::Window;
using testing::HasSubstr;
using testing::Not;

const Call call;

class DpuDaos : public testing::Test {
  protected:
    DpuDaos() {
        std::string said;
        EXPECT_EQ(run_program(fmt::format("'{}' up --no-daemons '{}' --size 256MiB", PROGRAM_CLI,
                                          directory.path("pool")),
                              said),
                  0)
            << said;
        // The daemon inherits them.
        ::setenv("LD_LIBRARY_PATH", DAOS_LIBRARIES, 1);
        ::setenv("ROS2STORE_DAOS",
                 fmt::format("ros2s+local:///pool?dir={}", directory.path("pool")).c_str(), 1);
        dpu.give("\"CN=client\": {write: tank/*}");
        reactor = started_reactor("host");
    }
    ~DpuDaos() override {
        ::unsetenv("LD_LIBRARY_PATH");
        ::unsetenv("ROS2STORE_DAOS");
    }
    std::unique_ptr<HostFiles> open(Report& report, const std::string& container = "main") {
        return open_host(*reactor, dpu.options("tank", container), report);
    }
    void close(std::unique_ptr<HostFiles>& host) { close_host(*reactor, host); }
    // The error of a daemon that does not start with these settings.
    std::string refused(const std::string& serves) {
        std::ofstream(directory.path("other.yaml")) << serves;
        std::string said;
        EXPECT_EQ(
            run_program(
                fmt::format("'{}' --config '{}'", PROGRAM_DPU, directory.path("other.yaml")), said),
            1);
        return said;
    }
    TemporaryDirectory directory;
    DpuProcess dpu{directory.path("dpu"), "pools: {tank: {daos: {pool: label}}}\n"};
    std::unique_ptr<OsReactor> reactor;
};

TEST_F(DpuDaos, HostUsesADaosContainer) {
    ASSERT_TRUE(dpu.start()) << dpu.log();
    Report report;
    auto host = open(report);
    auto other = open(report);
    ASSERT_TRUE(host != nullptr && other != nullptr) << report.text() << dpu.log();
    const FileOfBoth file = run_blocking(*reactor, [&] {
        return write_and_read(host->file_system(), other->file_system(), five_megabytes(),
                              {.uid = 7, .gid = 8});
    });
    EXPECT_EQ(file.attributes.uid, 7U);
    EXPECT_EQ(file.attributes.gid, 8U);
    EXPECT_THAT(file.path, HasSubstr("host link over shm to the DPU at "));
    EXPECT_THAT(file.path, HasSubstr("which keeps tank/main in DAOS"));
    const auto linked = run_blocking(*reactor, [&] {
        return host->file_system().link(call, file.attributes.node, fs::root_node, "hard");
    });
    EXPECT_EQ(linked.error().code, Code::unsupported);
    close(other);
    close(host);
    Report none;
    EXPECT_EQ(open(none, "none"), nullptr);
    EXPECT_THAT(none.text(), HasSubstr("none"));
    EXPECT_EQ(dpu.stop(), 0) << dpu.log();
    EXPECT_THAT(dpu.log(),
                HasSubstr("the pool 'tank' is 'label' of the DAOS system 'daos_server'"));
}

TEST_F(DpuDaos, ContainersAreListedButNotManaged) {
    // A pool without containers is served, too.
    std::string said;
    ASSERT_EQ(run_program(fmt::format("'{}' container destroy --yes "
                                      "'ros2s+local:///pool/main?dir={}'",
                                      PROGRAM_CLI, directory.path("pool")),
                          said),
              0)
        << said;
    const auto container = [&](std::string_view command, std::string_view place) {
        return run_program(fmt::format("'{}' container {} 'ros2s+dpu:///{}?dir={}'", PROGRAM_CLI,
                                       command, place, directory.path("dpu")),
                           said);
    };
    ASSERT_TRUE(dpu.start()) << dpu.log();
    EXPECT_EQ(container("list", "tank"), 0) << said;
    EXPECT_THAT(said, Not(HasSubstr("main")));
    EXPECT_EQ(dpu.stop(), 0) << dpu.log();
    EXPECT_EQ(run_program(fmt::format("'{}' container create 'ros2s+local:///pool/made?dir={}'",
                                      PROGRAM_CLI, directory.path("pool")),
                          said),
              0)
        << said;
    ASSERT_TRUE(dpu.start()) << dpu.log();
    EXPECT_EQ(container("list", "tank"), 0) << said;
    EXPECT_THAT(said, HasSubstr("ros2s+dpu:///tank/made?dir="));
    for (const char* command : {"query", "create", "destroy --yes"}) {
        EXPECT_EQ(container(command, "tank/made"), 1) << said;
        EXPECT_THAT(said, HasSubstr("the containers of 'tank' are DAOS's: its tools make and"));
    }
}

TEST_F(DpuDaos, InvalidSettingsAreReported) {
    EXPECT_THAT(refused("pools: {tank: {daos: {system: x}}}\n"),
                HasSubstr("pools: 'tank' has no 'pool'"));
    EXPECT_THAT(refused("pools: {a/b: {daos: {pool: x}}}\n"),
                HasSubstr("pools: 'a/b' is not a valid name"));
    EXPECT_THAT(refused("pools: {tank: {daos: {pool: x}}}\ndirectories: {tank/a: /tmp}\n"),
                HasSubstr("is the name of a pool of 'directories' too"));
    EXPECT_THAT(refused("pools: {tank: {daos: {pol: x}}}\n"), HasSubstr("did you mean \"pool\"?"));
    // A label of no pool.
    ::setenv("ROS2STORE_DAOS", "ros2s+local:///pool?dir=/nowhere", 1);
    EXPECT_THAT(refused("pools: {tank: {daos: {pool: label}}}\n"),
                HasSubstr("DAOS: the pool 'label' of the system 'daos_server' cannot be opened"));
    // No library, and a library that is not DAOS's.
    ::unsetenv("LD_LIBRARY_PATH");
    EXPECT_THAT(refused("pools: {tank: {daos: {pool: label}}}\n"),
                HasSubstr("DAOS needs the library libdfs.so, which cannot be loaded"));
    const std::string other = directory.path("library");
    std::filesystem::create_directory(other);
    std::filesystem::create_symlink("/lib/x86_64-linux-gnu/libm.so.6", other + "/libdfs.so");
    ::setenv("LD_LIBRARY_PATH", other.c_str(), 1);
    EXPECT_THAT(refused("pools: {tank: {daos: {pool: label}}}\n"),
                HasSubstr("has no function daos_init"));
    ::setenv("LD_LIBRARY_PATH", OTHER_DAOS, 1);
    EXPECT_THAT(refused("pools: {tank: {daos: {pool: label}}}\n"),
                HasSubstr("libdfs.so, with the interface 2.7, and this one has 2.9.1. Install"));
}

}  // namespace
}  // namespace ros2s::tests
