// chmod, chown, utimens, and their side effects.
#include "suite.h"

namespace ros2s::fs::contract {
namespace {

WallTime at(int64_t seconds, int64_t nanoseconds = 0) {
    return WallTime{std::chrono::seconds(seconds) + Duration(nanoseconds)};
}

Task<> chmod_one(Fixture& f, NodeId node, mode_t mode) {
    EXPECT_OK(co_await f.fs.set_attributes(f.call, node, {.mode = mode}));
}
Task<> chown_one(Fixture& f, NodeId node, uid_t uid) {
    EXPECT_OK(co_await f.fs.set_attributes(f.call, node, {.uid = uid}));
}

constexpr Case attribute_table[] = {
    {"EveryPermissionBit",
     [](Fixture& f) -> Task<> {
         const NodeId file = co_await f.file(root_node, "file");
         const NodeId dir = co_await f.directory(root_node, "dir");
         for (const mode_t mode :
              {0000u, 0777u, 0644u, 0400u, 0001u, 02755u, 04755u, 06777u, 01777u, 07777u}) {
             if ((mode & S_ISVTX) != 0 && !f.traits.sticky_bit) break;
             EXPECT_OK(co_await f.fs.set_attributes(f.call, file, {.mode = mode}));
             EXPECT_EQ((co_await f.stat(file)).mode, S_IFREG | mode);
             EXPECT_OK(co_await f.fs.set_attributes(f.call, dir, {.mode = mode}));
             EXPECT_EQ((co_await f.stat(dir)).mode, S_IFDIR | mode);
         }
     }},
    {"CreationTakesTheModeAsItIs",
     [](Fixture& f) -> Task<> {
         // The umask is applied by the caller.
         EXPECT_EQ((co_await f.stat(co_await f.file(root_node, "f", "", 0666))).mode & 07777,
                   0666u);
         EXPECT_EQ((co_await f.stat(co_await f.directory(root_node, "d", 0777))).mode & 07777,
                   0777u);
         if (!f.traits.sticky_bit) co_return;
         EXPECT_EQ((co_await f.stat(co_await f.directory(root_node, "t", 01777))).mode & 07777,
                   01777u);
     }},
    {"TheTypeStays",
     [](Fixture& f) -> Task<> {
         const NodeId file = co_await f.file(root_node, "file");
         EXPECT_OK(co_await f.fs.set_attributes(f.call, file, {.mode = S_IFDIR | 0600}));
         EXPECT_EQ((co_await f.stat(file)).mode, S_IFREG | 0600u);
     }},
    {"ANewOwner",
     [](Fixture& f) -> Task<> {
         const NodeId file = co_await f.file(root_node, "file");
         const auto owned = co_await f.fs.set_attributes(f.call, file, {.uid = 7, .gid = 8});
         CO_ASSERT(owned.has_value());
         EXPECT_EQ(owned->uid, 7u);
         EXPECT_EQ(owned->gid, 8u);
         EXPECT_OK(co_await f.fs.set_attributes(f.call, file, {.uid = 9}));
         EXPECT_EQ((co_await f.stat(file)).uid, 9u);
         EXPECT_EQ((co_await f.stat(file)).gid, 8u);
         EXPECT_OK(co_await f.fs.set_attributes(f.call, file, {.gid = 4'000'000'000}));
         EXPECT_EQ((co_await f.stat(file)).gid, 4'000'000'000u);
     }},
    {"OwnersOfLinks",
     [](Fixture& f) -> Task<> {
         const NodeId file = co_await f.file(root_node, "file");
         const NodeId link = co_await f.symlink(root_node, "link", "file");
         EXPECT_OK(co_await f.fs.set_attributes(f.call, link, {.uid = 7}));
         EXPECT_EQ((co_await f.stat(link)).uid, 7u);
         EXPECT_EQ((co_await f.stat(file)).uid, 1000u);
     }},
    {"AnOwnerChangeTakesSetIdsAway",
     [](Fixture& f) -> Task<> {
         const NodeId file = co_await f.file(root_node, "file");
         EXPECT_OK(co_await f.fs.set_attributes(f.call, file, {.mode = 06755}));
         EXPECT_OK(co_await f.fs.set_attributes(f.call, file, {.uid = 7}));
         EXPECT_EQ((co_await f.stat(file)).mode & 07777, 0755u);
         EXPECT_OK(co_await f.fs.set_attributes(f.call, file, {.mode = 04755}));
         EXPECT_OK(co_await f.fs.set_attributes(f.call, file, {.gid = 7}));
         EXPECT_EQ((co_await f.stat(file)).mode & 07777, 0755u);
         const NodeId dir = co_await f.directory(root_node, "dir");
         EXPECT_OK(co_await f.fs.set_attributes(f.call, dir, {.mode = 02775}));
         EXPECT_OK(co_await f.fs.set_attributes(f.call, dir, {.uid = 7}));
         EXPECT_EQ((co_await f.stat(dir)).mode & 07777, 02775u) << "directories keep it";
     }},
    {"AWriteTakesSetIdsAway",
     [](Fixture& f) -> Task<> {
         if (!f.traits.clears_set_ids) GTEST_SKIP_CO("not for privileged writers here");
         const NodeId file = co_await f.file(root_node, "file");
         const FileHandle handle = co_await f.open(file);
         EXPECT_OK(co_await f.fs.set_attributes(f.call, file, {.mode = 06755}));
         co_await f.write(handle, "x", 0);
         EXPECT_EQ((co_await f.stat(file)).mode & 07777, 0755u);
         co_await f.close(handle);
         EXPECT_OK(co_await f.fs.set_attributes(f.call, file, {.mode = 06755}));
         const FileHandle again = co_await f.open(file);
         co_await f.write(again, "x", 0);
         EXPECT_EQ((co_await f.stat(file)).mode & 07777, 0755u) << "set before it was opened";
         co_await f.close(again);
         EXPECT_OK(co_await f.fs.set_attributes(f.call, file, {.mode = 04755}));
         EXPECT_OK(co_await f.fs.set_attributes(f.call, file, {.size = 0}));
         EXPECT_EQ((co_await f.stat(file)).mode & 07777, 0755u) << "truncated";
     }},
    {"AHoleTakesSetIdsAway",
     [](Fixture& f) -> Task<> {
         if (!f.traits.clears_set_ids) GTEST_SKIP_CO("not for privileged writers here");
         const NodeId file = co_await f.file(root_node, "file", "contents");
         const FileHandle handle = co_await f.open(file);
         for (const mode_t mode : {06755, 02666, 04644}) {
             EXPECT_OK(co_await f.fs.set_attributes(f.call, file, {.mode = mode}));
             EXPECT_OK(co_await f.fs.punch_hole(f.call, handle, 0, 4));
             EXPECT_EQ((co_await f.stat(file)).mode & 07777, mode & 0777u);
             EXPECT_OK(co_await f.fs.set_attributes(f.call, file, {.mode = mode}));
             co_await f.write(handle, "x", 0);
             EXPECT_EQ((co_await f.stat(file)).mode & 07777, mode & 0777u);
         }
         co_await f.close(handle);
     }},
    {"TimesAreKeptToTheNanosecond",
     [](Fixture& f) -> Task<> {
         const NodeId file = co_await f.file(root_node, "file", "x");
         const NodeId dir = co_await f.directory(root_node, "dir");
         const NodeId link = co_await f.symlink(root_node, "link", "x");
         for (const NodeId node : {file, dir, link}) {
             for (const WallTime time : {at(1'000'000'000, 123'456'789), at(0), at(1), at(-100, 5),
                                         at(4'102'444'800, 999'999'999)}) {
                 const auto set = co_await f.fs.set_attributes(
                     f.call, node, {.accessed = time, .modified = time + Duration(1)});
                 CO_ASSERT(set.has_value());
                 EXPECT_EQ(set->accessed, time);
                 EXPECT_EQ(set->modified, time + Duration(1));
                 EXPECT_EQ((co_await f.stat(node)).modified, time + Duration(1));
             }
         }
     }},
    {"EitherTimeAlone",
     [](Fixture& f) -> Task<> {
         const NodeId file = co_await f.file(root_node, "file");
         EXPECT_OK(
             co_await f.fs.set_attributes(f.call, file, {.accessed = at(10), .modified = at(20)}));
         EXPECT_OK(co_await f.fs.set_attributes(f.call, file, {.accessed = at(11)}));
         EXPECT_EQ((co_await f.stat(file)).modified, at(20));
         EXPECT_OK(co_await f.fs.set_attributes(f.call, file, {.modified = at(21)}));
         EXPECT_EQ((co_await f.stat(file)).accessed, at(11));
         EXPECT_EQ((co_await f.stat(file)).modified, at(21));
     }},
    {"AWriteMovesATimeThatWasSet",
     [](Fixture& f) -> Task<> {
         const NodeId file = co_await f.file(root_node, "file", "x");
         const FileHandle handle = co_await f.open(file);
         EXPECT_OK(co_await f.fs.set_attributes(f.call, file, {.modified = at(20)}));
         EXPECT_EQ((co_await f.stat(file)).modified, at(20));
         co_await f.write(handle, "y", 0);
         EXPECT_NE((co_await f.stat(file)).modified, at(20));
         EXPECT_OK(co_await f.fs.set_attributes(f.call, file, {.modified = at(30)}));
         EXPECT_EQ((co_await f.stat(file)).modified, at(30)) << "set again, below the write's";
         co_await f.close(handle);
     }},
    {"SizeAndTimeTogether",
     [](Fixture& f) -> Task<> {
         const NodeId file = co_await f.file(root_node, "file", "12345");
         const auto set =
             co_await f.fs.set_attributes(f.call, file, {.size = 2, .modified = at(20)});
         CO_ASSERT(set.has_value());
         EXPECT_EQ(set->size, 2u);
         EXPECT_EQ(set->modified, at(20));
     }},
    {"ADirectorysTimeThatWasSet",
     [](Fixture& f) -> Task<> {
         const NodeId dir = co_await f.directory(root_node, "dir");
         co_await f.file(dir, "a");
         EXPECT_OK(co_await f.fs.set_attributes(f.call, dir, {.modified = at(20)}));
         EXPECT_EQ((co_await f.stat(dir)).modified, at(20));
         co_await f.file(dir, "b");
         EXPECT_NE((co_await f.stat(dir)).modified, at(20));
     }},
    {"ChangesMoveTheChangeTimeAlone",
     [](Fixture& f) -> Task<> {
         const NodeId file = co_await f.file(root_node, "file", "x");
         const Attributes before = co_await f.stat(file);
         co_await f.later();
         EXPECT_OK(co_await f.fs.set_attributes(f.call, file, {.mode = 0600}));
         const Attributes after = co_await f.stat(file);
         EXPECT_GT(after.changed, before.changed);
         EXPECT_EQ(after.modified, before.modified);
         co_await f.later();
         EXPECT_OK(co_await f.fs.set_attributes(f.call, file, {.modified = at(5)}));
         EXPECT_GT((co_await f.stat(file)).changed, after.changed);
     }},
    {"NothingToChange",
     [](Fixture& f) -> Task<> {
         const NodeId file = co_await f.file(root_node, "file", "x");
         const auto same = co_await f.fs.set_attributes(f.call, file, {});
         CO_ASSERT(same.has_value());
         EXPECT_EQ(same->size, 1u);
     }},
    {"ChangesSideBySideAllCount",
     [](Fixture& f) -> Task<> {
         const NodeId file = co_await f.file(root_node, "file");
         Nursery nursery(f.reactor, 4);
         co_await nursery.spawn(chmod_one(f, file, 0600));
         co_await nursery.spawn(chown_one(f, file, 77));
         co_await nursery.join();
         const Attributes after = co_await f.stat(file);
         EXPECT_EQ(after.mode & 07777, 0600u);
         EXPECT_EQ(after.uid, 77u);
     }},
    {"NewNodesAreNew",
     [](Fixture& f) -> Task<> {
         const Attributes root = co_await f.stat(root_node);
         co_await f.later();
         const Attributes file = co_await f.stat(co_await f.file(root_node, "file"));
         EXPECT_GT(file.modified, root.modified);
         EXPECT_GE(file.changed, file.modified);
         EXPECT_EQ(file.modified, file.accessed);
     }},
    {"TheRootTakesThemToo",
     [](Fixture& f) -> Task<> {
         EXPECT_OK(co_await f.fs.set_attributes(f.call, root_node, {.mode = 0700}));
         EXPECT_EQ((co_await f.stat(root_node)).mode, S_IFDIR | 0700u);
     }},
};

}  // namespace

Cases attribute_cases() { return attribute_table; }

}  // namespace ros2s::fs::contract
