// Writes to persistent memory make no system call: the kernel ends a process that makes one.
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <filesystem>
#include <fstream>

#include "ros2s/base/check.h"
#include "ros2s/device/pmem/pmem_device.h"
#include "ros2s/runtime/os_reactor.h"

namespace ros2s::device {
namespace {

constexpr uint64_t file_bytes = uint64_t{1} << 20;

// From here on the only system call that is allowed is exit.
void allow_no_system_call() {
    std::array filter{
        sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1),
        sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    const sock_fprog program{.len = filter.size(), .filter = filter.data()};
    ROS2S_CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    ROS2S_CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

Task<> write_all(BlockDevice& device) {
    const AlignedBuffer block(block_bytes);
    allow_no_system_call();
    bool written = true;
    for (uint64_t at = 0; at < file_bytes; at += block_bytes) {
        written = written && co_await device.write(at, block.bytes());
    }
    written = written && co_await device.flush();
    _exit(written ? 0 : 1);
}

class PmemWrites : public testing::Test {
  protected:
    PmemWrites() {
        GTEST_FLAG_SET(death_test_style,
                       "threadsafe");  // libpmem reads its environment when it is loaded
        char name[] = "ros2store-test-XXXXXX";
        directory_ = mkdtemp(name);
        std::ofstream(directory_ + "/file") << std::string(file_bytes, '\0');
    }
    ~PmemWrites() override {
        std::filesystem::remove_all(directory_);
        unsetenv("PMEM_IS_PMEM_FORCE");
    }
    void write() {
        Report report;
        auto reactor = std::move(*OsReactor::create({.ring = RingChoice::threads}, report));
        auto device = reactor->run(
            PmemDevice::open(*reactor, directory_ + "/file", {.ordinary_file = true}, report));
        ROS2S_CHECK(device.has_value());
        std::filesystem::remove_all(directory_);  // this process ends without its destructors
        reactor->run(write_all(**device));
    }

    std::string directory_;
};

#ifndef ROS2S_SANITIZED  // whose allocator asks the kernel for memory now and then
TEST_F(PmemWrites, WriteToPmemMakesNoSystemCall) {
    setenv("PMEM_IS_PMEM_FORCE", "1", 1);  // the file stands in for memory
    EXPECT_EXIT(write(), testing::ExitedWithCode(0), "");
}
#endif

TEST_F(PmemWrites, WriteToOrdinaryFileMakesSystemCalls) {
    EXPECT_EXIT(write(), testing::KilledBySignal(SIGSYS), "");
}

}  // namespace
}  // namespace ros2s::device
