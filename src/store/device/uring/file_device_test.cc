// Properties of a file device beyond the contract: creating, locking, and refusing.
#include "ros2s/device/uring/file_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "ros2s/runtime/test_support/made_reactor.h"
#include "write_cache.h"

namespace ros2s::device {
namespace {

using testing::HasSubstr;

constexpr uint64_t mebibyte = uint64_t{1} << 20;

class FileDeviceTest : public testing::Test {
  protected:
    FileDeviceTest() {
        char name[] = "ros2store-test-XXXXXX";
        directory_ = mkdtemp(name);
        path_ = directory_ + "/device-0";
        reactor_ = made_reactor();
    }
    ~FileDeviceTest() override { std::filesystem::remove_all(directory_); }

    Result<> create(uint64_t size, Progress progress = {}, StopToken stop = {}) {
        report_ = {};
        return reactor_->run(
            create_file_device(*reactor_, path_, size, {}, progress, stop, report_));
    }
    Result<std::unique_ptr<BlockDevice>> open(FileDeviceOptions options = {}) {
        report_ = {};
        return reactor_->run(FileDevice::open(*reactor_, path_, options, report_));
    }
    void close(BlockDevice& device) { reactor_->run(device.close()); }
    [[nodiscard]] std::vector<std::string> files() const {
        std::vector<std::string> names;
        for (const auto& each : std::filesystem::directory_iterator(directory_)) {
            names.push_back(each.path().filename());
        }
        return names;
    }

    std::string directory_;
    std::string path_;
    std::unique_ptr<OsReactor> reactor_;
    Report report_;
};

TEST_F(FileDeviceTest, CreationWritesTheWholeFile) {
    std::vector<uint64_t> steps;
    ASSERT_TRUE(create(10 * mebibyte + block_bytes, [&](uint64_t done, uint64_t total) {
        EXPECT_EQ(total, 10 * mebibyte + block_bytes);
        steps.push_back(done);
    })) << report_.text();
    EXPECT_TRUE(std::ranges::is_sorted(steps));
    EXPECT_EQ(steps.back(), 10 * mebibyte + block_bytes);
    struct stat status{};
    ASSERT_EQ(::stat(path_.c_str(), &status), 0);
    EXPECT_EQ(static_cast<uint64_t>(status.st_size), 10 * mebibyte + block_bytes);
    EXPECT_GE(static_cast<uint64_t>(status.st_blocks) * 512, 10 * mebibyte + block_bytes);
    EXPECT_EQ(status.st_mode & 0777, 0600U);
    EXPECT_EQ(files(), std::vector<std::string>{"device-0"});
}

TEST_F(FileDeviceTest, ExistingFileIsNotOverwritten) {
    std::ofstream(path_) << "precious";
    EXPECT_EQ(create(mebibyte).error().code, Code::exists);
    EXPECT_THAT(report_.text(),
                HasSubstr("exists already, and may be a device of a pool; use another"));
    EXPECT_EQ(std::filesystem::file_size(path_), 8U);
    EXPECT_EQ(files().size(), 1U);
}

TEST_F(FileDeviceTest, MissingSpaceIsReported) {
    EXPECT_EQ(create(uint64_t{1} << 50).error().code, Code::no_space);
    EXPECT_THAT(report_.text(), HasSubstr("needs 1 PiB of free space, has "));
    EXPECT_TRUE(files().empty());
}

TEST_F(FileDeviceTest, MissingDirectoryIsReported) {
    path_ = directory_ + "/missing/device-0";
    EXPECT_EQ(create(mebibyte).error().code, Code::not_found);
    EXPECT_THAT(report_.text(), HasSubstr("missing"));
}

TEST_F(FileDeviceTest, KilledCreationIsRestarted) {
    std::ofstream(path_ + ".new") << "half";
    ASSERT_TRUE(create(mebibyte)) << report_.text();
    EXPECT_EQ(files().size(), 1U);
    EXPECT_EQ(std::filesystem::file_size(path_), mebibyte);
}

TEST_F(FileDeviceTest, StoppedCreationLeavesNothing) {
    StopSource source;
    const auto created = create(
        64 * mebibyte,
        [&](uint64_t done, uint64_t) {
            if (done > 8 * mebibyte) source.request_stop();
        },
        source.token());
    EXPECT_EQ(created.error().code, Code::cancelled);
    EXPECT_TRUE(files().empty());
}

TEST_F(FileDeviceTest, InvalidDeviceFileIsRefused) {
    EXPECT_EQ(open().error().code, Code::not_found);
    EXPECT_THAT(report_.text(), HasSubstr("device-0: no such file"));
    std::ofstream(path_) << "short";
    EXPECT_EQ(open().error().code, Code::corrupt);
    EXPECT_THAT(report_.text(), HasSubstr("has 5 bytes"));
    std::filesystem::remove(path_);
    std::filesystem::create_directory(path_);
    EXPECT_EQ(open().error().code, Code::is_directory);
    std::filesystem::remove(path_);
    ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
    EXPECT_FALSE(open());
}

TEST_F(FileDeviceTest, AccessPathIsReported) {
    ASSERT_TRUE(create(mebibyte));
    auto direct = open();
    ASSERT_TRUE(direct) << report_.text();
    EXPECT_EQ((*direct)->path(), "io_uring, O_DIRECT");
    close(**direct);
    auto buffered = open({.buffered = true});
    ASSERT_TRUE(buffered);
    EXPECT_THAT((*buffered)->path(), HasSubstr("page cache"));
    close(**buffered);
}

// Writes one block, and more than is copied at once.
Task<> cache_little_and_much(BlockDevice& device) {
    AlignedBuffer buffer(mebibyte);
    EXPECT_TRUE(co_await device.write_cached(0, buffer.bytes().first(block_bytes)));
    EXPECT_TRUE(co_await device.write_cached(0, buffer.bytes()));
}

TEST_F(FileDeviceTest, OnlySmallWritesAreCached) {
    ASSERT_TRUE(create(mebibyte));
    for (const bool buffered : {false, true}) {
        auto device = open({.buffered = buffered});
        ASSERT_TRUE(device) << report_.text();
        reactor_->run(cache_little_and_much(**device));
        EXPECT_EQ((*device)->counters().cached_writes.value(), 1U);
        EXPECT_EQ((*device)->counters().writes.value(), 2U);
        close(**device);
    }
}

// As sysfs has them: a partition is a directory inside its disk's.
TEST_F(FileDeviceTest, WriteCacheOfADiskIsDetected) {
    namespace fs = std::filesystem;
    const fs::path sysfs = fs::path(directory_) / "dev";
    fs::create_directories(sysfs);
    const auto add = [&](const std::string& disk, int number, const std::string& cache) {
        const fs::path queue = fs::path(directory_) / disk / "queue";
        fs::create_directories(queue);
        fs::create_directories(queue.parent_path() / (disk + "1"));
        std::ofstream(queue / "write_cache") << cache << '\n';
        fs::create_symlink(fs::absolute(queue.parent_path()),
                           sysfs / ("8:" + std::to_string(number)));
        fs::create_symlink(fs::absolute(queue.parent_path() / (disk + "1")),
                           sysfs / ("8:" + std::to_string(number + 1)));
    };
    add("volatile", 0, "write back");
    add("durable", 16, "write through");
    for (const auto& [number, has_one] : {std::pair<unsigned, bool>{0, true},
                                          {1, true},
                                          {16, false},
                                          {17, false},
                                          {32, true}}) {  // nothing is known
        EXPECT_EQ(has_write_cache(makedev(8, number), sysfs), has_one) << number;
    }
}

Task<Result<>> read_at_the_end(BlockDevice& device) {
    AlignedBuffer buffer(4 * block_bytes);
    co_return co_await device.read(device.size() - buffer.size(), buffer.bytes());
}
TEST_F(FileDeviceTest, TruncatedFileIsADeviceError) {
    ASSERT_TRUE(create(mebibyte));
    auto device = open();
    ASSERT_TRUE(device);
    std::filesystem::resize_file(path_, mebibyte - 2 * block_bytes);
    const auto got = reactor_->run(read_at_the_end(**device));
    EXPECT_EQ(got.error().code, Code::io);
    EXPECT_EQ((*device)->counters().errors.value(), 1U);
    close(**device);
}

// A child process that runs `body`, reports that it did, and then waits for its end.
class Child {
  public:
    template <class F>
    explicit Child(F body) {
        int ready[2];
        EXPECT_EQ(pipe(ready), 0);
        pid_ = fork();
        if (pid_ == 0) {
            body();
            if (::write(ready[1], "r", 1) != 1) _exit(1);
            pause();
            _exit(0);
        }
        char byte = 0;
        EXPECT_EQ(::read(ready[0], &byte, 1), 1);
        ::close(ready[0]);
        ::close(ready[1]);
    }
    ~Child() { end(); }
    void end() {
        if (pid_ <= 0) return;
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
        pid_ = 0;
    }
    [[nodiscard]] pid_t pid() const { return pid_; }

  private:
    pid_t pid_ = 0;
};

// As a killed process leaves them.
void leave_open(std::unique_ptr<BlockDevice> device, std::unique_ptr<OsReactor> reactor) {
    [[maybe_unused]] const auto* opened = device.release();
    [[maybe_unused]] const auto* running = reactor.release();
}

TEST_F(FileDeviceTest, BusyDeviceNamesItsOwner) {
    ASSERT_TRUE(create(mebibyte));
    Child owner([this] {
        // The child has a reactor of its own; ours does not work there.
        auto reactor = made_reactor();
        Report report;
        auto device = reactor->run(FileDevice::open(*reactor, path_, {}, report));
        if (!device) _exit(1);
        leave_open(std::move(*device), std::move(reactor));
    });
    EXPECT_EQ(open().error().code, Code::busy);
    EXPECT_THAT(report_.text(), HasSubstr("in use by process " + std::to_string(owner.pid())));
    EXPECT_THAT(report_.text(), HasSubstr("device_uring"));  // the program
    owner.end();
    auto device = open();
    ASSERT_TRUE(device) << report_.text();
    EXPECT_EQ(open().error().code, Code::busy);
    EXPECT_THAT(report_.text(), HasSubstr("in use by this process"));
    close(**device);
}

TEST_F(FileDeviceTest, ForkedChildDoesNotHoldTheLock) {
    ASSERT_TRUE(create(mebibyte));
    int child_pid_pipe[2];
    ASSERT_EQ(pipe(child_pid_pipe), 0);
    // The owner opens the device, forks a child that stays alive, and is killed.
    Child owner([&] {
        auto reactor = made_reactor();
        Report report;
        auto device = reactor->run(FileDevice::open(*reactor, path_, {}, report));
        if (!device) _exit(1);
        leave_open(std::move(*device), std::move(reactor));
        const pid_t grandchild = fork();
        if (grandchild == 0) {
            pause();
            _exit(0);
        }
        if (::write(child_pid_pipe[1], &grandchild, sizeof grandchild) < 0) _exit(1);
    });
    pid_t grandchild = 0;
    ASSERT_EQ(::read(child_pid_pipe[0], &grandchild, sizeof grandchild),
              static_cast<ssize_t>(sizeof grandchild));
    EXPECT_EQ(open().error().code, Code::busy);
    owner.end();
    auto device = open();
    EXPECT_TRUE(device) << report_.text();
    if (device) close(**device);
    ::kill(grandchild, SIGKILL);
    ::close(child_pid_pipe[0]);
    ::close(child_pid_pipe[1]);
}

TEST_F(FileDeviceTest, HandleOnAnotherCoreSharesFileAndLock) {
    ASSERT_TRUE(create(mebibyte));
    auto first = open();
    ASSERT_TRUE(first) << report_.text();
    const auto other = made_reactor();
    auto handle = (*first)->handle_on(*other);
    ASSERT_TRUE(handle);
    EXPECT_EQ((*handle)->name(), path_);
    EXPECT_EQ((*handle)->path(), (*first)->path());
    EXPECT_EQ((*handle)->size(), mebibyte);
    AlignedBuffer written(block_bytes), read(block_bytes);
    std::ranges::fill(written.bytes(), std::byte{7});
    EXPECT_TRUE(reactor_->run((*first)->write(block_bytes, written.bytes())));
    EXPECT_TRUE(other->run((*handle)->read(block_bytes, read.bytes())));
    EXPECT_TRUE(std::ranges::equal(read.bytes(), written.bytes()));
    EXPECT_EQ((*handle)->counters().reads.value(), 1U);
    EXPECT_EQ((*first)->counters().reads.value(), 0U);
    other->run((*handle)->close());
    EXPECT_EQ(open().error().code, Code::busy) << "the first one has the lock still";
    close(**first);
    auto again = open();
    ASSERT_TRUE(again) << report_.text();
    close(**again);
}

}  // namespace
}  // namespace ros2s::device
