// The effects of loading UCX on a process, in processes that had not loaded it: none before the
// first domain. Afterwards the program's signal handlers and the code of its C library are
// unchanged.
#include "ucx_library.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "context.h"
#include "ros2s/base/check.h"

namespace ros2s::fabric::ucx {
namespace {

bool is_loaded() {
    void* found = dlopen("libucs.so.0", RTLD_NOW | RTLD_NOLOAD);
    if (found != nullptr) dlclose(found);
    return found != nullptr;
}

// Signal → its handler and flags.
std::map<int, struct sigaction> handlers() {
    std::map<int, struct sigaction> all;
    for (int each = 1; each <= SIGRTMAX; ++each) {
        struct sigaction now{};
        if (sigaction(each, nullptr, &now) == 0) all[each] = now;
    }
    return all;
}

int differing(const std::map<int, struct sigaction>& before) {
    int count = 0;
    for (const auto& [each, now] : handlers()) {
        const struct sigaction& was = before.at(each);
        if (was.sa_handler == now.sa_handler && was.sa_flags == now.sa_flags) continue;
        std::fprintf(stderr, "signal %d is handled otherwise than before\n", each);
        ++count;
    }
    return count;
}

// The first instructions of the functions that UCX would patch.
std::map<std::string, std::string> code_of_libc() {
    constexpr size_t beginning = 16;
    void* libc = dlopen("libc.so.6", RTLD_NOW);
    ROS2S_CHECK(libc != nullptr);
    std::map<std::string, std::string> all;
    for (const char* each : {"mmap", "munmap", "mremap", "madvise", "shmat", "shmdt", "brk", "sbrk",
                             "malloc", "free"}) {
        const void* function = dlsym(libc, each);
        ROS2S_CHECK(function != nullptr);
        all[each].assign(static_cast<const char*>(function), beginning);
    }
    return all;
}

void open_a_context() {
    Report report;
    const auto context = Context::open({.provider = "ucx+tcp", .device = "lo"},
                                       {{"TLS", "tcp"}, {"NET_DEVICES", "lo"}}, report);
    if (!context) std::fprintf(stderr, "%s\n", report.text().c_str());
    ROS2S_CHECK(context);
}

[[noreturn]] void own_handler(int) { _exit(77); }

[[noreturn]] void load_and_compare() {
    ROS2S_CHECK(!is_loaded());
    struct sigaction own{};
    own.sa_handler = own_handler;
    for (const int each : {SIGSEGV, SIGUSR1}) ROS2S_CHECK(sigaction(each, &own, nullptr) == 0);
    const auto before = handlers();
    open_a_context();
    ROS2S_CHECK(is_loaded());
    _exit(differing(before) == 0 ? 0 : 1);
}

// Each test runs in a program started for it.
class UcxLibraryLoading : public testing::Test {
  protected:
    void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(UcxLibraryLoading, SignalHandlersStayUnchanged) {
    EXPECT_EXIT(load_and_compare(), testing::ExitedWithCode(0), "");
}

[[noreturn]] void load_and_compare_code() {
    const auto before = code_of_libc();
    open_a_context();
    _exit(before == code_of_libc() ? 0 : 1);
}

TEST_F(UcxLibraryLoading, LibcCodeStaysUnchanged) {
    EXPECT_EXIT(load_and_compare_code(), testing::ExitedWithCode(0), "");
}

TEST_F(UcxLibraryLoading, WithHostileEnvironmentNothingChanges) {
    setenv("UCX_HANDLE_ERRORS", "bt", 1);
    setenv("UCX_DEBUG_SIGNO", "SIGUSR2", 1);
    setenv("UCX_MEM_EVENTS", "yes", 1);
    EXPECT_EXIT(load_and_compare(), testing::ExitedWithCode(0), "");
    EXPECT_EXIT(load_and_compare_code(), testing::ExitedWithCode(0), "");
    unsetenv("UCX_HANDLE_ERRORS");
    unsetenv("UCX_DEBUG_SIGNO");
    unsetenv("UCX_MEM_EVENTS");
}

// The comparison detects what a plain dlopen() does. (A program with AddressSanitizer crashes.)
#ifndef ROS2S_SANITIZED
TEST_F(UcxLibraryLoading, PlainDlopenChangesSignalsAndLibc) {
    EXPECT_EXIT(
        {
            const auto before = handlers();
            const auto code = code_of_libc();
            const void* loaded = dlopen("libucp.so.0", RTLD_NOW | RTLD_LOCAL);
            ROS2S_CHECK(loaded != nullptr);
            _exit(differing(before) > 0 && code != code_of_libc() ? 0 : 1);
        },
        testing::ExitedWithCode(0), "signal 1 is handled");
}
#endif

TEST_F(UcxLibraryLoading, LoadedLibraryIsReported) {
    EXPECT_EXIT(
        {
            Report report;
            const auto asked = library(report);
            ROS2S_CHECK(asked && is_loaded());
            const auto functions = ucx_library(report);
            ROS2S_CHECK(functions && (*functions)->path == (*asked)->path);
            std::fprintf(stderr, "%s is %s\n", (*asked)->path.c_str(), (*asked)->version.c_str());
            _exit(0);
        },
        testing::ExitedWithCode(0), "^/.*libucp\\.so[.0-9]* is 1\\.[0-9]+\\.[0-9]+");
}

// Another user's settings in a directory that all users can write, such as /tmp.
TEST(UcxLibrary, ForeignConfigInCurrentDirectoryIsRefused) {
    if (geteuid() != 0) GTEST_SKIP() << "only root can give a file to somebody else";
    const std::filesystem::path before = std::filesystem::current_path();
    char directory[] = "/tmp/ros2store-ucx-XXXXXX";
    ASSERT_NE(mkdtemp(directory), nullptr);
    std::filesystem::current_path(directory);
    std::ofstream("ucx.conf") << "UCX_MODULE_DIR=" << directory << "\n";
    constexpr uid_t somebody = 65534;
    EXPECT_EQ(chown("ucx.conf", somebody, somebody), 0);
    Report report;
    const auto refused = load_ucx_library("libucp.so.0", report);
    EXPECT_EQ(chown("ucx.conf", geteuid(), getegid()), 0);
    std::filesystem::remove("ucx.conf");
    const auto loaded = load_ucx_library("libucp.so.0", report);
    std::filesystem::current_path(before);
    std::filesystem::remove(directory);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::denied);
    EXPECT_NE(report.text().find("ucx.conf in the current directory belongs to user 65534"),
              std::string::npos)
        << report.text();
    EXPECT_TRUE(loaded);
}

TEST(UcxLibrary, MissingLibraryIsReportedWithRemedy) {
    Report report;
    const auto loaded = load_ucx_library("libucp_nowhere.so.0", report);
    ASSERT_FALSE(loaded);
    EXPECT_EQ(loaded.error().code, Code::unsupported);
    for (const char* part : {"libucp_nowhere.so.0", "UCX", "apt-get install libucx0"}) {
        EXPECT_NE(report.text().find(part), std::string::npos) << report.text();
    }
}

TEST(UcxLibrary, WrongLibraryIsReportedWithMissingSymbol) {
    Report report;
    const auto loaded = load_ucx_library("libm.so.6", report);
    ASSERT_FALSE(loaded);
    EXPECT_EQ(loaded.error().code, Code::unsupported);
    for (const char* part : {"libm.so.6", "ucp_am_send_nbx", "apt-get install libucx0"}) {
        EXPECT_NE(report.text().find(part), std::string::npos) << report.text();
    }
}

}  // namespace
}  // namespace ros2s::fabric::ucx
