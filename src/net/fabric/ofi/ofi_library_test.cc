// Loading libfabric, in processes that had not loaded it.
#include "ofi_library.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "context.h"
#include "ros2s/base/check.h"

namespace ros2s::fabric::ofi {
namespace {

bool is_loaded() {
    void* found = dlopen("libfabric.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (found != nullptr) dlclose(found);
    return found != nullptr;
}

size_t threads() {
    size_t count = 0;
    for ([[maybe_unused]] const auto& each :
         std::filesystem::directory_iterator("/proc/self/task")) {
        ++count;
    }
    return count;
}

// The effects that a program notices: signal handlers, libc's code, threads.
[[noreturn]] void load_and_compare() {
    ROS2S_CHECK(!is_loaded());
    std::vector<struct sigaction> before(static_cast<size_t>(SIGRTMAX) + 1);
    for (int each = 1; each <= SIGRTMAX; ++each)
        (void)sigaction(each, nullptr, &before[static_cast<size_t>(each)]);
    void* libc = dlopen("libc.so.6", RTLD_NOW);
    const std::string code(static_cast<const char*>(dlsym(libc, "mmap")), 16);
    const size_t threads_before = threads();
    Report report;
    const auto context = Context::open({.provider = "ofi+tcp;ofi_rxm", .device = "lo"},
                                       {.provider = "tcp;ofi_rxm", .domain = "lo"}, report);
    if (!context) std::fprintf(stderr, "%s\n", report.text().c_str());
    ROS2S_CHECK(context && is_loaded());
    ROS2S_CHECK(code == std::string(static_cast<const char*>(dlsym(libc, "mmap")), 16));
    ROS2S_CHECK(threads() == threads_before);
    for (int each = 1; each <= SIGRTMAX; ++each) {
        struct sigaction now{};
        (void)sigaction(each, nullptr, &now);
        ROS2S_CHECK(now.sa_handler == before[static_cast<size_t>(each)].sa_handler);
    }
    _exit(0);
}

// Each test runs in a program started for it.
class OfiLibraryLoading : public testing::Test {
  protected:
    void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(OfiLibraryLoading, SignalsLibcAndThreadsStayUnchanged) {
    EXPECT_EXIT(load_and_compare(), testing::ExitedWithCode(0), "");
}

TEST_F(OfiLibraryLoading, WithHostileEnvironmentNothingChanges) {
    setenv("FI_LOG_LEVEL", "debug", 1);
    setenv("FI_OFI_RXM_DATA_AUTO_PROGRESS", "1", 1);
    setenv("FI_MR_CACHE_MONITOR", "memhooks", 1);
    EXPECT_EXIT(load_and_compare(), testing::ExitedWithCode(0), "^$");
    unsetenv("FI_LOG_LEVEL");
    unsetenv("FI_OFI_RXM_DATA_AUTO_PROGRESS");
    unsetenv("FI_MR_CACHE_MONITOR");
}

TEST_F(OfiLibraryLoading, LoadedLibraryIsReported) {
    EXPECT_EXIT(
        {
            Report report;
            const auto asked = library(report);
            ROS2S_CHECK(asked && is_loaded());
            std::fprintf(stderr, "%s is %s\n", (*asked)->path.c_str(), (*asked)->version.c_str());
            _exit(0);
        },
        testing::ExitedWithCode(0), "^/.*libfabric\\.so[.0-9]* is 1\\.[0-9]+");
}

TEST(OfiLibrary, MissingLibraryIsReportedWithRemedy) {
    Report report;
    const auto loaded = load_ofi_library("libfabric_nowhere.so.1", report);
    ASSERT_FALSE(loaded);
    EXPECT_EQ(loaded.error().code, Code::unsupported);
    for (const char* part : {"libfabric_nowhere.so.1", "apt-get install libfabric1"}) {
        EXPECT_NE(report.text().find(part), std::string::npos) << report.text();
    }
}

TEST(OfiLibrary, WrongLibraryIsReportedWithMissingSymbol) {
    Report report;
    const auto loaded = load_ofi_library("libm.so.6", report);
    ASSERT_FALSE(loaded);
    EXPECT_EQ(loaded.error().code, Code::unsupported);
    for (const char* part : {"libm.so.6", "fi_dupinfo", "apt-get install libfabric1"}) {
        EXPECT_NE(report.text().find(part), std::string::npos) << report.text();
    }
}

}  // namespace
}  // namespace ros2s::fabric::ofi
