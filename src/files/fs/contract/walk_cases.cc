// Paths: walk(), and how resolve() and forget() treat its results.
#include <fmt/format.h>

#include "ros2s/fs/path_walk.h"
#include "suite.h"

namespace ros2s::fs::contract {
namespace {

using std::string;

// The result of a path: "directory 700", "file 3" (its size), or the error.
Task<string> show(Fixture& f, string path, LastLink last) {
    const auto found = co_await resolve(f.fs, f.call, path, last);
    if (!found) co_return string(describe(found.error().code));
    f.fs.forget(found->node, 1);
    if (found->node == root_node) co_return "root";
    co_return S_ISDIR(found->mode) ? fmt::format("directory {:o}", found->mode & 07777)
    : S_ISLNK(found->mode)         ? "link"
                                   : fmt::format("file {}", found->size);
}

// The same of what open_path() opens.
Task<string> show_opened(Fixture& f, string path, PathOpen how) {
    const auto opened = co_await f.fs.open_path(f.call, path, how);
    if (!opened) co_return string(describe(opened.error().code));
    co_await f.close(opened->handle);
    f.fs.forget(opened->attributes.node, 1);
    co_return fmt::format("file {}", opened->attributes.size);
}

// A symbolic link comes and goes at a name.
Task<> link_and_unlink(Fixture& f, bool& stops) {
    while (!stops) {
        const auto made = co_await f.fs.symlink(f.call, root_node, "l", "target", f.owner);
        if (made) f.fs.forget(made->node, 1);
        (void)co_await f.fs.unlink(f.call, root_node, "l");
        // A look-up is repeated a bounded number of times.
        co_await sleep_for(f.reactor, std::chrono::milliseconds(20));
    }
}
Task<> open_or_create(Fixture& f, bool& stops) {
    for (int i = 0; i < 200; ++i) {
        EXPECT_EQ(co_await show_opened(f, "l", {.creates = true, .mode = 0600}), "file 0") << i;
        (void)co_await f.fs.unlink(f.call, root_node, "l");
    }
    stops = true;
}

struct OpenRow {
    const char* path;
    bool follows;
    const char* opened;
};
constexpr OpenRow open_rows[] = {
    {"/a/f", true, "file 3"},
    {"a/b/../f", true, "file 3"},
    {"/a/chain", true, "file 3"},
    {"/a/to_f", false, "a loop of directories or symbolic links"},
    {"/a/ring", true, "a loop of directories or symbolic links"},
    {"/a/dangling", true, "not found"},
    {"/a/none", true, "not found"},
    {"/none/x", true, "not found"},
    {"/a/f/", true, "not a directory"},
    {"/a", true, "it is a directory"},
    {"/", true, "it is a directory"},
};

struct Row {
    const char* path;
    const char* followed;
    const char* kept;
};
constexpr Row rows[] = {
    {"/", "root", "root"},
    {"", "root", "root"},
    {".", "root", "root"},
    {"/..", "root", "root"},
    {"a", "directory 700", "directory 700"},
    {"/a", "directory 700", "directory 700"},
    {"//a//b/", "directory 701", "directory 701"},
    {"/a/b/..", "directory 700", "directory 700"},
    {"/a/b/../../a/./b", "directory 701", "directory 701"},
    {"/a/f", "file 3", "file 3"},
    {"/a/f/", "not a directory", "not a directory"},
    {"/a/f/x", "not a directory", "not a directory"},
    {"/a/none", "not found", "not found"},
    {"/none/x", "not found", "not found"},
    {"/a/to_f", "file 3", "link"},
    {"/a/to_b", "directory 701", "link"},
    {"/a/to_b/", "directory 701", "directory 701"},
    {"/a/to_b/..", "directory 700", "directory 700"},
    {"/a/absolute", "file 3", "link"},
    {"/a/up/a/f", "file 3", "file 3"},
    {"/a/dangling", "not found", "link"},
    {"/a/ring", "a loop of directories or symbolic links", "link"},
    {"/a/ring/x", "a loop of directories or symbolic links",
     "a loop of directories or symbolic links"},
    {"/a/chain", "file 3", "link"},
};

constexpr std::pair<const char*, const char*> links[] = {
    {"to_f", "f"},        {"to_b", "b"},    {"absolute", "/a/f"},  {"up", "../.."},
    {"dangling", "none"}, {"ring", "ring"}, {"chain", "b/../to_f"}};

// The node /a.
Task<NodeId> make_tree(Fixture& f) {
    const NodeId a = co_await f.directory(root_node, "a", 0700);
    (void)co_await f.directory(a, "b", 0701);
    (void)co_await f.file(a, "f", "abc");
    for (const auto& [name, target] : links) (void)co_await f.symlink(a, name, target);
    co_return a;
}

constexpr Case walk_table[] = {
    {"LinksAreFollowedAsInPosix",
     [](Fixture& f) -> Task<> {
         (void)co_await make_tree(f);
         for (const Row& row : rows) {
             EXPECT_EQ(co_await show(f, row.path, LastLink::follow), row.followed) << row.path;
             EXPECT_EQ(co_await show(f, row.path, LastLink::keep), row.kept) << row.path;
         }
     }},
    {"MissingLastNameIsReturned",
     [](Fixture& f) -> Task<> {
         const NodeId a = co_await make_tree(f);
         const auto through = co_await f.fs.walk(f.call, "/a/dangling", LastLink::follow);
         CO_ASSERT(through.has_value());
         EXPECT_EQ(through->name, "none");
         EXPECT_FALSE(through->attributes.has_value());
         EXPECT_EQ(through->parent, a);
         // The place can be used.
         const auto made =
             co_await f.fs.create(f.call, through->parent, through->name, 0644, f.writing, f.owner);
         CO_ASSERT(made.has_value());
         co_await f.close(made->handle);
         forget(f.fs, *through);
         EXPECT_EQ(co_await show(f, "/a/dangling", LastLink::follow), "file 0");
     }},
    {"LastNameIsNotLookedUpUnasked",
     [](Fixture& f) -> Task<> {
         const NodeId a = co_await make_tree(f);
         // An existing name, a missing one, a link, and a name that is too long.
         for (const string& name :
              {string("b"), string("none"), string("dangling"), string(name_bytes_max + 1, 'x')}) {
             const auto place = co_await f.fs.walk(f.call, "/a/" + name, LastLink::unasked);
             CO_ASSERT(place.has_value());
             EXPECT_EQ(place->name, name);
             EXPECT_FALSE(place->attributes.has_value()) << name;
             EXPECT_EQ(place->parent, a);
             forget(f.fs, *place);
         }
         // With a '/' after it, it is looked up.
         const auto directory = co_await f.fs.walk(f.call, "/a/b/", LastLink::unasked);
         CO_ASSERT(directory.has_value());
         EXPECT_TRUE(directory->attributes.has_value());
         forget(f.fs, *directory);
         EXPECT_FAILS(not_found, co_await f.fs.walk(f.call, "/none/x", LastLink::unasked));
     }},
    {"LinksAreFollowedUpToTheLimit",
     [](Fixture& f) -> Task<> {
         const NodeId a = co_await make_tree(f);
         string path = "/a";
         while (path.size() < 5000) path += "/b/..";
         EXPECT_EQ(co_await show(f, path + "/f", LastLink::follow), "file 3");
         for (int i = 0; i < links_followed_max; ++i) {
             (void)co_await f.symlink(a, fmt::format("l{}", i),
                                      i == 0 ? "f" : fmt::format("l{}", i - 1));
         }
         const string last = fmt::format("/a/l{}", links_followed_max - 1);
         EXPECT_EQ(co_await show(f, last, LastLink::follow), "file 3");
         (void)co_await f.symlink(a, "one_more", last);
         EXPECT_FAILS(loop, co_await resolve(f.fs, f.call, "/a/one_more"));
         // Three links of 2,041 names each, which are nowhere looked up beyond the third.
         string below;
         while (below.size() < 4080) below += "/x";
         for (const char* name : {"long1", "long2", "long3"}) {
             const string next = fmt::format("long{}", name[4] - '0' + 1);
             (void)co_await f.symlink(a, name, next + below);
         }
         EXPECT_FAILS(loop, co_await resolve(f.fs, f.call, "/a/long1"));
     }},
    {"OpenOfAPathFollowsItsLinks",
     [](Fixture& f) -> Task<> {
         const NodeId a = co_await make_tree(f);
         for (const OpenRow& row : open_rows) {
             EXPECT_EQ(co_await show_opened(f, row.path, {.follows = row.follows}), row.opened)
                 << row.path;
         }
         // None of these changed anything.
         EXPECT_EQ((co_await f.names(a)).size(), 2 + std::size(links));
     }},
    {"CreationAtAPathFollowsItsLinks",
     [](Fixture& f) -> Task<> {
         const NodeId a = co_await make_tree(f);
         const auto create = [&f](string path, bool exclusive) {
             return show_opened(f, std::move(path),
                                {.flags = {.write = true, .exclusive = exclusive},
                                 .creates = true,
                                 .mode = 0640,
                                 .owner = f.owner});
         };
         EXPECT_EQ(co_await create("new", true), "file 0");
         EXPECT_EQ(co_await create("/a/new", true), "file 0");
         EXPECT_EQ(co_await create("/a/to_b/new", false), "file 0");
         EXPECT_EQ(co_await show(f, "/a/b/new", LastLink::keep), "file 0");
         // What exists is opened, unless the creation is exclusive.
         EXPECT_EQ(co_await create("/a/f", false), "file 3");
         EXPECT_EQ(co_await create("/a/to_f", false), "file 3");
         EXPECT_EQ(co_await create("/a/f", true), "it exists already");
         EXPECT_EQ(co_await create("/a/to_f", true), "it exists already");
         EXPECT_EQ(co_await create("/a/b", true), "it exists already");
         // Through a link to nothing, but not if it must be new.
         EXPECT_EQ(co_await create("/a/dangling", true), "it exists already");
         EXPECT_EQ(co_await create("/a/dangling", false), "file 0");
         EXPECT_EQ(co_await f.exists(a, "none"), true);
         EXPECT_EQ(co_await create("/missing/x", true), "not found");
         EXPECT_EQ(co_await create("/a/f/x", true), "not a directory");
         EXPECT_EQ(co_await create("/a/other/", false), "it is a directory");
         EXPECT_EQ(co_await create("/a/b/..", false), "it is a directory");
         EXPECT_EQ(co_await create("/a/" + string(name_bytes_max + 1, 'x'), false),
                   "the name is too long");
         // Attributes as create() gives them, and the group of a directory that passes it on.
         CO_ASSERT((co_await f.fs.set_attributes(f.call, a, {.mode = 02700, .gid = 4242})));
         for (const bool exclusive : {true, false}) {
             EXPECT_EQ(co_await create(exclusive ? "/a/one" : "/a/two", exclusive), "file 0");
             const Attributes made =
                 co_await f.stat(co_await f.node_of(a, exclusive ? "one" : "two"));
             EXPECT_EQ(made.mode, S_IFREG | 0640u);
             EXPECT_EQ(made.uid, f.owner.uid);
             EXPECT_EQ(made.gid, 4242u);
         }
     }},
    {"ConcurrentLinkIsFollowedOrReplaced",
     [](Fixture& f) -> Task<> {
         if (!f.traits.nameless_files) GTEST_SKIP_CO("a node ends with its name");
         (void)co_await f.file(root_node, "target");
         bool stops = false;
         Nursery nursery(f.reactor, 2);
         co_await nursery.spawn(link_and_unlink(f, stops));
         co_await nursery.spawn(open_or_create(f, stops));
         co_await nursery.join();
     }},
    {"CancelledWalkStops",
     [](Fixture& f) -> Task<> {
         (void)co_await make_tree(f);
         StopSource stop;
         stop.request_stop();
         Call call = f.call;
         call.stop = stop.token();
         EXPECT_FAILS(cancelled, co_await f.fs.walk(call, "/a/b", LastLink::follow));
     }},
};

}  // namespace

Cases walk_cases() { return walk_table; }

}  // namespace ros2s::fs::contract
