#include "path_walk.h"

#include <gtest/gtest.h>

#include "dfs.h"
#include "ros2s/object/memory_store.h"
#include "ros2s/runtime/sim/world.h"

namespace ros2s::fs {
namespace {

// The result of a path: "/a/b=file", or the error.
Task<std::string> show(FileSystem& fs, std::string path, LastLink last) {
    const Call call;
    const auto found = co_await resolve(fs, call, std::move(path), last);
    if (!found) co_return std::string(describe(found.error().code));
    co_return S_ISDIR(found->mode) ? "directory " + std::to_string(found->mode & 07777)
    : S_ISLNK(found->mode)         ? "link"
                                   : "file " + std::to_string(found->size);
}

struct Row {
    const char* path;
    const char* followed;
    const char* kept;
};
// Modes distinguish the directories: the root 493 (0755), /a 448 (0700), /a/b 449 (0701).
constexpr Row rows[] = {
    {"/", "directory 493", "directory 493"},
    {"", "directory 493", "directory 493"},
    {".", "directory 493", "directory 493"},
    {"/..", "directory 493", "directory 493"},
    {"a", "directory 448", "directory 448"},
    {"/a", "directory 448", "directory 448"},
    {"//a//b/", "directory 449", "directory 449"},
    {"/a/b/..", "directory 448", "directory 448"},
    {"/a/b/../../a/./b", "directory 449", "directory 449"},
    {"/a/f", "file 3", "file 3"},
    {"/a/f/", "not a directory", "not a directory"},
    {"/a/f/x", "not a directory", "not a directory"},
    {"/a/none", "not found", "not found"},
    {"/none/x", "not found", "not found"},
    {"/a/to_f", "file 3", "link"},
    {"/a/to_b", "directory 449", "link"},
    {"/a/to_b/", "directory 449", "directory 449"},
    {"/a/to_b/..", "directory 448", "directory 448"},
    {"/a/absolute", "file 3", "link"},
    {"/a/up/a/f", "file 3", "file 3"},
    {"/a/dangling", "not found", "link"},
    {"/a/ring", "a loop of directories or symbolic links", "link"},
    {"/a/ring/x", "a loop of directories or symbolic links",
     "a loop of directories or symbolic links"},
    {"/a/chain", "file 3", "link"},
};

Task<> make_tree(FileSystem& fs) {
    const Call call;
    const Owner owner;
    const auto a = co_await fs.mkdir(call, root_node, "a", 0700, owner);
    EXPECT_TRUE(co_await fs.mkdir(call, a->node, "b", 0701, owner));
    const auto f = co_await fs.create(call, a->node, "f", 0644, {.write = true}, owner);
    EXPECT_TRUE(co_await fs.pwrite(call, f->handle, Window::local(as_bytes("abc")), 0));
    for (const auto& [name, target] :
         std::vector<std::pair<std::string, std::string>>{{"to_f", "f"},
                                                          {"to_b", "b"},
                                                          {"absolute", "/a/f"},
                                                          {"up", "../.."},
                                                          {"dangling", "none"},
                                                          {"ring", "ring"},
                                                          {"chain", "b/../to_f"}}) {
        EXPECT_TRUE(co_await fs.symlink(call, a->node, name, target, owner));
    }
}

Task<> check_all(object::ObjectStore& store, Reactor& reactor) {
    const Call call;
    Report report;
    const auto container = co_await store.create_container(call, {.label = "c"});
    EXPECT_TRUE(co_await Dfs::format(call, store, container->id, reactor, {}, report));
    const auto mounted = co_await Dfs::mount(call, store, container->id, reactor, {}, report);
    FileSystem& fs = **mounted;
    co_await make_tree(fs);
    for (const Row& row : rows) {
        EXPECT_EQ(co_await show(fs, row.path, LastLink::follow), row.followed) << row.path;
        EXPECT_EQ(co_await show(fs, row.path, LastLink::keep), row.kept) << row.path;
    }
    const auto through = co_await walk(fs, call, "/a/dangling");
    EXPECT_EQ(through->name, "none");
    EXPECT_FALSE(through->attributes.has_value());
    EXPECT_EQ(through->parent, (co_await resolve(fs, call, "/a"))->node);
    // Not looked up: an existing name, a missing one, a link. With a '/' after it, it is looked up.
    for (const char* name : {"b", "none", "dangling"}) {
        const auto place = co_await walk(fs, call, std::string("/a/") + name, LastLink::unasked);
        EXPECT_EQ(place->name, name);
        EXPECT_FALSE(place->attributes.has_value()) << name;
        EXPECT_EQ(place->parent, through->parent);
    }
    EXPECT_TRUE((co_await walk(fs, call, "/a/b/", LastLink::unasked))->attributes.has_value());
    EXPECT_EQ((co_await walk(fs, call, "/none/x", LastLink::unasked)).error().code,
              Code::not_found);
    co_await fs.close_all();
}

TEST(PathWalk, FollowsWhatPosixFollows) {
    sim::World world(1);
    object::MemoryStore store(world.core());
    world.run(check_all(store, world.core()));
}

}  // namespace
}  // namespace ros2s::fs
