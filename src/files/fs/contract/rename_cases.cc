// Rename: every kind of node over every other, across directories, and the refused cases.
#include <algorithm>

#include "suite.h"

namespace ros2s::fs::contract {
namespace {

using std::string;
using Flags = FileSystem::RenameFlags;
constexpr Flags no_replace{.no_replace = true};
constexpr Flags exchange{.exchange = true};
constexpr Flags leaves_whiteout{.whiteout = true, .owner = {.uid = 1000, .gid = 1000}};

// What a name is made as. Each has a mark of its own in its contents, to recognise it later.
enum class Kind : uint8_t { nothing, file, empty_directory, full_directory, link };
constexpr Kind kinds[] = {Kind::nothing, Kind::file, Kind::empty_directory, Kind::full_directory,
                          Kind::link};
bool is_directory(Kind kind) {
    return kind == Kind::empty_directory || kind == Kind::full_directory;
}
string to_string(Kind kind) {
    constexpr const char* names[] = {"nothing", "a file", "an empty directory", "a full directory",
                                     "a link"};
    return names[static_cast<int>(kind)];
}

Task<NodeId> make(Fixture& f, NodeId parent, string name, Kind kind) {
    if (kind == Kind::nothing) co_return NodeId{};
    if (kind == Kind::file) co_return co_await f.file(parent, name, "I am " + name);
    if (kind == Kind::link) co_return co_await f.symlink(parent, name, "target");
    const NodeId node = co_await f.directory(parent, name);
    if (kind == Kind::full_directory) co_await f.file(node, "inside");
    co_return node;
}

// The result of rename(2) of `from` over `to`.
Outcome expected(Kind from, Kind to, Flags flags) {
    if (from == Kind::nothing) return is(Code::not_found);
    if (flags.exchange) return to == Kind::nothing ? is(Code::not_found) : success;
    if (to == Kind::nothing) return success;
    if (flags.no_replace) return is(Code::exists);
    if (is_directory(from) && !is_directory(to)) return is(Code::not_directory);
    if (!is_directory(from) && is_directory(to)) return is(Code::is_directory);
    if (to == Kind::full_directory) return is(Code::not_empty);
    return success;
}

// Every kind over every kind, within one directory or between two.
Task<> matrix(Fixture& f, Flags flags, bool two_directories) {
    if (flags.whiteout && !f.traits.whiteouts) GTEST_SKIP_CO("it has no whiteouts");
    const NodeId a = co_await f.directory(root_node, "a");
    const NodeId b = two_directories ? co_await f.directory(root_node, "b") : a;
    int round = 0;
    for (const Kind from : kinds) {
        for (const Kind to : kinds) {
            const string old_name = "old" + std::to_string(round);
            const string new_name = "new" + std::to_string(round++);
            const NodeId moved = co_await make(f, a, old_name, from);
            const NodeId target = co_await make(f, b, new_name, to);
            const Outcome done =
                outcome(co_await f.fs.rename(f.call, a, old_name, b, new_name, flags));
            const string what = to_string(from) + " over " + to_string(to);
            EXPECT_EQ(done, expected(from, to, flags)) << what;
            const bool swapped = done == success && flags.exchange;
            const bool replaced = done == success && !flags.exchange;
            NodeId old_now = co_await f.node_of(a, old_name);
            if (replaced && flags.whiteout) {
                const Attributes left = co_await f.stat(old_now);
                EXPECT_TRUE(is_whiteout(left.mode, left.device)) << what;
                EXPECT_EQ(left.mode, whiteout_mode) << what;
                EXPECT_OK(co_await f.fs.unlink(f.call, a, old_name)) << what;
                old_now = {};
            }
            const NodeId new_now = co_await f.node_of(b, new_name);
            EXPECT_EQ(old_now, swapped ? target : replaced ? NodeId{} : moved) << what;
            EXPECT_EQ(new_now, done == success ? moved : target) << what;
        }
    }
}

// a/b/c/…; returns the nodes, the root first.
Task<std::vector<NodeId>> chain(Fixture& f, string names) {
    std::vector<NodeId> nodes{root_node};
    for (const char name : names) {
        nodes.push_back(co_await f.directory(nodes.back(), string(1, name)));
    }
    co_return nodes;
}

Task<> rename_one(Fixture& f, NodeId from, string name, NodeId to, string new_name,
                  std::vector<Outcome>& outcomes) {
    outcomes.push_back(outcome(co_await f.fs.rename(f.call, from, name, to, new_name, {})));
}

// The number of directories below `node`, to see that none was lost in a loop.
Task<size_t> count_below(Fixture& f, NodeId node) {
    size_t count = 0;
    for (const string& name : co_await f.names(node)) {
        count += 1 + co_await count_below(f, co_await f.node_of(node, name));
    }
    co_return count;
}

Task<> look_up_until(Fixture& f, string name, const bool& done, bool& missed) {
    while (!done) {
        if (!co_await f.fs.lookup(f.call, root_node, name)) missed = true;
        // Time must pass; otherwise a simulated disk makes no progress.
        co_await sleep_for(f.reactor, std::chrono::microseconds(1));
    }
}

constexpr Case rename_table[] = {
    {"ReplaceInOneDirectoryFollowsLinux",
     [](Fixture& f) -> Task<> { co_await matrix(f, {}, false); }},
    {"ReplaceAcrossDirectoriesFollowsLinux",
     [](Fixture& f) -> Task<> { co_await matrix(f, {}, true); }},
    {"NoReplaceInOneDirectoryFollowsLinux",
     [](Fixture& f) -> Task<> { co_await matrix(f, no_replace, false); }},
    {"NoReplaceAcrossDirectoriesFollowsLinux",
     [](Fixture& f) -> Task<> { co_await matrix(f, no_replace, true); }},
    {"ExchangeInOneDirectoryFollowsLinux",
     [](Fixture& f) -> Task<> { co_await matrix(f, exchange, false); }},
    {"ExchangeAcrossDirectoriesFollowsLinux",
     [](Fixture& f) -> Task<> { co_await matrix(f, exchange, true); }},
    {"WhiteoutInOneDirectoryFollowsLinux",
     [](Fixture& f) -> Task<> { co_await matrix(f, leaves_whiteout, false); }},
    {"WhiteoutAcrossDirectoriesFollowsLinux",
     [](Fixture& f) -> Task<> { co_await matrix(f, leaves_whiteout, true); }},
    {"ExchangeWithAnotherFlagIsRefused",
     [](Fixture& f) -> Task<> {
         co_await f.file(root_node, "a");
         co_await f.file(root_node, "b");
         for (Flags flags : {no_replace, leaves_whiteout}) {
             flags.exchange = true;
             EXPECT_FAILS(invalid,
                          co_await f.fs.rename(f.call, root_node, "a", root_node, "b", flags));
         }
     }},
    {"WhiteoutIsMadeLikeAnyNode",
     [](Fixture& f) -> Task<> {
         if (!f.traits.whiteouts) GTEST_SKIP_CO("it has no whiteouts");
         const auto made =
             co_await f.fs.mknod(f.call, root_node, "whiteout", whiteout_mode, 0, f.owner);
         CO_ASSERT(made.has_value());
         EXPECT_OK(co_await f.fs.link(f.call, made->node, root_node, "again"));
         const Attributes again = co_await f.stat(co_await f.node_of(root_node, "again"));
         EXPECT_TRUE(is_whiteout(again.mode, again.device));
         EXPECT_EQ(again.links, 2u);
     }},
    {"MovedFileKeepsContentsAndAttributes",
     [](Fixture& f) -> Task<> {
         const NodeId dir = co_await f.directory(root_node, "dir");
         const NodeId node = co_await f.file(root_node, "file", "contents", 0604);
         EXPECT_OK(co_await f.fs.rename(f.call, root_node, "file", dir, "moved", {}));
         EXPECT_EQ(co_await f.node_of(dir, "moved"), node);
         EXPECT_EQ(co_await f.contents(node), "contents");
         EXPECT_EQ((co_await f.stat(node)).mode & 07777, 0604u);
     }},
    {"RenameOntoItselfSucceeds",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.file(root_node, "file", "x");
         co_await f.directory(root_node, "dir");
         EXPECT_OK(co_await f.fs.rename(f.call, root_node, "file", root_node, "file", {}));
         EXPECT_OK(co_await f.fs.rename(f.call, root_node, "dir", root_node, "dir", {}));
         EXPECT_EQ(co_await f.contents(node), "x");
         EXPECT_FAILS(exists, co_await f.fs.rename(f.call, root_node, "file", root_node, "file",
                                                   no_replace));
     }},
    {"RenameOntoALinkOfTheFileKeepsBothNames",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.file(root_node, "a", "x");
         EXPECT_OK(co_await f.fs.link(f.call, node, root_node, "b"));
         EXPECT_OK(co_await f.fs.rename(f.call, root_node, "a", root_node, "b", {}));
         EXPECT_TRUE(co_await f.exists(root_node, "a")) << "POSIX: both names stay";
         EXPECT_TRUE(co_await f.exists(root_node, "b"));
         EXPECT_EQ((co_await f.stat(node)).links, 2u);
     }},
    {"ReplacedFileKeepsItsOtherName",
     [](Fixture& f) -> Task<> {
         const NodeId kept = co_await f.file(root_node, "a", "kept");
         EXPECT_OK(co_await f.fs.link(f.call, kept, root_node, "a2"));
         co_await f.file(root_node, "b", "new");
         EXPECT_OK(co_await f.fs.rename(f.call, root_node, "b", root_node, "a", {}));
         EXPECT_EQ((co_await f.stat(kept)).links, 1u);
         EXPECT_EQ(co_await f.contents(co_await f.node_of(root_node, "a2")), "kept");
         EXPECT_EQ(co_await f.contents(co_await f.node_of(root_node, "a")), "new");
     }},
    {"ReplacedOpenFileIsUsable",
     [](Fixture& f) -> Task<> {
         const NodeId old = co_await f.file(root_node, "a", "old");
         const FileHandle handle = co_await f.open(old);
         co_await f.file(root_node, "b", "new");
         EXPECT_OK(co_await f.fs.rename(f.call, root_node, "b", root_node, "a", {}));
         EXPECT_EQ(co_await f.read(handle, 0, 10), "old");
         co_await f.write(handle, "OLD", 3);
         EXPECT_EQ(co_await f.read(handle, 0, 10), "oldOLD");
         EXPECT_EQ(co_await f.contents(co_await f.node_of(root_node, "a")), "new");
     }},
    {"RenamedOpenFileIsUsable",
     [](Fixture& f) -> Task<> {
         const FileHandle handle = co_await f.open(co_await f.file(root_node, "a", "x"));
         EXPECT_OK(co_await f.fs.rename(f.call, root_node, "a", root_node, "b", {}));
         co_await f.write(handle, "yz", 1);
         EXPECT_EQ(co_await f.contents(co_await f.node_of(root_node, "b")), "xyz");
     }},
    {"MovedDirectoryKeepsItsTree",
     [](Fixture& f) -> Task<> {
         const auto nodes = co_await chain(f, "abc");
         const NodeId other = co_await f.directory(root_node, "other");
         co_await f.file(nodes[3], "leaf", "leaf");
         EXPECT_OK(co_await f.fs.rename(f.call, nodes[1], "b", other, "b2", {}));
         const NodeId c = co_await f.node_of(co_await f.node_of(other, "b2"), "c");
         EXPECT_EQ(co_await f.contents(co_await f.node_of(c, "leaf")), "leaf");
         EXPECT_FALSE(co_await f.exists(nodes[1], "b"));
     }},
    {"MoveIntoItsOwnTreeIsRefused",
     [](Fixture& f) -> Task<> {
         const auto nodes = co_await chain(f, "abcd");
         for (size_t depth = 1; depth < nodes.size(); ++depth) {
             EXPECT_FAILS(loop, co_await f.fs.rename(f.call, root_node, "a", nodes[depth], "x", {}))
                 << depth;
         }
         EXPECT_FAILS(loop, co_await f.fs.rename(f.call, nodes[1], "b", nodes[4], "x", {}));
         EXPECT_EQ(co_await count_below(f, root_node), 4u);
     }},
    {"MoveOverAnAncestorIsRefused",
     [](Fixture& f) -> Task<> {
         const auto nodes = co_await chain(f, "abc");
         EXPECT_FAILS(not_empty, co_await f.fs.rename(f.call, nodes[2], "c", nodes[1], "b", {}));
         EXPECT_FAILS(not_empty, co_await f.fs.rename(f.call, nodes[2], "c", root_node, "a", {}));
         EXPECT_EQ(co_await count_below(f, root_node), 3u);
     }},
    {"ExchangeWithAnAncestorIsRefused",
     [](Fixture& f) -> Task<> {
         const auto nodes = co_await chain(f, "abc");
         EXPECT_FAILS(loop, co_await f.fs.rename(f.call, nodes[2], "c", root_node, "a", exchange));
         EXPECT_FAILS(loop, co_await f.fs.rename(f.call, root_node, "a", nodes[2], "c", exchange));
         EXPECT_EQ(co_await count_below(f, root_node), 3u);
     }},
    {"FileAndDirectoryAreExchanged",
     [](Fixture& f) -> Task<> {
         const NodeId a = co_await f.directory(root_node, "a");
         const NodeId b = co_await f.directory(root_node, "b");
         const NodeId dir = co_await f.directory(a, "x");
         const NodeId file = co_await f.file(b, "y");
         EXPECT_OK(co_await f.fs.rename(f.call, a, "x", b, "y", exchange));
         EXPECT_EQ(co_await f.node_of(a, "x"), file);
         EXPECT_EQ(co_await f.node_of(b, "y"), dir);
         EXPECT_FAILS(loop, co_await f.fs.rename(f.call, root_node, "b", dir, "in", {}));
         EXPECT_OK(co_await f.fs.rename(f.call, root_node, "a", dir, "in", {}));
     }},
    {"LoopThroughAMovedDirectoryIsRefused",
     [](Fixture& f) -> Task<> {
         // a/b, c/d: after b was moved into c/d, neither c nor d may be moved into b.
         const NodeId a = co_await f.directory(root_node, "a");
         const NodeId b = co_await f.directory(a, "b");
         const NodeId c = co_await f.directory(root_node, "c");
         const NodeId d = co_await f.directory(c, "d");
         EXPECT_OK(co_await f.fs.rename(f.call, a, "b", d, "b", {}));
         EXPECT_FAILS(loop, co_await f.fs.rename(f.call, root_node, "c", b, "x", {}));
         EXPECT_FAILS(loop, co_await f.fs.rename(f.call, c, "d", b, "x", {}));
         EXPECT_OK(co_await f.fs.rename(f.call, root_node, "a", b, "x", {}));
     }},
    {"RenameInAFileIsRefused",
     [](Fixture& f) -> Task<> {
         const NodeId file = co_await f.file(root_node, "file");
         co_await f.file(root_node, "x");
         EXPECT_FAILS(not_directory, co_await f.fs.rename(f.call, file, "x", root_node, "y", {}));
         EXPECT_FAILS(not_directory, co_await f.fs.rename(f.call, root_node, "x", file, "y", {}));
     }},
    {"ConcurrentMovesMakeNoLoop",
     [](Fixture& f) -> Task<> {
         // a into b and b into a at the same time: only one may succeed.
         for (int round = 0; round < 20; ++round) {
             const NodeId top = co_await f.directory(root_node, "top" + std::to_string(round));
             const NodeId a = co_await f.directory(top, "a");
             const NodeId b = co_await f.directory(top, "b");
             std::vector<Outcome> outcomes;
             Nursery nursery(f.reactor, 2);
             co_await nursery.spawn(rename_one(f, top, "a", b, "a", outcomes));
             co_await nursery.spawn(rename_one(f, top, "b", a, "b", outcomes));
             co_await nursery.join();
             EXPECT_EQ(std::ranges::count(outcomes, success), 1);
             EXPECT_EQ(co_await count_below(f, top), 2u);
         }
     }},
    {"ConcurrentMovesLoseNoDirectory",
     [](Fixture& f) -> Task<> {
         std::vector<NodeId> dirs{root_node};
         for (int i = 0; i < 8; ++i) {
             dirs.push_back(co_await f.directory(root_node, "d" + std::to_string(i)));
         }
         for (int round = 0; round < 20; ++round) {
             std::vector<Outcome> outcomes;
             Nursery nursery(f.reactor, 8);
             for (int i = 0; i < 8; ++i) {
                 const NodeId from = dirs[f.random.below(9)];
                 const NodeId to = dirs[f.random.below(9)];
                 const string name = "d" + std::to_string(f.random.below(8));
                 co_await nursery.spawn(rename_one(f, from, name, to, name, outcomes));
             }
             co_await nursery.join();
             EXPECT_EQ(co_await count_below(f, root_node), 8u) << round;
         }
     }},
    {"RenameUpdatesTheChangeTime",
     [](Fixture& f) -> Task<> {
         const NodeId dir = co_await f.directory(root_node, "dir");
         const NodeId file = co_await f.file(root_node, "file", "x");
         const NodeId sub = co_await f.directory(root_node, "sub");
         const NodeId link = co_await f.symlink(root_node, "link", "x");
         for (const auto& [node, name] : {std::pair(file, "file"), {sub, "sub"}, {link, "link"}}) {
             for (const auto& [from, to] : {std::pair(root_node, dir), {dir, dir}}) {
                 const string now = from == root_node ? name : name + string("1");
                 const Attributes before = co_await f.stat(node);
                 co_await f.later();
                 EXPECT_OK(co_await f.fs.rename(f.call, from, now, to, now + "1", {}));
                 const Attributes after = co_await f.stat(node);
                 EXPECT_GT(after.changed, before.changed) << now;
                 EXPECT_EQ(after.modified, before.modified) << now;
             }
         }
         const Attributes first = co_await f.stat(file);
         const Attributes second = co_await f.stat(sub);
         co_await f.later();
         EXPECT_OK(co_await f.fs.rename(f.call, dir, "file11", dir, "sub11", {.exchange = true}));
         EXPECT_GT((co_await f.stat(file)).changed, first.changed) << "exchanged";
         EXPECT_GT((co_await f.stat(sub)).changed, second.changed) << "exchanged";
     }},
    {"RenameKeepsTheModificationTime",
     [](Fixture& f) -> Task<> {
         // Programs that copy set the time of a temporary name, and then rename it.
         const NodeId dir = co_await f.directory(root_node, "dir");
         const NodeId file = co_await f.file(root_node, "file", "x");
         const NodeId empty = co_await f.file(root_node, "empty", "");
         const NodeId sub = co_await f.directory(root_node, "sub");
         co_await f.file(sub, "below", "x");
         const WallTime set{std::chrono::nanoseconds(1'234'567'890'123'456'789)};
         for (const NodeId node : {file, empty, sub}) {
             EXPECT_OK(co_await f.fs.set_attributes(f.call, node, {.modified = set}));
         }
         co_await f.later();
         co_await f.file(dir, "file", "replaced");
         for (const auto& [node, name] :
              {std::pair(file, "file"), {empty, "empty"}, {sub, "sub"}}) {
             EXPECT_OK(co_await f.fs.rename(f.call, root_node, name, dir, name, {}));
             EXPECT_EQ((co_await f.stat(node)).modified, set) << name;
         }
         EXPECT_OK(co_await f.fs.rename(f.call, dir, "file", dir, "sub", {.exchange = true}));
         EXPECT_EQ((co_await f.stat(file)).modified, set) << "exchanged";
         EXPECT_EQ((co_await f.stat(sub)).modified, set) << "exchanged";
         // A write is a change from then on.
         const FileHandle opened = co_await f.open(file);
         co_await f.write(opened, "y", 0);
         co_await f.close(opened);
         EXPECT_GT((co_await f.stat(file)).modified, set);
     }},
    {"ReplacedNameIsAlwaysFound",
     [](Fixture& f) -> Task<> {
         // Editors rely on this: the name exists at every moment.
         co_await f.file(root_node, "config", "0");
         bool missed = false;
         Nursery nursery(f.reactor, 2);
         bool done = false;
         co_await nursery.spawn(look_up_until(f, "config", done, missed));
         for (int i = 0; i < 30; ++i) {
             co_await f.file(root_node, "config.new", std::to_string(i));
             EXPECT_OK(
                 co_await f.fs.rename(f.call, root_node, "config.new", root_node, "config", {}));
         }
         done = true;
         co_await nursery.join();
         EXPECT_FALSE(missed);
     }},
};

}  // namespace

Cases rename_cases() { return rename_table; }

}  // namespace ros2s::fs::contract
