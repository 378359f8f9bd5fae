// The parts of NVMe that need no namespace: answers of controllers, statuses, and refusals.
#include "ros2s/device/nvme/nvme_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "namespace.h"
#include "ros2s/runtime/test_support/made_reactor.h"
#include "status.h"

namespace ros2s::device {
namespace {

using testing::HasSubstr;

// The answers of a controller whose namespace has `lbas` blocks of 2^`shift` bytes.
struct Answers {
    AlignedBuffer of_namespace{4096}, of_controller{4096};
    explicit Answers(uint64_t lbas, uint8_t shift, uint8_t format = 0) {
        std::memset(of_namespace.data(), 0, 4096);
        std::memset(of_controller.data(), 0, 4096);
        std::memcpy(of_namespace.data(), &lbas, sizeof lbas);
        put(of_namespace, 26, (format & 0x0fU) | (format & 0x30U) << 1);
        put(of_namespace, 128 + 4 * format + 2, shift);
        std::memcpy(of_controller.data() + 4, "S1234               ", 20);
        std::memcpy(of_controller.data() + 24, "A disk                                  ", 40);
    }
    static void put(AlignedBuffer& answer, size_t at, unsigned value) {
        answer.data()[at] = static_cast<std::byte>(value);
    }
    Result<NamespaceFormat> read(Report& report) const {
        return read_identify("/dev/ng0n1", 7, of_namespace.bytes(), of_controller.bytes(), report);
    }
};

TEST(NvmeIdentify, BlocksOf512And4096BytesAreAccepted) {
    for (const auto& [shift, format] : {std::pair{uint8_t{9}, uint8_t{0}}, {12, 3}, {12, 17}}) {
        Report report;
        const auto read = Answers(1001, shift, format).read(report);
        ASSERT_TRUE(read) << report.text();
        EXPECT_EQ(read->lba_bytes, 1U << shift);
        EXPECT_EQ(read->size, (uint64_t{1001} << shift) / 4096 * 4096);
        EXPECT_EQ(read->model, "A disk");
        EXPECT_FALSE(read->has_volatile_cache);
        EXPECT_FALSE(read->can_deallocate);
    }
}

TEST(NvmeIdentify, CacheAndDeallocationAreReported) {
    Answers answers(1000, 12);
    Answers::put(answers.of_controller, 525, 0x07);
    Answers::put(answers.of_controller, 520, 0x04);
    Report report;
    const auto read = answers.read(report);
    ASSERT_TRUE(read);
    EXPECT_TRUE(read->has_volatile_cache);
    EXPECT_TRUE(read->can_deallocate);
}

TEST(NvmeKernel, DistributorVersionIsParsed) {
    const auto read = [](const char* release, const char* version, const char* signature) {
        return KernelVersion::read(release, version, signature).to_string();
    };
    EXPECT_EQ(read("6.12.117+deb12-amd64", "#1 SMP Debian 6.12.117-1 (2026-10-01)", ""),
              "6.12.117");
    EXPECT_EQ(read("6.1.0-56-amd64", "#1 SMP PREEMPT_DYNAMIC Debian 6.1.192-2 (2026-11-16)", ""),
              "6.1.192");
    EXPECT_EQ(read("6.5.0-41-generic", "#41~22.04.2-Ubuntu SMP",
                   "Ubuntu 6.5.0-41.41~22.04.2-generic 6.5.13"),
              "6.5.13");
    EXPECT_EQ(read("6.1.0-rpi7-rpi-v8", "#1 SMP PREEMPT Debian 1:6.1.63-1+rpt1 (2023-11-24)", ""),
              "6.1.63");
    EXPECT_EQ(read("6.9.3", "#1 SMP Debian 6.1.5-1", ""), "6.9.3");
    EXPECT_EQ(read("10.0-rc1", "", ""), "10.0.0");
    EXPECT_EQ(read("", "#1", "Ubuntu"), "0.0.0");
    EXPECT_EQ(read("linux", "Debian x", "a b"), "0.0.0");
    EXPECT_GT(KernelVersion::running(), (KernelVersion{3, 0, 0}));
}

TEST(NvmeKernel, FixedVersionsAreTrusted) {
    for (const auto& mended :
         {KernelVersion{6, 1, 63}, {6, 5, 12}, {6, 6, 2}, {6, 7, 0}, {7, 0, 0}}) {
        EXPECT_TRUE(mended.reports_dropped_commands()) << mended.to_string();
    }
    for (const auto& broken :
         {KernelVersion{}, {5, 19, 0}, {6, 1, 62}, {6, 2, 16}, {6, 4, 9}, {6, 5, 11}, {6, 6, 1}}) {
        EXPECT_FALSE(broken.reports_dropped_commands()) << broken.to_string();
    }
    EXPECT_TRUE((KernelVersion{6, 4, 0}.polls_by_request()));
    EXPECT_FALSE((KernelVersion{6, 3, 13}.polls_by_request()));
    EXPECT_TRUE((KernelVersion{6, 12, 0}.takes_parts_of_registered()));
    EXPECT_FALSE((KernelVersion{6, 11, 9}.takes_parts_of_registered()));
}

TEST(NvmeIdentify, UnsupportedNamespaceIsRefused) {
    Report metadata, size, none;
    Answers answers(1000, 12);
    Answers::put(answers.of_namespace, 128, 8);
    EXPECT_EQ(answers.read(metadata).error().code, Code::unsupported);
    EXPECT_THAT(metadata.text(), HasSubstr("8 bytes of metadata"));
    EXPECT_EQ(Answers(1000, 16).read(size).error().code, Code::unsupported);
    EXPECT_THAT(size.text(), HasSubstr("2^16 bytes"));
    EXPECT_EQ(Answers(0, 12).read(none).error().code, Code::corrupt);
    EXPECT_EQ(Answers(~uint64_t{0}, 12).read(none).error().code, Code::corrupt);
}

TEST(NvmeIdentify, BestAvailableIdentityIsUsed) {
    Answers answers(1000, 12);
    Report report;
    EXPECT_EQ(answers.read(report)->identity.to_string(), "serial S1234, namespace 7");
    for (size_t i = 0; i < 8; ++i) Answers::put(answers.of_namespace, 120 + i, 0x50 + i);
    EXPECT_EQ(answers.read(report)->identity.to_string(), "eui.5051525354555657");
    Answers::put(answers.of_namespace, 119, 1);
    EXPECT_EQ(answers.read(report)->identity.to_string(), "nguid.00000000000000000000000000000001");
}

TEST(NvmeStatus, StatusBecomesADeviceError) {
    EXPECT_EQ(command_error(0x4281), (Error{Code::io, EIO, 0x281}));
    EXPECT_EQ(command_error(0x371), (Error{Code::io, ENODEV, 0x371}));
    EXPECT_EQ(command_error(0x4020), (Error{Code::io, EROFS, 0x20}));
    EXPECT_EQ(command_error(0x7c0), (Error{Code::io, EIO, 0x7c0}));
    EXPECT_EQ(command_error(-ENODEV), (Error{Code::io, ENODEV, 0}));
    EXPECT_EQ(describe_failure(0x4281), "NVMe status 0x281: the medium could not be read");
    EXPECT_THAT(describe_failure(-ENODEV), HasSubstr("the namespace is gone"));
    EXPECT_THAT(describe_failure(0x7c0), HasSubstr("0x7c0"));
}

TEST(NvmeStatus, CancellationByResetIsRecognised) {
    EXPECT_TRUE(was_cancelled(-EINTR));
    for (const int32_t status : {0x005, 0x007, 0x008, 0x370, 0x371}) {
        EXPECT_TRUE(was_cancelled(status)) << status;
    }
    EXPECT_FALSE(was_cancelled(0x082));
    EXPECT_FALSE(was_cancelled(-ENODEV));
    EXPECT_FALSE(was_cancelled(0));
    EXPECT_THAT(describe_failure(-EINTR), HasSubstr("the controller was reset"));
}

TEST(NvmeCache, FlushAfterResetProvesNothing) {
    CacheWatch watch;
    watch.met_reset();  // nothing was written
    watch.flushing();
    EXPECT_TRUE(watch.flushed());
    watch.wrote(watch.resets());
    watch.flushing();
    EXPECT_TRUE(watch.flushed());
    watch.met_reset();  // all is flushed
    watch.flushing();
    EXPECT_TRUE(watch.flushed());
    watch.wrote(watch.resets());
    watch.met_reset();
    for (int i = 0; i < 2; ++i) {
        watch.flushing();
        EXPECT_FALSE(watch.flushed());
    }
}
TEST(NvmeCache, ResetDuringFlushFailsTheFlush) {
    CacheWatch watch;
    watch.wrote(watch.resets());
    watch.flushing();
    watch.met_reset();  // as another command reports
    EXPECT_FALSE(watch.flushed());
}
TEST(NvmeCache, ResetOnAnotherCoreBeforeWriteIsSeen) {
    CacheWatch watch;
    const uint32_t resets = watch.resets();
    watch.met_reset();
    watch.wrote(resets);
    watch.flushing();
    EXPECT_FALSE(watch.flushed());
}
TEST(NvmeCache, WriteEndingDuringFlushIsNotFlushed) {
    CacheWatch watch;
    watch.wrote(watch.resets());
    watch.flushing();
    watch.wrote(watch.resets());
    EXPECT_TRUE(watch.flushed());
    watch.met_reset();
    watch.flushing();
    EXPECT_FALSE(watch.flushed());
}

TEST(NvmeStatus, RetryableStatusMayBeRepeated) {
    EXPECT_TRUE(may_repeat(0x082));
    EXPECT_FALSE(may_repeat(0x4281));
    EXPECT_FALSE(may_repeat(0));
    EXPECT_FALSE(may_repeat(-ENODEV));
    EXPECT_TRUE(may_repeat(-EINTR));
}

TEST(NvmeDevice, OtherPathIsRefused) {
    EXPECT_FALSE(nvme_bytes("/dev/null"));
    EXPECT_FALSE(nvme_bytes("/dev/there-is-none"));
    EXPECT_FALSE(nvme_bytes("/"));
    Report report;
    const auto reactor = made_reactor();
    if (reactor->ring()->kind() != Ring::Kind::io_uring) GTEST_SKIP() << "no io_uring here";
    const auto opened = reactor->run(NvmeDevice::open(*reactor, "/dev/null", {}, report));
    EXPECT_EQ(opened.error().code, Code::invalid);
    EXPECT_THAT(report.text(), HasSubstr("/dev/null: is not an NVMe namespace"));
}

TEST(NvmeDevice, RingWithoutIoUringIsRefused) {
    Report report;
    const auto reactor = made_reactor({.ring = RingChoice::threads});
    const auto opened = reactor->run(NvmeDevice::open(*reactor, "/dev/ng0n1", {}, report));
    EXPECT_EQ(opened.error().code, Code::unsupported);
    EXPECT_THAT(report.text(), HasSubstr("needs io_uring"));
}

}  // namespace
}  // namespace ros2s::device
