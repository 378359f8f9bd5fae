#include "ros2s/fs/stat.h"

#include <gtest/gtest.h>
#include <sys/sysmacros.h>

namespace ros2s::fs {
namespace {

TEST(FileStat, AllAttributesRoundTrip) {
    const Attributes attributes{.node = NodeId{7},
                                .mode = S_IFCHR | 0640,
                                .links = 2,
                                .uid = 1000,
                                .gid = 100,
                                .size = 4097,
                                .bytes_used = 8192,
                                .device = makedev(10, 229),
                                .accessed = WallTime{Duration(1)},
                                .modified = WallTime{Duration(-1)},
                                .changed = WallTime{Duration(2'000'000'003)}};
    const struct stat status = to_stat(attributes, 4096);
    EXPECT_EQ(status.st_ino, 7U);
    EXPECT_EQ(status.st_blksize, 4096);
    EXPECT_EQ(status.st_blocks, 16);
    EXPECT_EQ(status.st_rdev, makedev(10, 229));
    EXPECT_EQ(status.st_mtim.tv_sec, -1);
    const Attributes back = attributes_of(attributes.node, status);
    EXPECT_EQ(back.mode, attributes.mode);
    EXPECT_EQ(back.links, attributes.links);
    EXPECT_EQ(back.uid, attributes.uid);
    EXPECT_EQ(back.gid, attributes.gid);
    EXPECT_EQ(back.size, attributes.size);
    EXPECT_EQ(back.bytes_used, attributes.bytes_used);
    EXPECT_EQ(back.device, attributes.device);
    EXPECT_EQ(back.accessed, attributes.accessed);
    EXPECT_EQ(back.modified, attributes.modified);
    EXPECT_EQ(back.changed, attributes.changed);
}

}  // namespace
}  // namespace ros2s::fs
