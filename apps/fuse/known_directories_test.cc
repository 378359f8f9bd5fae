#include "known_directories.h"

#include <gtest/gtest.h>

namespace ros2s::fuse {
namespace {

using std::chrono::seconds;

fs::Attributes directory(uint64_t node) {
    return {.node = {node}, .mode = S_IFDIR | 0750, .links = 1, .uid = 7};
}
const Time known_at = Time{} + seconds(100);

TEST(KnownDirectories, RemovedDirectoryKeepsItsLastAttributes) {
    KnownDirectories known;
    EXPECT_FALSE(known.attributes({1}));
    known.see(directory(1), known_at, true);
    ASSERT_TRUE(known.attributes({1}));
    EXPECT_EQ(known.attributes({1})->uid, 7U);
    EXPECT_EQ(known.attributes({1})->links, 0U);
    EXPECT_FALSE(known.attributes({2}));
    known.forget({1});
    EXPECT_FALSE(known.attributes({1}));
}

TEST(KnownDirectories, RecentlyLookedUpDirectoryIsOnAPath) {
    KnownDirectories known;
    EXPECT_TRUE(known.is_in_use({1}, known_at));
    known.see(directory(1), known_at, true);
    EXPECT_FALSE(known.is_in_use({1}, known_at));
    known.see(directory(1), known_at + seconds(1), false);
    EXPECT_TRUE(known.is_in_use({1}, known_at + seconds(1)));
    known.see(directory(2), known_at, false);
    EXPECT_TRUE(known.is_in_use({2}, known_at));
}

TEST(KnownDirectories, KeepsThoseUsedLast) {
    KnownDirectories known(8);
    for (uint64_t node = 1; node <= 100; ++node) {
        known.see(directory(node), known_at, true);
        known.see(directory(1), known_at, false);
    }
    size_t kept = 0;
    for (uint64_t node = 1; node <= 100; ++node) kept += known.attributes({node}) ? 1 : 0;
    EXPECT_LE(kept, 8U);
    EXPECT_TRUE(known.attributes({1})) << "it is used";
    EXPECT_TRUE(known.attributes({100}));
}

}  // namespace
}  // namespace ros2s::fuse
