// A path that is not persistent memory is refused, with a sentence.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "ros2s/device/pmem/pmem_device.h"
#include "ros2s/runtime/os_reactor.h"

namespace ros2s::device {
namespace {

using testing::HasSubstr;

class PmemPaths : public testing::Test {
  protected:
    PmemPaths() {
        char name[] = "ros2store-test-XXXXXX";
        directory_ = mkdtemp(name);
        Report report;
        reactor_ = std::move(*OsReactor::create({.ring = RingChoice::threads}, report));
    }
    ~PmemPaths() override { std::filesystem::remove_all(directory_); }

    // The refusal of opening `path`: its code and sentence.
    std::pair<Code, std::string> refusal(const std::string& path, PmemDeviceOptions options) {
        Report report;
        const auto opened = reactor_->run(PmemDevice::open(*reactor_, path, options, report));
        EXPECT_FALSE(opened);
        return {opened ? Code::invalid : opened.error().code, report.text()};
    }

    std::string directory_;
    std::unique_ptr<OsReactor> reactor_;
};

TEST_F(PmemPaths, OrdinaryFileIsRefused) {
    const std::string path = directory_ + "/file";
    std::ofstream(path) << std::string(block_bytes, '\0');
    EXPECT_EQ(pmem_bytes(path), std::nullopt);
    const auto [code, text] = refusal(path, {});
    EXPECT_EQ(code, Code::unsupported);
    EXPECT_THAT(text, HasSubstr(path + ": is not persistent memory"));
    EXPECT_THAT(text, HasSubstr("-o dax"));
}

TEST_F(PmemPaths, OtherCharacterDeviceIsRefused) {
    EXPECT_EQ(pmem_bytes("/dev/null"), std::nullopt);
    EXPECT_EQ(refusal("/dev/null", {}).first, Code::unsupported);
}

// Like memory that has lost its contents: a load from the mapping would end the process.
TEST_F(PmemPaths, UnreadableMemoryIsAnError) {
    const std::string path = directory_ + "/file";
    std::ofstream(path) << std::string(4 * block_bytes, 'x');
    Report report;
    auto opened = reactor_->run(PmemDevice::open(*reactor_, path, {.ordinary_file = true}, report));
    ASSERT_TRUE(opened) << report.text();
    std::filesystem::resize_file(path, 2 * block_bytes);
    AlignedBuffer buffer(2 * block_bytes);
    EXPECT_TRUE(reactor_->run((*opened)->read(0, buffer.bytes())));
    const auto cut_off = reactor_->run((*opened)->read(block_bytes, buffer.bytes()));
    ASSERT_FALSE(cut_off);
    EXPECT_EQ(cut_off.error().code, Code::io);
    EXPECT_EQ((*opened)->counters().errors.value(), 1U);
    reactor_->run((*opened)->close());
}

TEST_F(PmemPaths, MissingPathIsReported) {
    EXPECT_EQ(pmem_bytes(directory_ + "/none"), std::nullopt);
    const auto [code, text] = refusal(directory_ + "/none", {});
    EXPECT_EQ(code, Code::not_found);
    EXPECT_THAT(text, HasSubstr("check the path"));
}

TEST_F(PmemPaths, PipeAndDirectoryAreRefused) {
    const std::string pipe = directory_ + "/pipe";
    ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
    EXPECT_EQ(refusal(pipe, {.ordinary_file = true}).first, Code::invalid);
    EXPECT_NE(refusal(directory_, {.ordinary_file = true}).second, "");
}

TEST_F(PmemPaths, TruncatedFileIsRefused) {
    const std::string path = directory_ + "/file";
    std::ofstream(path) << std::string(block_bytes + 1, '\0');
    const auto [code, text] = refusal(path, {.ordinary_file = true});
    EXPECT_EQ(code, Code::corrupt);
    EXPECT_THAT(text, HasSubstr("4097 bytes"));
}

TEST_F(PmemPaths, SecondOpenerIsRefused) {
    const std::string path = directory_ + "/file";
    std::ofstream(path) << std::string(block_bytes, '\0');
    Report report;
    auto first = reactor_->run(
        PmemDevice::open(*reactor_, path, PmemDeviceOptions{.ordinary_file = true}, report));
    ASSERT_TRUE(first) << report.text();
    EXPECT_EQ((*first)->path(), "libpmem, ordinary file, msync");
    EXPECT_EQ(refusal(path, {.ordinary_file = true}).first, Code::busy);
    reactor_->run((*first)->close());
}

}  // namespace
}  // namespace ros2s::device
