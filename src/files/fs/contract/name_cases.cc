// Names: validity, look-up, creation and removal.
#include <sys/sysmacros.h>

#include <algorithm>

#include "suite.h"

namespace ros2s::fs::contract {
namespace {

using std::string;

Task<> make_one(Fixture& f, string name, int& made) {
    OpenFlags exclusive = f.writing;
    exclusive.exclusive = true;
    const auto result = co_await f.fs.create(f.call, root_node, name, 0644, exclusive, f.owner);
    if (result) {
        ++made;
        co_await f.close(result->handle);
    } else {
        EXPECT_FAILS(exists, result);
    }
}

Task<> unlink_one(Fixture& f, string name, int& unlinked) {
    const auto result = co_await f.fs.unlink(f.call, root_node, name);
    if (result) ++unlinked;
    if (!result) EXPECT_FAILS(not_found, result);
}

constexpr Case name_table[] = {
    {"RootIsAnEmptyDirectory",
     [](Fixture& f) -> Task<> {
         const Attributes root = co_await f.stat(root_node);
         EXPECT_TRUE(S_ISDIR(root.mode));
         EXPECT_EQ(root.node, root_node);
         EXPECT_GE(root.links, 1u);
         EXPECT_EQ(co_await f.names(root_node), std::vector<string>{});
     }},
    {"LookupOfAMissingNameFails",
     [](Fixture& f) -> Task<> {
         EXPECT_FAILS(not_found, co_await f.fs.lookup(f.call, root_node, "nothing"));
     }},
    {"LookupFindsAFile",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.file(root_node, "file", "12345");
         const auto found = co_await f.fs.lookup(f.call, root_node, "file");
         CO_ASSERT(found.has_value());
         EXPECT_EQ(found->node, node);
         EXPECT_TRUE(S_ISREG(found->mode));
         EXPECT_EQ(found->mode & 07777, 0644u);
         EXPECT_EQ(found->size, 5u);
         EXPECT_EQ(found->links, 1u);
         EXPECT_EQ(found->uid, 1000u);
         EXPECT_EQ(found->gid, 1000u);
     }},
    {"LookupFindsADirectory",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.directory(root_node, "dir", 0750);
         const auto found = co_await f.fs.lookup(f.call, root_node, "dir");
         CO_ASSERT(found.has_value());
         EXPECT_EQ(found->node, node);
         EXPECT_EQ(found->mode, S_IFDIR | 0750u);
         EXPECT_EQ(found->uid, 1000u);
     }},
    {"LookupInAFileIsRefused",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.file(root_node, "file");
         EXPECT_FAILS(not_directory, co_await f.fs.lookup(f.call, node, "x"));
     }},
    {"CreationInAFileIsRefused",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.file(root_node, "file");
         EXPECT_FAILS(not_directory, co_await f.fs.mkdir(f.call, node, "x", 0755, f.owner));
         EXPECT_FAILS(not_directory,
                      co_await f.fs.create(f.call, node, "x", 0644, f.writing, f.owner));
     }},
    {"SameNameInTwoDirectoriesIsTwoFiles",
     [](Fixture& f) -> Task<> {
         const NodeId a = co_await f.directory(root_node, "a");
         const NodeId b = co_await f.directory(root_node, "b");
         const NodeId in_a = co_await f.file(a, "x", "in a");
         const NodeId in_b = co_await f.file(b, "x", "in b");
         EXPECT_NE(in_a, in_b);
         EXPECT_EQ(co_await f.contents(co_await f.node_of(a, "x")), "in a");
         EXPECT_EQ(co_await f.contents(co_await f.node_of(b, "x")), "in b");
     }},
    {"InvalidNameIsRefused",
     [](Fixture& f) -> Task<> {
         for (const std::string_view bad :
              {std::string_view(""), std::string_view("."), std::string_view(".."),
               std::string_view("a/b"), std::string_view("/"), std::string_view("a\0b", 3)}) {
             const NodeId root = root_node;
             if (bad != "." && bad != "..") {
                 EXPECT_FAILS(invalid, co_await f.fs.lookup(f.call, root, bad)) << bad;
             }
             EXPECT_FAILS(invalid, co_await f.fs.mkdir(f.call, root, bad, 0755, f.owner)) << bad;
             EXPECT_FAILS(invalid,
                          co_await f.fs.mknod(f.call, root, bad, S_IFREG | 0644, 0, f.owner));
             EXPECT_FAILS(invalid,
                          co_await f.fs.create(f.call, root, bad, 0644, f.writing, f.owner));
             EXPECT_FAILS(invalid, co_await f.fs.symlink(f.call, root, bad, "t", f.owner));
             EXPECT_FAILS(invalid, co_await f.fs.unlink(f.call, root, bad));
             EXPECT_FAILS(invalid, co_await f.fs.rmdir(f.call, root, bad));
         }
         EXPECT_EQ(co_await f.names(root_node), std::vector<string>{});
     }},
    {"LookupOfADotReturnsTheNode",
     [](Fixture& f) -> Task<> {
         const NodeId dir = co_await f.directory(root_node, "dir");
         for (const NodeId node : {root_node, dir, co_await f.file(dir, "file", "x"),
                                   co_await f.symlink(dir, "link", "file")}) {
             const auto found = co_await f.fs.lookup(f.call, node, ".");
             CO_ASSERT(found.has_value());
             EXPECT_EQ(found->node, node);
             EXPECT_EQ(found->mode, (co_await f.stat(node)).mode);
             // The look-up added a reference.
             f.fs.forget(node, 1);
             EXPECT_OK(co_await f.fs.get_attributes(f.call, node));
         }
         const NodeId gone = co_await f.file(dir, "gone");
         EXPECT_OK(co_await f.fs.unlink(f.call, dir, "gone"));
         f.fs.forget(gone, 1);
         EXPECT_TRUE(co_await f.is_gone(gone));
         EXPECT_FAILS(stale, co_await f.fs.lookup(f.call, gone, "."));
     }},
    {"RenameOrLinkToAnInvalidNameIsRefused",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.file(root_node, "good");
         for (const std::string_view bad : {"", ".", "..", "a/b"}) {
             EXPECT_FAILS(invalid,
                          co_await f.fs.rename(f.call, root_node, "good", root_node, bad, {}));
             EXPECT_FAILS(invalid,
                          co_await f.fs.rename(f.call, root_node, bad, root_node, "good", {}));
             EXPECT_FAILS(invalid, co_await f.fs.link(f.call, node, root_node, bad));
         }
         EXPECT_EQ(co_await f.names(root_node), std::vector<string>{"good"});
     }},
    {"NameOver255BytesIsRefused",
     [](Fixture& f) -> Task<> {
         const string longest(255, 'n');
         const string longer(256, 'n');
         const NodeId file = co_await f.file(root_node, longest, "x");
         EXPECT_EQ(co_await f.node_of(root_node, longest), file);
         EXPECT_EQ(co_await f.names(root_node), std::vector<string>{longest});
         EXPECT_FAILS(name_too_long, co_await f.fs.lookup(f.call, root_node, longer));
         EXPECT_FAILS(name_too_long, co_await f.fs.mkdir(f.call, root_node, longer, 0755, f.owner));
         EXPECT_FAILS(name_too_long,
                      co_await f.fs.create(f.call, root_node, longer, 0644, f.writing, f.owner));
         EXPECT_FAILS(name_too_long,
                      co_await f.fs.symlink(f.call, root_node, longer, "t", f.owner));
         EXPECT_FAILS(name_too_long, co_await f.fs.link(f.call, file, root_node, longer));
         EXPECT_FAILS(name_too_long, co_await f.fs.unlink(f.call, root_node, longer));
         EXPECT_FAILS(name_too_long, co_await f.fs.rmdir(f.call, root_node, longer));
         EXPECT_FAILS(name_too_long,
                      co_await f.fs.rename(f.call, root_node, longest, root_node, longer, {}));
         EXPECT_OK(co_await f.fs.unlink(f.call, root_node, longest));
     }},
    {"OddNamesAreStored",
     [](Fixture& f) -> Task<> {
         const std::vector<string> odd{"-rf",   " ",       "  two  ", "a\nb", "tab\t", "\x01\x02",
                                       "...",   ".hidden", "~",       "*",    "\\",    "\"'`",
                                       "a.b.c", "user.x",  "inode",   "data", "entry", "\x7f",
                                       "COM1",  "a:b",     "%00"};
         for (const string& name : odd) co_await f.file(root_node, name, name);
         std::vector<string> sorted = odd;
         std::ranges::sort(sorted);
         EXPECT_EQ(co_await f.names(root_node, 4), sorted);
         for (const string& name : odd) {
             EXPECT_EQ(co_await f.contents(co_await f.node_of(root_node, name)), name);
             EXPECT_OK(co_await f.fs.unlink(f.call, root_node, name));
         }
         EXPECT_EQ(co_await f.names(root_node), std::vector<string>{});
     }},
    {"NamesLikeChunkKeysAreListed",
     [](Fixture& f) -> Task<> {
         // Eight bytes long, like an integer key: a name must not be taken for one.
         const std::vector<string> names{"12345678", "\x01\x01\x01\x01\x01\x01\x01\x01",
                                         "aaaaaaaa"};
         for (const string& name : names) co_await f.file(root_node, name, "c");
         EXPECT_EQ((co_await f.names(root_node)).size(), 3u);
         for (const string& name : names) EXPECT_TRUE(co_await f.exists(root_node, name));
     }},
    {"EquivalentUnicodeFormsAreDifferentNames",
     [](Fixture& f) -> Task<> {
         // Composed and decomposed forms are two names: bytes are compared, not letters.
         const string composed = "\xc3\xa9";
         const string decomposed = "e\xcc\x81";
         const string chinese = "\xe6\x96\x87\xe4\xbb\xb6";
         const string emoji = "\xf0\x9f\x98\x80";
         for (const string& name : {composed, decomposed, chinese, emoji}) {
             co_await f.file(root_node, name, name);
         }
         EXPECT_EQ((co_await f.names(root_node)).size(), 4u);
         EXPECT_EQ(co_await f.contents(co_await f.node_of(root_node, decomposed)), decomposed);
     }},
    {"InvalidUtf8NameIsStored",
     [](Fixture& f) -> Task<> {
         const string name = "\xff\xfe\x80";
         co_await f.file(root_node, name, "x");
         EXPECT_EQ(co_await f.names(root_node), std::vector<string>{name});
     }},
    {"NamesDifferByCase",
     [](Fixture& f) -> Task<> {
         co_await f.file(root_node, "name", "lower");
         co_await f.file(root_node, "NAME", "upper");
         EXPECT_EQ(co_await f.contents(co_await f.node_of(root_node, "NAME")), "upper");
     }},
    {"PrefixOfANameIsNotFound",
     [](Fixture& f) -> Task<> {
         co_await f.file(root_node, "ab");
         EXPECT_FALSE(co_await f.exists(root_node, "a"));
         EXPECT_FALSE(co_await f.exists(root_node, "abc"));
     }},
    {"UnlinkOfAMissingNameFails",
     [](Fixture& f) -> Task<> {
         EXPECT_FAILS(not_found, co_await f.fs.unlink(f.call, root_node, "nothing"));
         EXPECT_FAILS(not_found, co_await f.fs.rmdir(f.call, root_node, "nothing"));
     }},
    {"UnlinkInAFileIsRefused",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.file(root_node, "file");
         EXPECT_FAILS(not_directory, co_await f.fs.unlink(f.call, node, "x"));
         EXPECT_FAILS(not_directory, co_await f.fs.rmdir(f.call, node, "x"));
     }},
    {"UnlinkOfADirectoryIsRefused",
     [](Fixture& f) -> Task<> {
         co_await f.directory(root_node, "dir");
         EXPECT_FAILS(is_directory, co_await f.fs.unlink(f.call, root_node, "dir"));
         EXPECT_TRUE(co_await f.exists(root_node, "dir"));
     }},
    {"UnlinkRemovesTheName",
     [](Fixture& f) -> Task<> {
         co_await f.file(root_node, "file", "contents");
         EXPECT_OK(co_await f.fs.unlink(f.call, root_node, "file"));
         EXPECT_FALSE(co_await f.exists(root_node, "file"));
         EXPECT_FAILS(not_found, co_await f.fs.unlink(f.call, root_node, "file"));
     }},
    {"UnlinkedNameCanBeReused",
     [](Fixture& f) -> Task<> {
         const NodeId first = co_await f.file(root_node, "name", "first");
         EXPECT_OK(co_await f.fs.unlink(f.call, root_node, "name"));
         const NodeId second = co_await f.directory(root_node, "name");
         EXPECT_NE(first, second);
         EXPECT_OK(co_await f.fs.rmdir(f.call, root_node, "name"));
         co_await f.file(root_node, "name");
         EXPECT_EQ(co_await f.contents(co_await f.node_of(root_node, "name")), "");
     }},
    {"NodeIdsAreNotReused",
     [](Fixture& f) -> Task<> {
         std::vector<uint64_t> ids;
         for (int i = 0; i < 50; ++i) {
             // With a reference, as a kernel's inode has one: then no file system may reuse the
             // number.
             const auto made =
                 co_await f.fs.create(f.call, root_node, "f", 0644, f.writing, f.owner);
             CO_ASSERT(made.has_value());
             ids.push_back(made->attributes.node.value);
             EXPECT_OK(co_await f.fs.unlink(f.call, root_node, "f"));
         }
         std::ranges::sort(ids);
         EXPECT_EQ(std::ranges::unique(ids).size(), 0u);
     }},
    {"CreationOfAnExistingNameIsRefused",
     [](Fixture& f) -> Task<> {
         const NodeId file = co_await f.file(root_node, "file");
         co_await f.directory(root_node, "dir");
         co_await f.symlink(root_node, "link", "file");
         for (const std::string_view name : {"file", "dir", "link"}) {
             EXPECT_FAILS(exists, co_await f.fs.mkdir(f.call, root_node, name, 0755, f.owner));
             const mode_t special = f.traits.special_nodes ? S_IFIFO : S_IFREG;
             EXPECT_FAILS(exists,
                          co_await f.fs.mknod(f.call, root_node, name, special | 0644, 0, f.owner));
             EXPECT_FAILS(exists, co_await f.fs.symlink(f.call, root_node, name, "t", f.owner));
             if (f.traits.hard_links) {
                 EXPECT_FAILS(exists, co_await f.fs.link(f.call, file, root_node, name));
             }
             OpenFlags exclusive = f.writing;
             exclusive.exclusive = true;
             EXPECT_FAILS(exists,
                          co_await f.fs.create(f.call, root_node, name, 0644, exclusive, f.owner));
         }
     }},
    {"MknodCreatesEachType",
     [](Fixture& f) -> Task<> {
         for (const mode_t type : {S_IFREG, S_IFIFO, S_IFSOCK}) {
             const string name = std::to_string(type);
             const auto made =
                 co_await f.fs.mknod(f.call, root_node, name, type | 0640, 0, f.owner);
             CO_ASSERT(made.has_value());
             EXPECT_EQ(made->mode, type | 0640);
             EXPECT_EQ((co_await f.stat(made->node)).mode, type | 0640);
             EXPECT_OK(co_await f.fs.unlink(f.call, root_node, name));
         }
         EXPECT_FAILS(invalid,
                      co_await f.fs.mknod(f.call, root_node, "d", S_IFDIR | 0755, 0, f.owner));
         EXPECT_FAILS(invalid,
                      co_await f.fs.mknod(f.call, root_node, "l", S_IFLNK | 0755, 0, f.owner));
     }},
    {"DeviceNumbersAreStored",
     [](Fixture& f) -> Task<> {
         for (const mode_t type : {S_IFCHR, S_IFBLK}) {
             const string name = std::to_string(type);
             const auto made = co_await f.fs.mknod(f.call, root_node, name, type | 0600,
                                                   makedev(5, 300), f.owner);
             if (!made && made.error().code == Code::denied) GTEST_SKIP_CO("needs CAP_MKNOD");
             CO_ASSERT(made.has_value());
             EXPECT_EQ((co_await f.stat(made->node)).device, makedev(5, 300));
         }
     }},
    {"ConcurrentExclusiveCreationsSucceedOnce",
     [](Fixture& f) -> Task<> {
         int made = 0;
         Nursery nursery(f.reactor, 16);
         for (int i = 0; i < 16; ++i) co_await nursery.spawn(make_one(f, "contested", made));
         co_await nursery.join();
         EXPECT_EQ(made, 1);
     }},
    {"ConcurrentCreationsAllSucceed",
     [](Fixture& f) -> Task<> {
         Nursery nursery(f.reactor, 8);
         int made = 0;
         for (int i = 0; i < 100; ++i) {
             co_await nursery.spawn(make_one(f, "n" + std::to_string(i), made));
         }
         co_await nursery.join();
         EXPECT_EQ(made, 100);
         EXPECT_EQ((co_await f.names(root_node)).size(), 100u);
     }},
    {"ConcurrentUnlinksSucceedOnce",
     [](Fixture& f) -> Task<> {
         co_await f.file(root_node, "contested", "x");
         int unlinked = 0;
         Nursery nursery(f.reactor, 8);
         for (int i = 0; i < 8; ++i) co_await nursery.spawn(unlink_one(f, "contested", unlinked));
         co_await nursery.join();
         EXPECT_EQ(unlinked, 1);
     }},
    {"SpaceIsReported",
     [](Fixture& f) -> Task<> {
         const auto before = co_await f.fs.space(f.call);
         CO_ASSERT(before.has_value());
         EXPECT_GT(before->total_bytes, 0u);
         EXPECT_LE(before->free_bytes, before->total_bytes);
     }},
};

}  // namespace

Cases name_cases() { return name_table; }

}  // namespace ros2s::fs::contract
