#include "ros2s/pool/pool_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>

#include "ros2s/pool/embedded_pool.h"
#include "ros2s/runtime/test_support/made_reactor.h"
#include "ros2s/runtime/thread_pool.h"

namespace ros2s::pool {
namespace {

namespace files = std::filesystem;
using testing::HasSubstr;

class PoolDirectoryTest : public testing::Test {
  protected:
    void SetUp() override {
        std::string path = testing::TempDir() + "pool_directory.XXXXXX";
        ASSERT_NE(mkdtemp(path.data()), nullptr);
        base_ = path;
        directory_ = base_ + "/pool";
        start();
    }
    void TearDown() override { files::remove_all(base_); }
    void start() {
        reactor_ = made_reactor();
        blocking_.emplace(2);
    }
    PoolCreation creation() const { return {.directory = directory_, .bytes = pool_bytes_min}; }
    Result<> create(const PoolCreation& wanted) {
        report_ = {};
        return reactor_->run(create_pool(call_, {*reactor_, *blocking_}, wanted, report_));
    }
    void refuses(const PoolCreation& wanted, Code code, const std::string& sentence) {
        const auto made = create(wanted);
        ASSERT_FALSE(made) << sentence;
        EXPECT_EQ(made.error().code, code) << report_.text();
        EXPECT_THAT(report_.text(), HasSubstr(sentence));
    }
    std::vector<std::string> names() const {
        std::vector<std::string> found;
        for (const auto& each : files::directory_iterator(directory_)) {
            found.push_back(each.path().filename());
        }
        std::ranges::sort(found);
        return found;
    }
    static void write(const std::string& path, std::string_view text) {
        std::ofstream(path) << text;
    }
    // In a child, which kills itself halfway.
    void is_killed_creating(PoolCreation wanted) {
        blocking_.reset();  // a child of fork() has its own
        reactor_.reset();
        const pid_t child = fork();
        if (child == 0) {
            start();
            wanted.progress = [](uint64_t done, uint64_t) {
                if (done > pool_bytes_min / 2) raise(SIGKILL);
            };
            _exit(create(wanted) ? 0 : 1);
        }
        int status = 0;
        waitpid(child, &status, 0);
        ASSERT_TRUE(WIFSIGNALED(status));
        start();
        ASSERT_TRUE(files::exists(wanted.directory + "/half-made"));
    }
    // A disk for device files of several pools.
    std::string make_disk() const {
        files::create_directory(base_ + "/disk");
        return base_ + "/disk";
    }
    static size_t count(const std::string& directory) {
        const files::directory_iterator each(directory);
        return static_cast<size_t>(std::distance(each, {}));
    }
    static files::path target_of(const std::string& pool, size_t number = 0) {
        return files::read_symlink(pool + "/device-" + std::to_string(number));
    }

    std::string base_, directory_;
    std::unique_ptr<OsReactor> reactor_;
    std::optional<ThreadPool> blocking_;
    StopSource stop_;
    Call call_{.stop = stop_.token()};
    Report report_;
};

Task<Result<std::vector<object::ContainerRecord>>> list_containers(const Call& call,
                                                                   Environment environment,
                                                                   std::string directory,
                                                                   Report& report) {
    OwnerRecord owner;
    ROS2S_CO_TRY_ASSIGN(auto pool, co_await EmbeddedPool::open(environment, std::move(directory),
                                                               {}, owner, report));
    auto listed = co_await pool->store().list_containers(call);
    co_await pool->close();
    co_return listed;
}

TEST_F(PoolDirectoryTest, CreatedPoolIsReady) {
    uint64_t last = 0;
    auto wanted = creation();
    wanted.pool = "p1";
    wanted.container = "c1";
    wanted.progress = [&](uint64_t done, uint64_t total) {
        EXPECT_GE(done, last);
        EXPECT_EQ(total, pool_bytes_min);
        last = done;
    };
    ASSERT_TRUE(create(wanted)) << report_.text();
    EXPECT_EQ(last, pool_bytes_min);
    const auto found = read_pool_directory(directory_, report_);
    ASSERT_TRUE(found) << report_.text();
    EXPECT_EQ(found->config.pool, "p1");
    EXPECT_EQ(found->devices, std::vector{directory_ + "/device-0"});
    EXPECT_EQ(found->device_bytes, pool_bytes_min);
    const auto listed =
        reactor_->run(list_containers(call_, {*reactor_, *blocking_}, directory_, report_));
    ASSERT_TRUE(listed) << report_.text();
    ASSERT_EQ(listed->size(), 1U);
    EXPECT_EQ(listed->front().properties.label, "c1");
    refuses(wanted, Code::exists, "there is a pool in " + directory_ + " already");
}

TEST_F(PoolDirectoryTest, DevicesInOtherDirectoriesAreLinked) {
    files::create_directory(base_ + "/d0");
    files::create_directory(base_ + "/d1");
    auto wanted = creation();
    wanted.devices = 3;
    wanted.bytes = 3 * pool_bytes_min;
    wanted.device_directories = {base_ + "/d0", base_ + "/d1"};
    ASSERT_TRUE(create(wanted)) << report_.text();
    for (size_t i = 0; i < 3; ++i) {
        const auto target = target_of(directory_, i);
        EXPECT_EQ(target.parent_path(), base_ + (i == 1 ? "/d1" : "/d0"));
        EXPECT_THAT(
            target.filename().string(),
            testing::MatchesRegex("ros2store-pool-device-" + std::to_string(i) + "-[0-9a-f]{16}"));
        EXPECT_EQ(files::file_size(target), pool_bytes_min);
    }
    EXPECT_EQ(read_pool_directory(directory_, report_)->devices.size(), 3U);
    ASSERT_TRUE(destroy_pool(directory_, report_)) << report_.text();
    EXPECT_FALSE(files::exists(directory_));
    EXPECT_TRUE(files::is_empty(base_ + "/d0"));
    EXPECT_TRUE(files::is_empty(base_ + "/d1"));
}

TEST_F(PoolDirectoryTest, RelativeDeviceDirectoryIsAccepted) {
    auto wanted = creation();
    wanted.device_directories = {files::relative(make_disk()).string()};
    ASSERT_FALSE(wanted.device_directories.front().starts_with('/'));
    ASSERT_TRUE(create(wanted)) << report_.text();
    EXPECT_TRUE(files::equivalent(target_of(directory_).parent_path(), base_ + "/disk"));
    ASSERT_TRUE(destroy_pool(directory_, report_)) << report_.text();
    EXPECT_TRUE(files::is_empty(base_ + "/disk"));
}

TEST_F(PoolDirectoryTest, InterruptedCreationSparesOtherPools) {
    auto interrupted = creation(), whole = creation();
    interrupted.device_directories = whole.device_directories = {make_disk()};
    whole.directory = base_ + "/whole";
    const auto is_whole = [&] {
        Report report;
        const auto listed =
            reactor_->run(list_containers(call_, {*reactor_, *blocking_}, whole.directory, report));
        return listed && listed->size() == 1;
    };
    ASSERT_NO_FATAL_FAILURE(is_killed_creating(interrupted));
    ASSERT_TRUE(create(whole)) << report_.text();
    EXPECT_TRUE(destroy_pool(directory_, report_)) << report_.text();
    EXPECT_TRUE(is_whole());
    EXPECT_EQ(count(base_ + "/disk"), 1U);  // the interrupted one's is gone

    ASSERT_NO_FATAL_FAILURE(is_killed_creating(interrupted));
    EXPECT_TRUE(create(interrupted)) << report_.text();
    EXPECT_TRUE(is_whole());
    EXPECT_EQ(count(base_ + "/disk"), 2U);
    EXPECT_TRUE(destroy_pool(directory_, report_)) << report_.text();
    EXPECT_TRUE(is_whole());
    EXPECT_TRUE(destroy_pool(whole.directory, report_)) << report_.text();
    EXPECT_TRUE(files::is_empty(base_ + "/disk"));
}

TEST_F(PoolDirectoryTest, FilesOfEarlierBuildAreRemovedWithTheirPool) {
    auto wanted = creation();
    wanted.device_directories = {make_disk()};
    ASSERT_TRUE(create(wanted)) << report_.text();
    const std::string old = base_ + "/disk/ros2store-pool-device-0";
    files::rename(target_of(directory_), old);
    files::remove(directory_ + "/device-0");
    files::create_symlink(old, directory_ + "/device-0");
    // An interrupted creation of an earlier build, whose link leads to the same name.
    const std::string second = base_ + "/second";
    files::create_directory(second);
    write(second + "/half-made", "\n");
    files::create_symlink(old, second + "/device-0");
    EXPECT_TRUE(destroy_pool(second, report_)) << report_.text();
    EXPECT_FALSE(files::exists(second));
    const auto listed =
        reactor_->run(list_containers(call_, {*reactor_, *blocking_}, directory_, report_));
    EXPECT_TRUE(listed) << report_.text();
    EXPECT_TRUE(destroy_pool(directory_, report_)) << report_.text();
    EXPECT_TRUE(files::is_empty(base_ + "/disk"));
}

TEST_F(PoolDirectoryTest, RefusedCreationChangesNothing) {
    auto wanted = creation();
    wanted.bytes = pool_bytes_min - 1;
    refuses(wanted, Code::invalid, "each needs 64MiB at least");
    wanted = creation();
    wanted.devices = 17;
    refuses(wanted, Code::invalid, "1 to 16 devices, not 17");
    wanted = creation();
    wanted.device_directories = {base_ + "/d0", base_ + "/d1"};
    refuses(wanted, Code::invalid, "2 locations for 1 device: ");
    wanted = creation();
    wanted.pool = "a b";
    refuses(wanted, Code::invalid, "the pool name 'a b'");
    wanted = creation();
    wanted.bytes = uint64_t{1} << 60;
    refuses(wanted, Code::no_space, "1 EiB of free space and has");
    EXPECT_FALSE(files::exists(directory_));
    wanted.directory = base_ + "/missing/pool";
    refuses(wanted, Code::not_found, "cannot make the directory");

    files::create_directory(directory_);
    write(directory_ + "/thesis.txt", "precious");
    refuses(creation(), Code::exists, "is not empty (it holds 'thesis.txt'");
    EXPECT_EQ(names(), std::vector<std::string>{"thesis.txt"});
    EXPECT_EQ(destroy_pool(directory_, report_).error().code, Code::not_found);
}

TEST_F(PoolDirectoryTest, StoppedCreationLeavesNothing) {
    auto wanted = creation();
    wanted.progress = [&](uint64_t done, uint64_t) {
        if (done > pool_bytes_min / 2) stop_.request_stop();
    };
    refuses(wanted, Code::cancelled, "was stopped");
    EXPECT_FALSE(files::exists(directory_));
}

TEST_F(PoolDirectoryTest, KilledCreationIsClearedByTheNext) {
    ASSERT_NO_FATAL_FAILURE(is_killed_creating(creation()));
    const auto found = read_pool_directory(directory_, report_);
    ASSERT_FALSE(found);
    EXPECT_THAT(report_.text(), HasSubstr("is incomplete"));
    ASSERT_TRUE(create(creation())) << report_.text();
    EXPECT_TRUE(read_pool_directory(directory_, report_));
}

TEST_F(PoolDirectoryTest, PoolWithoutSettingsIsNotOverwritten) {
    ASSERT_TRUE(create(creation())) << report_.text();
    const std::string settings = directory_ + "/config.yaml";
    ASSERT_TRUE(files::remove(settings));
    const auto before = names();
    refuses(creation(), Code::exists, "holds a pool's data");
    EXPECT_EQ(names(), before);
    Report report;
    EXPECT_FALSE(read_pool_directory(directory_, report));
    EXPECT_THAT(report.text(), HasSubstr("put it back"));
    write(settings, "pool: pool\n");
    Report restored;
    EXPECT_TRUE(read_pool_directory(directory_, restored)) << restored.text();
}

TEST_F(PoolDirectoryTest, RelativeDeviceLinkIsResolvedInThePool) {
    ASSERT_TRUE(create(creation())) << report_.text();
    files::rename(directory_ + "/device-0", base_ + "/elsewhere");
    files::create_symlink("../elsewhere", directory_ + "/device-0");
    const auto outside = files::current_path().parent_path() / "elsewhere";
    ASSERT_FALSE(files::exists(outside));
    Report report;
    EXPECT_TRUE(destroy_pool(directory_, report)) << report.text();
    EXPECT_FALSE(files::exists(base_ + "/elsewhere"));
}

TEST_F(PoolDirectoryTest, OwnedPoolIsNotDestroyed) {
    ASSERT_TRUE(create(creation()));
    OwnerRecord present;
    auto owner = Ownership::take(directory_, {.pid = getpid()}, present, report_);
    ASSERT_TRUE(owner);
    report_ = {};
    EXPECT_EQ(destroy_pool(directory_, report_).error().code, Code::busy);
    owner->reset();
    write(directory_ + "/notes.txt", "mine");
    EXPECT_TRUE(destroy_pool(directory_, report_)) << report_.text();
    EXPECT_EQ(names(), std::vector<std::string>{"notes.txt"});
}

// Settings and certificates of daemons cannot be recreated, so they are kept if the pool is not
// removed.
TEST_F(PoolDirectoryTest, OtherFilesAreRemovedOnceThePoolIsUnusable) {
    ASSERT_TRUE(create(creation()));
    int calls = 0;
    const auto also = [&]() -> Result<> {
        Report report;
        EXPECT_FALSE(read_pool_directory(directory_, report));
        EXPECT_THAT(report.text(), HasSubstr("is incomplete"));
        EXPECT_TRUE(files::exists(directory_ + "/device-0"));
        return ++calls == 1 ? Result<>(fail(Code::denied)) : Result<>();
    };
    OwnerRecord present;
    auto owner = Ownership::take(directory_, {.pid = getpid()}, present, report_);
    EXPECT_EQ(destroy_pool(directory_, report_, also).error().code, Code::busy);
    EXPECT_EQ(calls, 0);
    owner->reset();
    // An interrupted removal is continued.
    EXPECT_EQ(destroy_pool(directory_, report_, also).error().code, Code::denied);
    EXPECT_TRUE(destroy_pool(directory_, report_, also)) << report_.text();
    EXPECT_EQ(calls, 2);
    EXPECT_FALSE(files::exists(directory_));
}

TEST_F(PoolDirectoryTest, OversizedFilesAreNotRead) {
    ASSERT_TRUE(create(creation()));
    write(directory_ + "/config.yaml", "pool: p\n" + std::string(2 << 20, '#'));
    const auto found = read_pool_directory(directory_, report_);
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().code, Code::too_large);
    EXPECT_THAT(report_.text(), HasSubstr("has more than 1024 KiB"));
    write(directory_ + "/config.yaml", "pool: p\n");
    write(directory_ + "/growing", "device-1\n" + std::string(100, '\n'));
    report_ = {};
    EXPECT_EQ(read_pool_directory(directory_, report_).error().code, Code::corrupt);
}

TEST_F(PoolDirectoryTest, BadSettingIsRefusedWithItsLine) {
    ASSERT_TRUE(create(creation()));
    const auto path = directory_ + "/config.yaml";
    const auto refused = [&](std::string_view text, const std::string& sentence) {
        write(path, text);
        report_ = {};
        const auto found = read_pool_directory(directory_, report_);
        ASSERT_FALSE(found) << text;
        EXPECT_EQ(found.error().code, Code::invalid);
        EXPECT_THAT(report_.text(), HasSubstr(sentence));
        EXPECT_THAT(report_.text(), HasSubstr(path));
    };
    refused("", "pool");
    refused("pool: a b\n", "'a b' is not 1 to 127");
    refused("pool: p\nengine:\n  memroy: 1GiB\n", "memory");
    refused("pool: p\nengine: {memory: lots}\n", "lots");
    refused("pool: p\nio: {back_end: fast}\n", "fast");
    refused("pool: p\nio: {poll: 1h}\n", "1h");
    PoolConfig config;
    config.pool = "p";
    config.memory_bytes = uint64_t{1} << 30;
    config.back_end = "threads";
    write(path, config.document());
    const auto found = read_pool_directory(directory_, report_);
    ASSERT_TRUE(found) << report_.text();
    EXPECT_EQ(found->config.memory_bytes, uint64_t{1} << 30);
    OsReactorOptions options;
    found->config.apply_to(options);
    EXPECT_EQ(options.ring, RingChoice::threads);
}

TEST_F(PoolDirectoryTest, MissingPartIsReported) {
    const auto refused = [&](const std::string& path, const std::string& sentence) {
        report_ = {};
        ASSERT_FALSE(read_pool_directory(path, report_));
        EXPECT_THAT(report_.text(), HasSubstr(sentence));
    };
    refused(directory_, "No such file or directory); `ros2store up");
    refused(base_, "there is no pool in " + base_);
    write(base_ + "/file", "");
    refused(base_ + "/file", "is not a directory");
    ASSERT_TRUE(create(creation()));
    files::remove(directory_ + "/device-0");
    refused(directory_, "has lost its device files");
}

}  // namespace
}  // namespace ros2s::pool
