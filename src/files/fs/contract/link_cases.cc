// Hard links, symbolic links, and open files without a name.
#include <chrono>

#include "suite.h"

namespace ros2s::fs::contract {
namespace {

using std::string;

Task<> link_one(Fixture& f, NodeId node, string name) {
    EXPECT_OK(co_await f.fs.link(f.call, node, root_node, name));
}
Task<> unlink_name(Fixture& f, string name) {
    EXPECT_OK(co_await f.fs.unlink(f.call, root_node, name));
}
// For two seconds, because a caller looks names up before it uses their nodes. A caller whose
// node is gone by then looks its name up once more.
Task<> expect_usable_for_a_while(Fixture& f, NodeId node, string contents) {
    const mode_t type = (co_await f.stat(node)).mode & S_IFMT;
    // Where time is not simulated, a slow machine may take longer for 100 turns than the node
    // stays.
    const auto enough = std::chrono::steady_clock::now() + std::chrono::milliseconds(1500);
    for (int i = 0; i < 100 && (i < 10 || std::chrono::steady_clock::now() < enough); ++i) {
        const mode_t mode = 0700 | (i & 07);
        const auto changed = co_await f.fs.set_attributes(f.call, node, {.mode = mode});
        EXPECT_OK(changed) << i;
        if (!changed) co_return;
        EXPECT_EQ(changed->mode, type | mode);
        EXPECT_OK(co_await f.fs.list_xattrs(f.call, node));
        const auto opened = co_await f.fs.open(f.call, node, Fixture::reading);
        CO_ASSERT(opened.has_value());
        if (S_ISDIR(type)) {
            EXPECT_EQ((co_await f.fs.readdir(f.call, opened->handle, 0, 10))->size(), 0u);
        } else {
            EXPECT_EQ(co_await f.read(opened->handle, 0, 10), contents);
        }
        co_await f.close(opened->handle);
        if (i < 99) co_await f.later();
    }
    if (S_ISREG(type) && std::chrono::steady_clock::now() < enough) {
        EXPECT_OK(co_await f.fs.set_attributes(f.call, node, {.size = 1}));
        EXPECT_EQ((co_await f.stat(node)).size, 1u);
    }
    f.fs.forget(node, 1'000'000);
    EXPECT_TRUE(co_await f.is_gone(node));
}

Task<> open_or_gone(Fixture& f, NodeId node, string contents) {
    const auto opened = co_await f.fs.open(f.call, node, Fixture::reading);
    if (!opened) {
        EXPECT_FAILS(stale, opened);
        co_return;
    }
    EXPECT_EQ(co_await f.read(opened->handle, 0, 100), contents) << "opened, so it must be whole";
    co_await f.close(opened->handle);
}

constexpr Case link_table[] = {
    {"LinkedNamesShareOneFile",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.file(root_node, "a", "one");
         const auto linked = co_await f.fs.link(f.call, node, root_node, "b");
         CO_ASSERT(linked.has_value());
         EXPECT_EQ(linked->node, node);
         EXPECT_EQ(linked->links, 2u);
         EXPECT_EQ(co_await f.node_of(root_node, "b"), node);
         const FileHandle handle = co_await f.open(node);
         co_await f.write(handle, "two", 0);
         co_await f.close(handle);
         EXPECT_EQ(co_await f.contents(co_await f.node_of(root_node, "a")), "two");
     }},
    {"LinkCountFollowsTheNames",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.file(root_node, "n0", "x");
         const NodeId dir = co_await f.directory(root_node, "dir");
         for (int i = 1; i < 10; ++i) {
             EXPECT_OK(co_await f.fs.link(f.call, node, dir, "n" + std::to_string(i)));
             EXPECT_EQ((co_await f.stat(node)).links, 1u + i);
         }
         EXPECT_OK(co_await f.fs.unlink(f.call, root_node, "n0"));
         for (int i = 1; i < 9; ++i) {
             EXPECT_OK(co_await f.fs.unlink(f.call, dir, "n" + std::to_string(i)));
             EXPECT_EQ((co_await f.stat(node)).links, 9u - i);
         }
         EXPECT_EQ(co_await f.contents(node), "x");
     }},
    {"LinkToADirectoryIsRefused",
     [](Fixture& f) -> Task<> {
         const NodeId dir = co_await f.directory(root_node, "dir");
         EXPECT_FAILS(denied, co_await f.fs.link(f.call, dir, root_node, "other"));
     }},
    {"LinkToASymlinkIsNotFollowed",
     [](Fixture& f) -> Task<> {
         const NodeId link = co_await f.symlink(root_node, "link", "target");
         EXPECT_OK(co_await f.fs.link(f.call, link, root_node, "other"));
         EXPECT_EQ((co_await f.stat(link)).links, 2u);
         const auto target = co_await f.fs.readlink(f.call, co_await f.node_of(root_node, "other"));
         EXPECT_EQ(target.value_or(""), "target");
     }},
    {"LinkUpdatesTheChangeTime",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.file(root_node, "a");
         const Attributes before = co_await f.stat(node);
         co_await f.later();
         EXPECT_OK(co_await f.fs.link(f.call, node, root_node, "b"));
         const Attributes linked = co_await f.stat(node);
         EXPECT_GT(linked.changed, before.changed);
         EXPECT_EQ(linked.modified, before.modified);
         co_await f.later();
         EXPECT_OK(co_await f.fs.unlink(f.call, root_node, "b"));
         EXPECT_GT((co_await f.stat(node)).changed, linked.changed);
     }},
    {"ConcurrentLinksAreAllCounted",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.file(root_node, "n", "x");
         Nursery nursery(f.reactor, 20);
         for (int i = 0; i < 20; ++i) {
             co_await nursery.spawn(link_one(f, node, "n" + std::to_string(i)));
         }
         co_await nursery.join();
         EXPECT_EQ((co_await f.stat(node)).links, 21u);
         for (int i = 0; i < 20; ++i) {
             co_await nursery.spawn(unlink_name(f, "n" + std::to_string(i)));
         }
         co_await nursery.join();
         EXPECT_EQ((co_await f.stat(node)).links, 1u);
         EXPECT_EQ(co_await f.contents(node), "x");
     }},
    {"ReadlinkReturnsTheGivenTarget",
     [](Fixture& f) -> Task<> {
         const string targets[] = {"a",       "/absolute/path",   "../up",    ".",
                                   "a/b//c/", "with space\nline", "\xff\xfe", string(4095, 'x')};
         for (const string& target : targets) {
             const NodeId node = co_await f.symlink(root_node, "link", target);
             const auto read = co_await f.fs.readlink(f.call, node);
             CO_ASSERT(read.has_value());
             EXPECT_EQ(*read, target);
             const Attributes attributes = co_await f.stat(node);
             EXPECT_TRUE(S_ISLNK(attributes.mode));
             EXPECT_EQ(attributes.size, target.size());
             EXPECT_OK(co_await f.fs.unlink(f.call, root_node, "link"));
         }
     }},
    {"InvalidSymlinkTargetIsRefused",
     [](Fixture& f) -> Task<> {
         EXPECT_FAILS(name_too_long,
                      co_await f.fs.symlink(f.call, root_node, "link", string(4096, 'x'), f.owner));
         EXPECT_FAILS(not_found, co_await f.fs.symlink(f.call, root_node, "link", "", f.owner));
         EXPECT_FALSE(co_await f.exists(root_node, "link"));
     }},
    {"ReadlinkOfAFileOrDirectoryIsRefused",
     [](Fixture& f) -> Task<> {
         EXPECT_FAILS(invalid, co_await f.fs.readlink(f.call, root_node));
         EXPECT_FAILS(invalid, co_await f.fs.readlink(f.call, co_await f.file(root_node, "f")));
     }},
    {"SymlinkIsNotFollowed",
     [](Fixture& f) -> Task<> {
         const NodeId dir = co_await f.directory(root_node, "dir");
         co_await f.file(dir, "x");
         const NodeId link = co_await f.symlink(root_node, "link", "dir");
         EXPECT_FAILS(not_directory, co_await f.fs.lookup(f.call, link, "x"));
         EXPECT_FAILS(loop, co_await f.fs.open(f.call, link, f.reading));
         EXPECT_TRUE(S_ISLNK((co_await f.fs.lookup(f.call, root_node, "link"))->mode));
         EXPECT_OK(co_await f.fs.unlink(f.call, root_node, "link"));
         EXPECT_TRUE(co_await f.exists(root_node, "dir"));
     }},
    {"SymlinkToAnOutsidePathIsNotOpened",
     [](Fixture& f) -> Task<> {
         // The target may be outside a confined directory, or not exist: a link is only its text.
         const NodeId out = co_await f.symlink(root_node, "out", "/etc/passwd");
         EXPECT_FAILS(loop, co_await f.fs.open(f.call, out, f.reading));
         EXPECT_FAILS(loop,
                      co_await f.fs.create(f.call, root_node, "out", 0644, f.writing, f.owner));
         EXPECT_EQ((co_await f.fs.readlink(f.call, out)).value_or(""), "/etc/passwd");
     }},
    {"UnlinkedOpenFileIsUsable",
     [](Fixture& f) -> Task<> {
         const string text = f.random_bytes(3 * f.traits.chunk_bytes / 2);
         const NodeId node = co_await f.file(root_node, "file", text);
         const FileHandle handle = co_await f.open(node);
         EXPECT_OK(co_await f.fs.unlink(f.call, root_node, "file"));
         EXPECT_FALSE(co_await f.exists(root_node, "file"));
         EXPECT_EQ(co_await f.read(handle, 0, text.size()), text);
         co_await f.write(handle, "more", text.size());
         EXPECT_EQ(co_await f.read(handle, text.size(), 10), "more");
         const Attributes attributes = co_await f.stat(node);
         EXPECT_EQ(attributes.links, 0u);
         EXPECT_EQ(attributes.size, text.size() + 4);
         EXPECT_OK(co_await f.fs.set_attributes(f.call, node, {.size = 2}));
         EXPECT_EQ(co_await f.read(handle, 0, 10), text.substr(0, 2));
     }},
    {"UnlinkedFileEndsWithItsLastHandle",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.file(root_node, "file", "x");
         const FileHandle a = co_await f.open(node);
         const FileHandle b = co_await f.open(node);
         EXPECT_OK(co_await f.fs.unlink(f.call, root_node, "file"));
         co_await f.close(a);
         EXPECT_EQ(co_await f.read(b, 0, 10), "x");
         const FileHandle c = co_await f.open(node, f.reading);
         co_await f.close(b);
         EXPECT_EQ(co_await f.read(c, 0, 10), "x");
         co_await f.close(c);
         f.fs.forget(node, 1'000'000);
         EXPECT_TRUE(co_await f.is_gone(node));
         EXPECT_FAILS(stale, co_await f.fs.open(f.call, node, f.reading));
     }},
    {"ClosingAnUnlinkedFileFreesItsSpace",
     [](Fixture& f) -> Task<> {
         if (!f.traits.exact_space) GTEST_SKIP_CO("others use the same space");
         const auto before = co_await f.fs.space(f.call);
         const NodeId node = co_await f.file(root_node, "file", f.random_bytes(1 << 20));
         const FileHandle handle = co_await f.open(node);
         EXPECT_OK(co_await f.fs.unlink(f.call, root_node, "file"));
         EXPECT_LE((co_await f.fs.space(f.call))->free_bytes, before->free_bytes - (1 << 20));
         co_await f.close(handle);
         // A close over the host link is not waited for.
         uint64_t free_bytes = 0;
         for (int i = 0; i < 1000 && free_bytes != before->free_bytes; ++i) {
             if (i > 0) co_await f.later();
             free_bytes = (co_await f.fs.space(f.call))->free_bytes;
         }
         EXPECT_EQ(free_bytes, before->free_bytes);
     }},
    {"LinkToAnUnlinkedFileIsRefused",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.file(root_node, "file");
         co_await f.open(node);
         EXPECT_OK(co_await f.fs.unlink(f.call, root_node, "file"));
         EXPECT_FAILS(not_found, co_await f.fs.link(f.call, node, root_node, "again"));
     }},
    {"RemovedNodeIsStale",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.file(root_node, "file", "x");
         EXPECT_OK(co_await f.fs.unlink(f.call, root_node, "file"));
         f.fs.forget(node, 1'000'000);
         EXPECT_TRUE(co_await f.is_gone(node));
         EXPECT_FAILS(stale, co_await f.fs.get_attributes(f.call, node));
         EXPECT_FAILS(stale, co_await f.fs.set_attributes(f.call, node, {.mode = 0600}));
         EXPECT_FAILS(stale, co_await f.fs.set_attributes(f.call, node, {.size = 0}));
         EXPECT_FAILS(stale, co_await f.fs.open(f.call, node, f.reading));
         EXPECT_FAILS(stale, co_await f.fs.get_xattr(f.call, node, "user.x"));
         EXPECT_FAILS(stale, co_await f.fs.set_xattr(f.call, node, "user.x", {}, SetXattr::any));
         EXPECT_FAILS(stale, co_await f.fs.list_xattrs(f.call, node));
         EXPECT_FAILS(stale, co_await f.fs.link(f.call, node, root_node, "again"));
     }},
    {"ReplacedFileIsUsableForAWhile",
     [](Fixture& f) -> Task<> {
         if (!f.traits.nameless_files) GTEST_SKIP_CO("a node ends with its name");
         const NodeId old = co_await f.file(root_node, "f", "old");
         (void)co_await f.file(root_node, "g", "new");
         EXPECT_OK(co_await f.fs.rename(f.call, root_node, "g", root_node, "f", {}));
         co_await expect_usable_for_a_while(f, old, "old");
         EXPECT_EQ(co_await f.contents(co_await f.node_of(root_node, "f")), "new");
     }},
    {"RemovedFileIsUsableForAWhile",
     [](Fixture& f) -> Task<> {
         if (!f.traits.nameless_files) GTEST_SKIP_CO("a node ends with its name");
         const NodeId node = co_await f.file(root_node, "f", "x");
         EXPECT_OK(co_await f.fs.unlink(f.call, root_node, "f"));
         co_await expect_usable_for_a_while(f, node, "x");
     }},
    {"ReplacedDirectoryIsUsableForAWhile",
     [](Fixture& f) -> Task<> {
         if (!f.traits.nameless_files) GTEST_SKIP_CO("a node ends with its name");
         const NodeId old = co_await f.directory(root_node, "d");
         const NodeId other = co_await f.directory(root_node, "e");
         (void)co_await f.file(other, "x");
         EXPECT_OK(co_await f.fs.rename(f.call, root_node, "e", root_node, "d", {}));
         EXPECT_FAILS(not_found, co_await f.fs.lookup(f.call, old, "x"));
         EXPECT_FAILS(not_found, co_await f.fs.mkdir(f.call, old, "x", 0755, f.owner));
         co_await expect_usable_for_a_while(f, old, "");
     }},
    {"RemovedDirectoryIsUsableForAWhile",
     [](Fixture& f) -> Task<> {
         if (!f.traits.nameless_files) GTEST_SKIP_CO("a node ends with its name");
         const NodeId dir = co_await f.directory(root_node, "d");
         const NodeId file = co_await f.file(root_node, "f", "x");
         EXPECT_OK(co_await f.fs.rmdir(f.call, root_node, "d"));
         EXPECT_FAILS(not_found, co_await f.fs.link(f.call, file, dir, "l"));
         EXPECT_FAILS(not_found, co_await f.fs.rename(f.call, root_node, "f", dir, "f", {}));
         co_await expect_usable_for_a_while(f, dir, "");
     }},
    {"OpenDuringUnlinkIsWholeOrStale",
     [](Fixture& f) -> Task<> {
         std::vector<NodeId> nodes;
         for (int round = 0; round < 30; ++round) {
             const NodeId node = co_await f.file(root_node, "file", "whole");
             nodes.push_back(node);
             Nursery nursery(f.reactor, 4);
             co_await nursery.spawn(open_or_gone(f, node, "whole"));
             co_await nursery.spawn(unlink_name(f, "file"));
             co_await nursery.spawn(open_or_gone(f, node, "whole"));
             co_await nursery.join();
             f.fs.forget(node, 1'000'000);
         }
         for (const NodeId node : nodes) EXPECT_TRUE(co_await f.is_gone(node));
     }},
};

}  // namespace

Cases link_cases() { return link_table; }

}  // namespace ros2s::fs::contract
