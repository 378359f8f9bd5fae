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

// Modes of a file of group 1000, before and after a change of its contents.
struct SetIdCase {
    mode_t before;
    mode_t by_member, by_stranger;
};
constexpr SetIdCase set_id_cases[] = {
    {06666, 02666, 0666}, {06676, 0676, 0676}, {06766, 02766, 0766}, {06777, 0777, 0777},
    {02666, 02666, 0666}, {02676, 0676, 0676}, {04755, 0755, 0755},
};

Task<> expect_mode(Fixture& f, NodeId file, mode_t mode, const char* after) {
    EXPECT_EQ((co_await f.stat(file)).mode & 07777, mode) << after;
}

template <class T>
Task<> ended(Task<Result<T>> change) {
    EXPECT_OK(co_await std::move(change));
}
// Whether a file with capabilities still has them after a change.
template <class Change>
Task<bool> keeps_capabilities(Fixture& f, NodeId file, Change change) {
    const std::string_view value("capabilities"), name("security.capability");
    EXPECT_OK(co_await f.fs.set_xattr(f.call, file, name, as_bytes(value), SetXattr::any));
    EXPECT_EQ(co_await f.fs.get_xattr(f.call, file, name), Result<std::string>(value));
    co_await change();
    const auto after = co_await f.fs.get_xattr(f.call, file, name);
    if (!after) EXPECT_EQ(after.error().code, Code::no_attribute);
    co_return after.has_value();
}

// Each change that clears set-id bits, made for `call`'s user.
Task<> change_contents(Fixture& f, const Call& call, bool keeps, mode_t before, mode_t after) {
    const NodeId file = co_await f.file(root_node, "file", "contents");
    co_await chmod_one(f, file, before);
    const auto opened = co_await f.fs.open(call, file, {.write = true, .keeps_set_ids = keeps});
    CO_ASSERT(opened.has_value());
    co_await expect_mode(f, file, before, "opening");
    co_await f.write(opened->handle, "x", 0);
    co_await expect_mode(f, file, after, "a write");
    co_await chmod_one(f, file, before);
    co_await f.write(opened->handle, "x", 0);
    co_await expect_mode(f, file, after, "a write after chmod");
    co_await chmod_one(f, file, before);
    EXPECT_OK(co_await f.fs.punch_hole(call, opened->handle, 0, 4));
    co_await expect_mode(f, file, after, "a hole");
    co_await chmod_one(f, file, before);
    EXPECT_OK(co_await f.fs.set_attributes(call, file, {.size = 3, .keeps_set_ids = keeps}));
    co_await expect_mode(f, file, after, "a new size of an open file");
    co_await f.close(opened->handle);
    co_await chmod_one(f, file, before);
    EXPECT_OK(co_await f.fs.set_attributes(call, file, {.size = 2, .keeps_set_ids = keeps}));
    co_await expect_mode(f, file, after, "a new size");
    co_await chmod_one(f, file, before);
    const auto truncated =
        co_await f.fs.open(call, file, {.write = true, .truncate = true, .keeps_set_ids = keeps});
    CO_ASSERT(truncated.has_value());
    EXPECT_EQ(truncated->attributes.mode & 07777, after);
    co_await expect_mode(f, file, after, "truncation at open");
    co_await f.close(truncated->handle);
    EXPECT_OK(co_await f.fs.unlink(f.call, root_node, "file"));
}

#define EXPECT_EPERM(...)                                                          \
    do {                                                                           \
        const auto refused = (__VA_ARGS__);                                        \
        EXPECT_EQ(refused ? 0 : to_errno(refused.error()), EPERM) << #__VA_ARGS__; \
    } while (false)

// As root: others may not.
Task<> set_flags(Fixture& f, NodeId node, uint32_t flags) {
    const Caller root{.uid = 0, .gid = 0};
    Call call = f.call;
    if (call.caller != nullptr) call.caller = &root;
    EXPECT_OK(co_await f.fs.set_attributes(call, node, {.flags = flags}));
}

constexpr Case attribute_table[] = {
    {"EveryPermissionBitIsStored",
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
    {"CreationAppliesNoUmask",
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
    {"ChmodKeepsTheFileType",
     [](Fixture& f) -> Task<> {
         const NodeId file = co_await f.file(root_node, "file");
         EXPECT_OK(co_await f.fs.set_attributes(f.call, file, {.mode = S_IFDIR | 0600}));
         EXPECT_EQ((co_await f.stat(file)).mode, S_IFREG | 0600u);
     }},
    {"ChownSetsUserAndGroup",
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
    {"ChownOfALinkLeavesItsTarget",
     [](Fixture& f) -> Task<> {
         const NodeId file = co_await f.file(root_node, "file");
         const NodeId link = co_await f.symlink(root_node, "link", "file");
         EXPECT_OK(co_await f.fs.set_attributes(f.call, link, {.uid = 7}));
         EXPECT_EQ((co_await f.stat(link)).uid, 7u);
         EXPECT_EQ((co_await f.stat(file)).uid, 1000u);
     }},
    {"ChownClearsSetIdBits",
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
    {"WriteClearsSetIdBits",
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
    {"PunchClearsSetIdBits",
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
     }},
    {"SetIdBitsAreClearedAsInLinux",
     [](Fixture& f) -> Task<> {
         if (!f.traits.clears_set_ids) GTEST_SKIP_CO("not for privileged writers here");
         const Caller member{.uid = 1000, .gid = 1000}, stranger{.uid = 1000, .gid = 7};
         for (const auto& [before, by_member, by_stranger] : set_id_cases) {
             SCOPED_TRACE(before);
             const Call as_member{.caller = &member}, as_stranger{.caller = &stranger};
             co_await change_contents(f, as_member, false, before, by_member);
             co_await change_contents(f, as_stranger, false, before, by_stranger);
             co_await change_contents(f, f.call, true, before, before);
         }
     }},
    {"SetIdBitsAreClearedOnRequest",
     [](Fixture& f) -> Task<> {
         const NodeId file = co_await f.file(root_node, "file", "contents");
         EXPECT_OK(co_await f.fs.set_attributes(f.call, file, {.mode = 06755}));
         const auto cleared = co_await f.fs.set_attributes(f.call, file, {.clears_set_ids = true});
         CO_ASSERT(cleared.has_value());
         EXPECT_EQ(cleared->mode & 07777, 0755u);
         EXPECT_EQ((co_await f.stat(file)).mode & 07777, 0755u);
         const NodeId dir = co_await f.directory(root_node, "dir");
         EXPECT_OK(co_await f.fs.set_attributes(f.call, dir, {.mode = 02775}));
         EXPECT_OK(co_await f.fs.set_attributes(f.call, dir, {.clears_set_ids = true}));
         EXPECT_EQ((co_await f.stat(dir)).mode & 07777, 02775u) << "directories keep it";
     }},
    {"ChangesDropFileCapabilities",
     [](Fixture& f) -> Task<> {
         if (!f.traits.clears_set_ids) GTEST_SKIP_CO("not for privileged writers here");
         const NodeId file = co_await f.file(root_node, "file", "contents");
         const auto handle =
             co_await f.fs.open(f.call, file, {.write = true, .keeps_set_ids = true});
         CO_ASSERT(handle.has_value());
         const SetAttributes owner{.uid = 7}, killed{.clears_set_ids = true},
             size{.size = 3, .keeps_set_ids = true}, mode{.mode = 0755};
         EXPECT_TRUE(co_await keeps_capabilities(
             f, file, [&] { return ended(f.fs.set_attributes(f.call, file, mode)); }));
         for (const SetAttributes& each : {owner, killed, size}) {
             EXPECT_FALSE(co_await keeps_capabilities(
                 f, file, [&] { return ended(f.fs.set_attributes(f.call, file, each)); }));
         }
         EXPECT_FALSE(co_await keeps_capabilities(f, file, [&] {
             return ended(f.fs.pwrite(f.call, handle->handle,
                                      Window::local(as_bytes(std::string_view("x"))), 0));
         }));
         EXPECT_FALSE(co_await keeps_capabilities(
             f, file, [&] { return ended(f.fs.punch_hole(f.call, handle->handle, 0, 1)); }));
         co_await f.close(handle->handle);
         EXPECT_FALSE(co_await keeps_capabilities(f, file, [&] {
             return ended(
                 f.fs.open(f.call, file, {.write = true, .truncate = true, .keeps_set_ids = true}));
         }));
         const auto names = co_await f.fs.list_xattrs(f.call, file);
         EXPECT_TRUE(names && names->empty());
     }},
    {"TimesKeepNanoseconds",
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
    {"SettingOneTimeKeepsTheOther",
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
    {"WriteReplacesATimeThatWasSet",
     [](Fixture& f) -> Task<> {
         const NodeId file = co_await f.file(root_node, "file", "x");
         const FileHandle handle = co_await f.open(file);
         EXPECT_OK(co_await f.fs.set_attributes(f.call, file, {.modified = at(20)}));
         EXPECT_EQ((co_await f.stat(file)).modified, at(20));
         co_await f.write(handle, "y", 0);
         EXPECT_NE((co_await f.stat(file)).modified, at(20));
         EXPECT_OK(co_await f.fs.set_attributes(f.call, file, {.modified = at(30)}));
         EXPECT_EQ((co_await f.stat(file)).modified, at(30)) << "set again, below the write's";
     }},
    {"SizeAndTimeAreSetInOneCall",
     [](Fixture& f) -> Task<> {
         const NodeId file = co_await f.file(root_node, "file", "12345");
         const auto set =
             co_await f.fs.set_attributes(f.call, file, {.size = 2, .modified = at(20)});
         CO_ASSERT(set.has_value());
         EXPECT_EQ(set->size, 2u);
         EXPECT_EQ(set->modified, at(20));
     }},
    {"NewEntryReplacesADirectoryTimeThatWasSet",
     [](Fixture& f) -> Task<> {
         const NodeId dir = co_await f.directory(root_node, "dir");
         co_await f.file(dir, "a");
         EXPECT_OK(co_await f.fs.set_attributes(f.call, dir, {.modified = at(20)}));
         EXPECT_EQ((co_await f.stat(dir)).modified, at(20));
         co_await f.file(dir, "b");
         EXPECT_NE((co_await f.stat(dir)).modified, at(20));
     }},
    {"AttributeChangeUpdatesTheChangeTime",
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
    {"EmptyChangeSucceeds",
     [](Fixture& f) -> Task<> {
         const NodeId file = co_await f.file(root_node, "file", "x");
         const auto same = co_await f.fs.set_attributes(f.call, file, {});
         CO_ASSERT(same.has_value());
         EXPECT_EQ(same->size, 1u);
     }},
    {"ConcurrentChangesAllTakeEffect",
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
    {"NewFileHasTheCurrentTime",
     [](Fixture& f) -> Task<> {
         const Attributes root = co_await f.stat(root_node);
         co_await f.later();
         const Attributes file = co_await f.stat(co_await f.file(root_node, "file"));
         EXPECT_GT(file.modified, root.modified);
         EXPECT_GE(file.changed, file.modified);
         EXPECT_EQ(file.modified, file.accessed);
     }},
    {"TimeOfCreationStays",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.file(root_node, "file");
         const Attributes file = co_await f.stat(node);
         if (file.created == WallTime{}) GTEST_SKIP_CO("it does not know it");
         EXPECT_LE(file.created, file.changed);
         co_await f.later();
         EXPECT_OK(co_await f.fs.set_attributes(f.call, node, {.mode = 0600, .modified = at(5)}));
         EXPECT_OK(co_await f.fs.rename(f.call, root_node, "file", root_node, "moved", {}));
         EXPECT_EQ((co_await f.stat(node)).created, file.created);
         const NodeId later = co_await f.directory(root_node, "directory");
         EXPECT_GT((co_await f.stat(later)).created, file.created);
     }},
    {"ImmutableNodeStaysAsItIs",
     [](Fixture& f) -> Task<> {
         if (!f.traits.node_flags) GTEST_SKIP_CO("it has no flags");
         const NodeId file = co_await f.file(root_node, "file", "contents");
         const FileHandle before = co_await f.open(file);
         co_await set_flags(f, file, node_flags::immutable);
         EXPECT_EQ((co_await f.stat(file)).flags, node_flags::immutable);
         EXPECT_EPERM(co_await f.fs.open(f.call, file, f.writing));
         EXPECT_EPERM(co_await f.fs.open(f.call, file, f.appending));
         EXPECT_EPERM(co_await f.fs.create(f.call, root_node, "file", 0644, f.writing, f.owner));
         EXPECT_EPERM(co_await f.fs.set_attributes(f.call, file, {.size = 1}));
         EXPECT_EPERM(co_await f.fs.set_attributes(f.call, file, {.mode = 0600}));
         EXPECT_EPERM(co_await f.fs.set_attributes(f.call, file, {.modified = at(5)}));
         EXPECT_EPERM(co_await f.fs.set_xattr(f.call, file, "user.a", {}, SetXattr::any));
         EXPECT_EPERM(co_await f.fs.unlink(f.call, root_node, "file"));
         EXPECT_EPERM(co_await f.fs.rename(f.call, root_node, "file", root_node, "moved", {}));
         EXPECT_EPERM(co_await f.fs.link(f.call, file, root_node, "again"));
         co_await f.file(root_node, "other");
         EXPECT_EPERM(co_await f.fs.rename(f.call, root_node, "other", root_node, "file", {}));
         const std::string_view name = "file";
         EXPECT_EPERM((co_await f.fs.unlink_many(f.call, root_node, {&name, 1})).front());
         co_await f.write(before, "C", 0);  // it was open before
         co_await f.close(before);
         EXPECT_EQ(co_await f.contents(file), "Contents");
         co_await set_flags(f, file, 0);
         EXPECT_OK(co_await f.fs.unlink(f.call, root_node, "file"));
     }},
    {"ImmutableDirectoryKeepsItsNames",
     [](Fixture& f) -> Task<> {
         if (!f.traits.node_flags) GTEST_SKIP_CO("it has no flags");
         const NodeId dir = co_await f.directory(root_node, "dir");
         const NodeId file = co_await f.file(dir, "file", "contents");
         co_await f.file(root_node, "other");
         co_await set_flags(f, dir, node_flags::immutable);
         const std::string_view fresh = "new", old = "file";
         EXPECT_EPERM(co_await f.fs.create(f.call, dir, "new", 0644, f.writing, f.owner));
         EXPECT_EPERM(co_await f.fs.mkdir(f.call, dir, "new", 0755, f.owner));
         EXPECT_EPERM(co_await f.fs.symlink(f.call, dir, "new", "target", f.owner));
         EXPECT_EPERM(co_await f.fs.link(f.call, file, dir, "new"));
         EXPECT_EPERM((co_await f.fs.create_many(f.call, dir, {&fresh, 1}, 0644, f.owner)).front());
         EXPECT_EPERM(co_await f.fs.rename(f.call, root_node, "other", dir, "new", {}));
         EXPECT_EPERM(co_await f.fs.rename(f.call, dir, "file", root_node, "new", {}));
         EXPECT_EPERM(co_await f.fs.unlink(f.call, dir, "file"));
         EXPECT_EPERM((co_await f.fs.unlink_many(f.call, dir, {&old, 1})).front());
         EXPECT_EPERM(co_await f.fs.rmdir(f.call, root_node, "dir"));
         EXPECT_FAILS(exists, co_await f.fs.mkdir(f.call, dir, "file", 0755, f.owner));
         const FileHandle handle = co_await f.open(file);  // the file itself can change
         co_await f.close(handle);
         co_await set_flags(f, dir, 0);
         EXPECT_OK(co_await f.fs.unlink(f.call, dir, "file"));
     }},
    {"AppendOnlyNodeOnlyGrows",
     [](Fixture& f) -> Task<> {
         if (!f.traits.node_flags) GTEST_SKIP_CO("it has no flags");
         const NodeId dir = co_await f.directory(root_node, "dir");
         co_await set_flags(f, dir, node_flags::append_only);
         const NodeId log = co_await f.file(dir, "log", "one ");
         EXPECT_EPERM(co_await f.fs.unlink(f.call, dir, "log"));
         EXPECT_EPERM(co_await f.fs.rename(f.call, dir, "log", root_node, "log", {}));
         co_await set_flags(f, log, node_flags::append_only);
         EXPECT_EPERM(co_await f.fs.open(f.call, log, f.writing));
         EXPECT_EPERM(co_await f.fs.open(f.call, log, {.append = true, .truncate = true}));
         EXPECT_EPERM(co_await f.fs.set_attributes(f.call, log, {.size = 0}));
         EXPECT_EPERM(co_await f.fs.set_attributes(f.call, log, {.uid = 5}));
         const FileHandle handle = co_await f.open(log, f.appending);
         co_await f.write(handle, "two", 0);
         EXPECT_EPERM(co_await f.fs.punch_hole(f.call, handle, 0, 2));
         co_await f.close(handle);
         EXPECT_EQ(co_await f.contents(log), "one two");
         co_await f.open(log, f.reading);
     }},
    {"RootAttributesCanBeChanged",
     [](Fixture& f) -> Task<> {
         EXPECT_OK(co_await f.fs.set_attributes(f.call, root_node, {.mode = 0700}));
         EXPECT_EQ((co_await f.stat(root_node)).mode, S_IFDIR | 0700u);
     }},
};

}  // namespace

Cases attribute_cases() { return attribute_table; }

}  // namespace ros2s::fs::contract
