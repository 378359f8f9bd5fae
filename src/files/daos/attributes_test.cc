// A value whose size libdfs reports as larger than the memory for it.
#include <gtest/gtest.h>

#include "file_system.h"

namespace ros2s::daos {
namespace {

TEST(DaosXattr, OversizedValueIsRefused) {
    Libdfs dfs{};
    dfs.dfs_getxattr = [](dfs_t*, dfs_obj_t*, const char* name, void*, daos_size_t* size) {
        *size = *name == 'l' ? *size + 1 : *size;
        return 0;
    };
    const auto whole = read_xattr(dfs, nullptr, nullptr, "whole");
    ASSERT_TRUE(whole);
    EXPECT_EQ(whole->size(), fs::attribute_value_bytes_max);
    const auto larger = read_xattr(dfs, nullptr, nullptr, "larger");
    ASSERT_FALSE(larger);
    EXPECT_EQ(larger.error().code, Code::too_large);
}

}  // namespace
}  // namespace ros2s::daos
