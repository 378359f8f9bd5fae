#include "ros2s/base/durable_file.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace ros2s {
namespace {

TEST(DurableFile, ParentOfAPathIsFound) {
    EXPECT_EQ(parent_of("name"), ".");
    EXPECT_EQ(parent_of("/name"), "/");
    EXPECT_EQ(parent_of("a/name"), "a");
    EXPECT_EQ(parent_of("/a/b/name"), "/a/b");
}

TEST(DurableFile, BareNameIsReplacedAndRead) {
    const auto before = std::filesystem::current_path();
    const std::filesystem::path own = testing::TempDir() + "ros2s_durable_file";
    std::filesystem::create_directories(own);
    std::filesystem::current_path(own);
    const auto first = replace_file("name", "first");
    const auto second = replace_file("name", "second");
    const auto text = read_file("name", 6), too_long = read_file("name", 5);
    std::filesystem::current_path(before);
    std::filesystem::remove_all(own);
    EXPECT_TRUE(first && second);
    EXPECT_EQ(text, "second");
    ASSERT_FALSE(too_long);
    EXPECT_EQ(too_long.error().code, Code::too_large);
}

}  // namespace
}  // namespace ros2s
