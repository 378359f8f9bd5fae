#include "ros2s/runtime/process_limits.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <string>
#include <string_view>

#include "ros2s/runtime/thread_pool.h"

namespace ros2s {
namespace {

// Lowers a soft limit of this process for the time of a test.
class Limited {
  public:
    Limited(__rlimit_resource_t resource, rlim_t most) : resource_(resource) {
        ::getrlimit(resource, &before_);
        rlimit limit{.rlim_cur = most, .rlim_max = before_.rlim_max};
        EXPECT_EQ(::setrlimit(resource, &limit), 0);
    }
    Limited& operator=(Limited&&) = delete;
    ~Limited() { ::setrlimit(resource_, &before_); }

  private:
    __rlimit_resource_t resource_;
    rlimit before_{};
};

TEST(ProcessLimits, SmallLimitGivesSmallDescriptorShare) {
    const Limited limited(RLIMIT_NOFILE, 48);
    EXPECT_EQ(descriptors_max(), 48u);
    EXPECT_EQ(descriptor_share(4, 1024), 4u);
    EXPECT_EQ(descriptor_share(4, 3), 3u);
    EXPECT_EQ(descriptor_share(1000, 32), 1u);
    const Limited less(RLIMIT_NOFILE, 20);
    EXPECT_EQ(descriptor_share(4, 1024), 1u);
}

TEST(ProcessLimits, FileBeyondTheLimitIsRefused) {
    const Limited limited(RLIMIT_FSIZE, 4096);
    Report report;
    EXPECT_TRUE(check_file_bytes("f", 4096, report));
    EXPECT_EQ(to_errno(check_file_bytes("f", 4097, report).error()), EFBIG);
    EXPECT_NE(report.text().find("ulimit -f"), std::string::npos) << report.text();
}

TEST(ProcessLimits, WriteBeyondTheLimitRaisesNoSignal) {
    char path[] = "/tmp/ros2store-test-XXXXXX";
    const int file = ::mkostemp(path, O_CLOEXEC);
    ::unlink(path);
    {
        const Limited limited(RLIMIT_FSIZE, 1);
        const NoFileSizeSignal none;
        EXPECT_EQ(::pwrite(file, "x", 1, 1), -1);
        EXPECT_EQ(errno, EFBIG);
    }
    // It was not left pending for a later moment, and the thread's mask is as before.
    sigset_t set;
    sigpending(&set);
    EXPECT_EQ(sigismember(&set, SIGXFSZ), 0);
    pthread_sigmask(SIG_BLOCK, nullptr, &set);
    EXPECT_EQ(sigismember(&set, SIGXFSZ), 0);
    ::close(file);
}

#ifndef ROS2S_SANITIZED
rlim_t address_space_used() {
    unsigned long pages = 0;
    std::FILE* const file = std::fopen("/proc/self/statm", "re");
    EXPECT_EQ(std::fscanf(file, "%lu", &pages), 1);
    (void)std::fclose(file);
    return pages * static_cast<unsigned long>(::sysconf(_SC_PAGESIZE));
}

// A stack has 8 MiB of address space.
TEST(ProcessLimits, ThreadsBeyondTheLimitAreRefused) {
    Report report;
    ASSERT_TRUE(check_threads(3, "a library", report)) << report.text();
    // The C library keeps the stacks of ended threads, 40 MiB of them at most.
    const Limited limited(RLIMIT_AS, address_space_used() + (rlim_t{1} << 20));
    EXPECT_EQ(to_errno(check_threads(16, "a library", report).error()), EAGAIN);
    EXPECT_NE(report.text().find("threads of a library"), std::string::npos) << report.text();
    EXPECT_NE(report.text().find("ulimit -v"), std::string::npos) << report.text();
}

TEST(ProcessLimits, RemainingAddressSpaceIsMeasured) {
    EXPECT_EQ(address_space_left(), UINT64_MAX);
    const Limited limited(RLIMIT_AS, address_space_used() + (rlim_t{100} << 20));
    EXPECT_LE(address_space_left(), uint64_t{100} << 20);
    EXPECT_GE(address_space_left(), uint64_t{90} << 20);
}

TEST(ProcessLimits, MissingAddressSpaceIsReportedWithTheLimitThatWouldDo) {
    constexpr uint64_t mib = uint64_t{1} << 20;
    Report report;
    EXPECT_TRUE(check_address_space(1000, 1000 * mib, "a library", report)) << report.text();
    const rlim_t used = address_space_used();
    const auto limit_that_would_do = [&](size_t threads, uint64_t bytes) {
        const Limited limited(RLIMIT_AS, used + 100 * mib);
        Report why;
        EXPECT_EQ(to_errno(check_address_space(threads, bytes, "a library", why).error()), ENOMEM);
        EXPECT_EQ(why.text().find("a library needs"), 0U) << why.text();
        const std::string_view name = "ulimit -v ";
        return std::stoull(why.text().substr(why.text().find(name) + name.size())) << 10;
    };
    const uint64_t stacks = 4 * thread_stack_bytes();
    for (const char* heaps : {"", "1", "3"}) {
        ::setenv("MALLOC_ARENA_MAX", heaps, 1);
        const uint64_t need =
            stacks + (*heaps == '\0' ? 4 : std::stoul(heaps) - 1) * 64 * mib + 100 * mib;
        const uint64_t limit = limit_that_would_do(4, 100 * mib);
        EXPECT_GE(limit, used + need);
        EXPECT_LE(limit, used + need + 2 * mib);
        const Limited limited(RLIMIT_AS, limit + mib);
        EXPECT_TRUE(check_address_space(4, 100 * mib, "a library", report)) << report.text();
    }
    ::unsetenv("MALLOC_ARENA_MAX");
}
#endif

}  // namespace
}  // namespace ros2s
