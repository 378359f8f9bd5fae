// A pool grows by a device file: the growth is durable when it returns, and leaves nothing behind
// when it is refused. If it was killed at any point, the next opening finishes or undoes it.
#include "ros2s/pool/pool_growth.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "ros2s/pool/embedded_pool.h"
#include "ros2s/pool/owner.h"
#include "ros2s/runtime/test_support/made_reactor.h"
#include "ros2s/runtime/thread_pool.h"

namespace ros2s::pool {
namespace {

namespace files = std::filesystem;
using testing::HasSubstr;

Task<Result<uint64_t>> total_bytes(const Call& call, Environment environment, std::string directory,
                                   Report& report) {
    OwnerRecord owner;
    ROS2S_CO_TRY_ASSIGN(auto pool, co_await EmbeddedPool::open(environment, std::move(directory),
                                                               {}, owner, report));
    const auto space = co_await pool->store().space(call, {});
    co_await pool->close();
    ROS2S_CO_TRY(space);
    co_return space->total_bytes;
}

class PoolGrowthTest : public testing::Test {
  protected:
    void SetUp() override {
        std::string path = testing::TempDir() + "pool_growth.XXXXXX";
        ASSERT_NE(mkdtemp(path.data()), nullptr);
        base_ = path;
        directory_ = base_ + "/pool";
        reactor_ = made_reactor();
        make();
    }
    void TearDown() override { files::remove_all(base_); }
    void make() {
        files::remove_all(directory_);
        const PoolCreation creation{.directory = directory_, .bytes = pool_bytes_min};
        ASSERT_TRUE(reactor_->run(create_pool(call_, {*reactor_, blocking_}, creation, report_)))
            << report_.text();
    }
    Result<> grow(PoolGrowth growth) {
        report_ = {};
        growth.directory = directory_;
        if (growth.bytes == 0) growth.bytes = pool_bytes_min;
        return reactor_->run(grow_pool(call_, {*reactor_, blocking_}, std::move(growth), report_));
    }
    void refuses(const PoolGrowth& growth, Code code, const std::string& sentence) {
        const auto grown = grow(growth);
        ASSERT_FALSE(grown) << sentence;
        EXPECT_EQ(grown.error().code, code) << report_.text();
        EXPECT_THAT(report_.text(), HasSubstr(sentence));
        EXPECT_EQ(names(), (std::vector<std::string>{"config.yaml", "device-0", "index", "owner"}));
    }
    uint64_t total() {
        report_ = {};
        const auto bytes =
            reactor_->run(total_bytes(Call{}, {*reactor_, blocking_}, directory_, report_));
        EXPECT_TRUE(bytes) << report_.text();
        return bytes.value_or(0);
    }
    std::vector<std::string> names() const {
        std::vector<std::string> found;
        for (const auto& each : files::directory_iterator(directory_)) {
            found.push_back(each.path().filename());
        }
        std::ranges::sort(found);
        return found;
    }
    // True: it was killed; false: it finished.
    bool helper_is_killed_at(int report_of_progress, const std::string& place = "") const {
        const pid_t child = fork();
        if (child == 0) {
            execl(POOL_HELPER, POOL_HELPER, "grow", directory_.c_str(),
                  std::to_string(pool_bytes_min).c_str(),
                  std::to_string(report_of_progress).c_str(), place.c_str(), nullptr);
            _exit(127);
        }
        int status = 0;
        waitpid(child, &status, 0);
        EXPECT_TRUE(WIFSIGNALED(status) || status == 0) << status;
        return WIFSIGNALED(status);
    }

    std::string base_, directory_;
    std::unique_ptr<OsReactor> reactor_;
    ThreadPool blocking_{2};
    StopSource stop_;
    Call call_{.stop = stop_.token()};
    Report report_;
};

TEST_F(PoolGrowthTest, GrowthAddsADevice) {
    const uint64_t before = total();
    uint64_t last = 0;
    ASSERT_TRUE(grow({.directory = {},
                      .device_directory = {},
                      .progress =
                          [&](uint64_t done, uint64_t total) {
                              EXPECT_GE(done, last);
                              EXPECT_EQ(total, pool_bytes_min);
                              last = done;
                          }}))
        << report_.text();
    EXPECT_EQ(last, pool_bytes_min);
    const auto found = read_pool_directory(directory_, report_);
    ASSERT_TRUE(found) << report_.text();
    EXPECT_EQ(found->devices, (std::vector{directory_ + "/device-0", directory_ + "/device-1"}));
    EXPECT_EQ(found->growing, "");
    EXPECT_GT(total(), before + pool_bytes_min * 9 / 10);
}

TEST_F(PoolGrowthTest, GrowthOnAnotherDiskAddsALink) {
    files::create_directory(base_ + "/other");
    ASSERT_TRUE(grow({.directory = {}, .device_directory = base_ + "/other", .progress = {}}))
        << report_.text();
    const auto target = files::read_symlink(directory_ + "/device-1");
    EXPECT_EQ(target.parent_path(), base_ + "/other");
    EXPECT_EQ(files::file_size(target), pool_bytes_min);
    EXPECT_GT(total(), pool_bytes_min);
    ASSERT_TRUE(destroy_pool(directory_, report_)) << report_.text();
    EXPECT_TRUE(files::is_empty(base_ + "/other"));
}

TEST_F(PoolGrowthTest, InterruptedGrowthSparesOtherPools) {
    files::create_directory(base_ + "/other");
    const int halfway = static_cast<int>(pool_bytes_min >> 21);
    ASSERT_TRUE(helper_is_killed_at(halfway, base_ + "/other"));
    std::string interrupted = std::exchange(directory_, base_ + "/second");
    make();
    ASSERT_TRUE(grow({.directory = {}, .device_directory = base_ + "/other", .progress = {}}))
        << report_.text();
    const uint64_t grown = total();
    std::swap(directory_, interrupted);
    EXPECT_LT(total(), grown);  // the opening undoes the growth
    EXPECT_FALSE(files::exists(files::symlink_status(directory_ + "/device-1")));
    std::swap(directory_, interrupted);
    EXPECT_EQ(total(), grown);
    const files::directory_iterator each(base_ + "/other");
    EXPECT_EQ(std::distance(each, {}), 1);
}

TEST_F(PoolGrowthTest, RefusedGrowthChangesNothing) {
    refuses({.directory = {}, .bytes = 4096, .device_directory = {}, .progress = {}}, Code::invalid,
            "64MiB at least");
    refuses({.directory = {}, .bytes = uint64_t{1} << 60, .device_directory = {}, .progress = {}},
            Code::no_space, "of free space and has ");
    refuses({.directory = {}, .device_directory = base_ + "/none", .progress = {}}, Code::not_found,
            base_ + "/none");
    OwnerRecord present;
    auto owner = Ownership::take(
        directory_, {.pid = getpid(), .program = {}, .mount_point = {}, .container = {}}, present,
        report_);
    ASSERT_TRUE(owner);
    refuses({.directory = {}, .device_directory = {}, .progress = {}}, Code::busy,
            std::to_string(getpid()));
    owner->reset();
    refuses({.directory = {},
             .device_directory = {},
             .progress =
                 [&](uint64_t done, uint64_t) {
                     if (done > pool_bytes_min / 2) stop_.request_stop();
                 }},
            Code::cancelled, "stopped");
    EXPECT_GT(total(), 0U);
}

TEST_F(PoolGrowthTest, KilledGrowthIsFinishedOrUndoneAtOpening) {
    const uint64_t small = total();
    const int reports = static_cast<int>(pool_bytes_min >> 20);  // approximately, of the writing
    size_t undone = 0, finished = 0;
    for (const int first : {1, 2, reports / 2, reports - 1}) {
        // Each of the steps after the writing.
        for (int at = first; helper_is_killed_at(at); ++at) {
            EXPECT_TRUE(files::exists(directory_ + "/growing")) << at;
            const uint64_t now = total();
            EXPECT_FALSE(files::exists(directory_ + "/growing")) << at;
            const bool grown = files::exists(directory_ + "/device-1");
            EXPECT_FALSE(files::exists(directory_ + "/device-1.new")) << at;
            EXPECT_EQ(now > small, grown) << at;
            ++(grown ? finished : undone);
            if (grown) make();
            if (at < reports - 1) break;
        }
    }
    EXPECT_GT(undone, 4U);
    EXPECT_EQ(finished, 1U);
}

TEST_F(PoolGrowthTest, LinkWithoutItsFileIsRemoved) {
    std::ofstream(directory_ + "/growing") << "device-1\n";
    files::create_symlink(base_ + "/nothing", directory_ + "/device-1");
    EXPECT_GT(total(), 0U);
    EXPECT_EQ(names(), (std::vector<std::string>{"config.yaml", "device-0", "index", "owner"}));
    std::ofstream(directory_ + "/growing") << "config.yaml\n";
    Report report;
    EXPECT_EQ(read_pool_directory(directory_, report).error().code, Code::corrupt);
    EXPECT_THAT(report.text(), HasSubstr("does not name the device file"));
}

}  // namespace
}  // namespace ros2s::pool
