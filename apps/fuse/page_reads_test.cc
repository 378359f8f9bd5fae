// PageReads: which pages are dropped, and when.
#include "page_reads.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace ros2s::fuse {
namespace {

constexpr fs::NodeId one{1}, two{2};
constexpr Time start{};

TEST(PageReads, ReadsAreDueOnceAfterTheirLifetime) {
    PageReads reads;
    reads.note(start, one, 10, 8192, 4096);
    reads.note(start + PageReads::lifetime / 2, one, 10, 0, 4096);
    reads.note(start + PageReads::lifetime, two, 10, 0, 4096);
    EXPECT_TRUE(reads.take_due(start + PageReads::lifetime / 2).empty());
    const auto due = reads.take_due(start + PageReads::lifetime);
    ASSERT_EQ(due.size(), 1u);
    EXPECT_EQ(due[0].node, one);
    EXPECT_EQ(due[0].begin, 0u);
    EXPECT_EQ(due[0].end, 12'288u);
    EXPECT_EQ(reads.take_due(start + 2 * PageReads::lifetime).size(), 1u);
    EXPECT_TRUE(reads.take_due(start + 3 * PageReads::lifetime).empty());
}

TEST(PageReads, LeasedPagesAreKeptWhileNothingElseIsThere) {
    PageReads reads;
    EXPECT_FALSE(reads.are_leased(one, 7));
    EXPECT_TRUE(reads.note_leased(one, 7));
    EXPECT_TRUE(reads.are_leased(one, 7));
    EXPECT_FALSE(reads.are_leased(one, 8)) << "another lease";
    EXPECT_TRUE(reads.note_leased(one, 8));
    EXPECT_FALSE(reads.are_leased(one, 8)) << "some are of an older lease";
    reads.note(start, one, 10, 0, 4096);
    EXPECT_FALSE(reads.are_leased(one, 7)) << "some have no lease";
    EXPECT_TRUE(reads.take_leased(one));
    EXPECT_FALSE(reads.take_leased(one));
}

TEST(PageReads, FilesWithLeasedPagesAreBounded) {
    PageReads reads;
    for (uint64_t i = 1; i <= PageReads::leased_max; ++i) EXPECT_TRUE(reads.note_leased({i}, 1));
    EXPECT_FALSE(reads.note_leased({PageReads::leased_max + 1}, 1));
    EXPECT_TRUE(reads.note_leased(one, 1));
    EXPECT_EQ(reads.take_all_leased().size(), PageReads::leased_max);
    EXPECT_TRUE(reads.take_all_leased().empty());
}

TEST(PageReads, MappedReadsAreDueAgainWithTheirChangeTime) {
    PageReads reads;
    const WallTime changed{std::chrono::seconds(7)};
    reads.note(start, one, 11, 0, 4096);  // another program may not have it mapped
    const Time later = start + PageReads::lifetime / 2;
    reads.keep(later, {one, 10, 0, 4096, changed});
    reads.note(later, one, 10, 4096, 4096);
    const auto due = reads.take_due(start + PageReads::lifetime);
    ASSERT_EQ(due.size(), 1u);
    EXPECT_EQ(due[0].program, 11);
    EXPECT_FALSE(due[0].changed);
    const auto mapped = reads.take_due(later + PageReads::lifetime);
    ASSERT_EQ(mapped.size(), 1u);
    EXPECT_EQ(mapped[0].end, 8192u);
    EXPECT_EQ(mapped[0].changed, changed);
}

TEST(PageReads, ReadsAreForgottenWithTheirFile) {
    PageReads reads;
    reads.note(start, one, 10, 0, 4096);
    reads.note(start, one, 11, 0, 4096);
    reads.note(start, two, 10, 0, 4096);
    reads.forget(one);
    const auto due = reads.take_due(start + PageReads::lifetime);
    ASSERT_EQ(due.size(), 1u);
    EXPECT_EQ(due[0].node, two);
}

TEST(PageReads, MappingIsFoundInItsProgram) {
    char name[] = "/tmp/ros2store-fuse.XXXXXX";
    const int file = ::mkstemp(name);
    ASSERT_GE(file, 0);
    ::unlink(name);
    ASSERT_EQ(::ftruncate(file, 4096), 0);
    void* const view = ::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, file, 0);
    ASSERT_NE(view, MAP_FAILED);
    struct stat status{};
    ASSERT_EQ(::fstat(file, &status), 0);
    const std::string device =
        std::to_string(major(status.st_dev)) + ":" + std::to_string(minor(status.st_dev));
    const pid_t ended = ::fork();
    if (ended == 0) ::_exit(0);
    ::waitpid(ended, nullptr, 0);
    const fs::NodeId mapped{status.st_ino}, other{status.st_ino + 1};
    const auto found = find_mapped({{mapped, ::getpid(), 0, 1},
                                    {other, ::getpid(), 0, 2},
                                    {mapped, ended, 0, 3},
                                    {mapped, 0, 0, 4}},
                                   device);
    ASSERT_EQ(found.mapped.size(), 2u);
    EXPECT_EQ(found.mapped[0].end, 1u);
    EXPECT_EQ(found.mapped[1].end, 4u) << "the program is not known";
    ASSERT_EQ(found.others.size(), 2u);
    EXPECT_EQ(found.others[0].end, 2u);
    EXPECT_EQ(found.others[1].end, 3u);
    ::munmap(view, 4096);
    ::close(file);
}

}  // namespace
}  // namespace ros2s::fuse
