#include "ros2s/base/staging_memory.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <string>
#include <utility>

#include "ros2s/base/bytes.h"

namespace ros2s {
namespace {

bool is_multiple(const void* address, size_t of) {
    return reinterpret_cast<uintptr_t>(address) % of == 0;
}

// The value of `field` in /proc/self/smaps for the mapping that contains the address.
std::string field_of(const void* address, const std::string& field) {
    const auto wanted = reinterpret_cast<uintptr_t>(address);
    std::ifstream maps("/proc/self/smaps");
    bool here = false;
    for (std::string line; std::getline(maps, line);) {
        unsigned long begin = 0, end = 0;
        if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2) {
            here = wanted >= begin && wanted < end;
        } else if (here && line.starts_with(field + ":")) {
            return line;
        }
    }
    return "";
}

TEST(StagingMemory, AnySizeIsAligned) {
    for (const size_t size : {block_bytes, size_t{1} << 20, StagingMemory::huge_page_bytes}) {
        StagingMemory memory(size);
        EXPECT_EQ(memory.size(), size);
        EXPECT_TRUE(is_multiple(memory.data(), block_bytes));
        std::memset(memory.data(), 1, size);
        const StagingMemory moved = std::move(memory);
        EXPECT_EQ(moved.data()[size - 1], std::byte{1});
    }
    EXPECT_EQ(StagingMemory().size(), 0U);
}

#ifndef ROS2S_SANITIZED  // its allocator keeps freed memory, to detect a use after free
TEST(StagingMemory, FreedMemoryReturnsToTheKernel) {
    for (const size_t size : {size_t{1} << 20, StagingMemory::huge_page_bytes}) {
        StagingMemory memory(size);
        const void* const address = memory.data();
        std::memset(memory.data(), 1, size);
        if (field_of(address, "Rss").empty()) GTEST_SKIP() << "no /proc/self/smaps";
        memory = StagingMemory();
        EXPECT_EQ(field_of(address, "Rss"), "") << size;
    }
}
#endif

TEST(StagingMemory, LargeMemoryAsksForHugePages) {
    const StagingMemory memory(StagingMemory::huge_page_bytes);
    EXPECT_TRUE(is_multiple(memory.data(), StagingMemory::huge_page_bytes));
    if (!std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled")) {
        GTEST_SKIP() << "a kernel without transparent huge pages";
    }
    const std::string flags = field_of(memory.data(), "VmFlags");
    if (flags.empty()) GTEST_SKIP() << "no /proc/self/smaps";
    EXPECT_NE(flags.find(" hg"), std::string::npos) << flags;
}

}  // namespace
}  // namespace ros2s
