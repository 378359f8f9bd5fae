#include "ros2s/base/mount_table.h"

#include <gtest/gtest.h>

#include <sstream>

namespace ros2s {
namespace {

std::vector<MountEntry> mounts_in(const std::string& text) {
    std::istringstream table(text);
    return read_mounts(table);
}

TEST(MountTable, FieldsAfterTheHyphenAreFound) {
    const auto mounts = mounts_in(
        "22 28 0:21 / /proc rw,relatime - proc proc rw\n"
        "36 35 98:0 /a /mnt/b rw,nosuid shared:7 master:2 - ext4 /dev/x rw,errors=continue\n");
    ASSERT_EQ(mounts.size(), 2U);
    EXPECT_EQ(mounts[0].id, 22U);
    EXPECT_EQ(mounts[0].mount_point, "/proc");
    EXPECT_EQ(mounts[0].kind, "proc");
    EXPECT_EQ(mounts[1].id, 36U);
    EXPECT_EQ(mounts[1].device, "98:0");
    EXPECT_EQ(mounts[1].mount_point, "/mnt/b");
    EXPECT_EQ(mounts[1].kind, "ext4");
    EXPECT_EQ(mounts[1].source, "/dev/x");
}

TEST(MountTable, EscapedBytesAreRestored) {
    const auto mounts = mounts_in(
        "1 1 0:1 / /a\\040b\\011c\\012d\\134e rw - fuse.x s\\043\\134040 rw\n"
        "2 1 0:1 / /\\04\\999\\400\\12 rw - x \\04 rw\n");
    ASSERT_EQ(mounts.size(), 2U);
    EXPECT_EQ(mounts[0].mount_point, "/a b\tc\nd\\e");
    EXPECT_EQ(mounts[0].source, "s#\\040");
    EXPECT_EQ(mounts[1].mount_point, "/\\04\\999\\400\\12");
    EXPECT_EQ(mounts[1].source, "\\04");
}

TEST(MountTable, IncompleteLinesAreIgnored) {
    EXPECT_TRUE(mounts_in("").empty());
    EXPECT_TRUE(
        mounts_in("\n1 1 0:1 / /a rw - x\n1 1 0:1 / /a rw\nx 1 0:1 / /a rw - x y\n").empty());
}

}  // namespace
}  // namespace ros2s
