#include "metrics_password.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

namespace ros2s::daemon {
namespace {

using testing::HasSubstr;

class MetricsPassword : public testing::Test {
  protected:
    MetricsPassword() {
        std::string pattern = testing::TempDir() + "metrics-XXXXXX";
        EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
        directory_ = pattern;
    }
    ~MetricsPassword() override { std::filesystem::remove_all(directory_); }
    Result<std::string> read() {
        report_ = {};
        return metrics_password(path(), report_);
    }
    [[nodiscard]] std::string path() const { return directory_ + "/password"; }

    std::string directory_;
    Report report_;
};

TEST_F(MetricsPassword, PasswordIsCreatedOnceWithPrivateMode) {
    const auto made = read();
    ASSERT_TRUE(made) << report_.text();
    EXPECT_EQ(made->size(), 32U);
    struct stat facts{};
    ASSERT_EQ(::stat(path().c_str(), &facts), 0);
    EXPECT_EQ(facts.st_mode & 07777, 0600U);
    EXPECT_EQ(read(), made);
}

TEST_F(MetricsPassword, OperatorPasswordIsUsedIfPrivate) {
    std::ofstream(path()) << "secret of ours\nmore\n";
    ::chmod(path().c_str(), 0640);
    EXPECT_EQ(read(), Result<std::string>("secret of ours"));
    ::chmod(path().c_str(), 0644);
    EXPECT_EQ(read().error().code, Code::denied);
    EXPECT_THAT(report_.text(), HasSubstr("is a secret that others can read (mode 0644)"));
    std::ofstream(path(), std::ios::trunc) << "\n";
    ::chmod(path().c_str(), 0600);
    EXPECT_EQ(read().error().code, Code::invalid);
    std::filesystem::remove(path());
    std::filesystem::create_directory(path());
    EXPECT_FALSE(read());
    EXPECT_THAT(report_.text(), HasSubstr("is not a regular file, but a directory"));
}

}  // namespace
}  // namespace ros2s::daemon
