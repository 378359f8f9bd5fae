// Parsing of the mount table. (tests/mount has real dead mounts.)
#include "dead_mounts.h"

#include <gtest/gtest.h>

namespace ros2s::cli {
namespace {

TEST(DeadMounts, TheTableIsReadAsTheKernelWritesIt) {
    const std::string_view table =
        "22 28 0:21 / /proc rw,relatime - proc proc rw\n"
        "36 35 0:53 / /mnt/a\\040b rw,nosuid shared:7 master:2 - fuse.ros2store "
        "ros2s+local:///pool/main?dir=/srv/x\\134y rw,user_id=0\n"
        "37 35 0:54 / /mnt/c rw - fuse.sshfs ros2s+local:///pool/main?dir=/srv rw\n"
        "38 35 0:55 / /mnt/d rw - fuse.ros2store source rw\n"
        "\n"
        "39 35 0:56 / /mnt/e rw - fuse.ros2store\n"
        "40 35 0:57 / /mnt/f rw\n";
    EXPECT_EQ(ros2store_mounts(table),
              (std::vector<TableMount>{
                  {.mount_point = "/mnt/a b", .source = "ros2s+local:///pool/main?dir=/srv/x\\y"},
                  {.mount_point = "/mnt/d", .source = "source"}}));
    EXPECT_TRUE(ros2store_mounts("").empty());
}

}  // namespace
}  // namespace ros2s::cli
