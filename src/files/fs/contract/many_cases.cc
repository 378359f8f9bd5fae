// Many names of one directory in a call: lookup_many, create_many, unlink_many, readdir_many.
#include <algorithm>

#include "ros2s/runtime/nursery.h"
#include "suite.h"

namespace ros2s::fs::contract {
namespace {

using std::string;
using std::string_view;

std::vector<string> names_from(const string& prefix, size_t count) {
    std::vector<string> names;
    for (size_t i = 0; i < count; ++i) names.push_back(prefix + std::to_string(1000 + i));
    return names;
}
std::vector<string_view> views(const std::vector<string>& names) {
    return {names.begin(), names.end()};
}
size_t how_many(const std::vector<Result<>>& results, Outcome wanted) {
    return static_cast<size_t>(std::ranges::count_if(
        results, [&](const Result<>& result) { return outcome(result) == wanted; }));
}

Task<> create_them(Fixture& f, NodeId dir, std::vector<string_view> names, size_t& made) {
    made += how_many(co_await f.fs.create_many(f.call, dir, names, 0644, f.owner), success);
}
Task<> unlink_them(Fixture& f, NodeId dir, std::vector<string_view> names, size_t& gone) {
    gone += how_many(co_await f.fs.unlink_many(f.call, dir, names), success);
}

constexpr Case many_table[] = {
    {"EmptyBatchesSucceed",
     [](Fixture& f) -> Task<> {
         EXPECT_TRUE((co_await f.fs.lookup_many(f.call, root_node, {})).empty());
         EXPECT_TRUE((co_await f.fs.create_many(f.call, root_node, {}, 0644, f.owner)).empty());
         EXPECT_TRUE((co_await f.fs.unlink_many(f.call, root_node, {})).empty());
     }},
    {"LargestBatchSucceeds",
     [](Fixture& f) -> Task<> {
         const NodeId dir = co_await f.directory(root_node, "dir", 0755);
         EXPECT_OK(co_await f.fs.set_attributes(f.call, dir, {.gid = 55}));
         EXPECT_OK(co_await f.fs.set_attributes(f.call, dir, {.mode = 02775}));
         const auto names = names_from("f", names_together_max);
         const auto all = views(names);
         const auto made = co_await f.fs.create_many(f.call, dir, all, 0640, f.owner);
         EXPECT_EQ(how_many(made, success), all.size());
         EXPECT_EQ(co_await f.names(dir), names);
         const auto found = co_await f.fs.lookup_many(f.call, dir, all);
         CO_ASSERT(found.size() == all.size());
         std::vector<NodeId> nodes;
         for (const auto& each : found) {
             CO_ASSERT(each.has_value());
             EXPECT_EQ(each->mode, S_IFREG | 0640u);
             EXPECT_EQ(each->uid, f.owner.uid);
             EXPECT_EQ(each->gid, 55u);
             EXPECT_EQ(each->size, 0u);
             nodes.push_back(each->node);
             f.fs.forget(each->node, 1);
         }
         std::ranges::sort(nodes);
         EXPECT_TRUE(std::ranges::adjacent_find(nodes) == nodes.end());
         const auto gone = co_await f.fs.unlink_many(f.call, dir, all);
         EXPECT_EQ(how_many(gone, success), all.size());
         EXPECT_TRUE((co_await f.names(dir)).empty());
         EXPECT_TRUE(co_await f.is_gone(nodes.front()));
     }},
    {"EachNameHasItsOwnError",
     [](Fixture& f) -> Task<> {
         const NodeId dir = co_await f.directory(root_node, "dir");
         (void)co_await f.directory(dir, "directory");
         (void)co_await f.file(dir, "file", "abc");
         const string long_name(name_bytes_max + 1, 'x');
         const string_view names[] = {"new",  "file", "directory", "new",    "a/b",
                                      "more", "",     "..",        long_name};
         const auto made = co_await f.fs.create_many(f.call, dir, names, 0644, f.owner);
         CO_ASSERT(made.size() == std::size(names));
         // One of the two equal names.
         EXPECT_EQ(made[0].has_value() + made[3].has_value(), 1);
         EXPECT_FAILS(exists, made[1]);
         EXPECT_FAILS(exists, made[2]);
         EXPECT_FAILS(invalid, made[4]);
         EXPECT_OK(made[5]);
         EXPECT_FAILS(invalid, made[6]);
         EXPECT_FAILS(invalid, made[7]);
         EXPECT_FAILS(name_too_long, made[8]);
         EXPECT_EQ(co_await f.names(dir),
                   (std::vector<string>{"directory", "file", "more", "new"}));

         const string_view wanted[] = {"file", "none", "directory", "a/b", long_name, "file"};
         const auto found = co_await f.fs.lookup_many(f.call, dir, wanted);
         CO_ASSERT(found.size() == std::size(wanted));
         for (const size_t i : {0, 2, 5}) {
             CO_ASSERT(found[i].has_value());
             f.fs.forget(found[i]->node, 1);
         }
         EXPECT_EQ(found[0]->size, 3u);
         EXPECT_TRUE(S_ISDIR(found[2]->mode));
         EXPECT_FAILS(not_found, found[1]);
         EXPECT_FAILS(invalid, found[3]);
         EXPECT_FAILS(name_too_long, found[4]);

         const auto gone = co_await f.fs.unlink_many(f.call, dir, wanted);
         CO_ASSERT(gone.size() == std::size(wanted));
         EXPECT_EQ(gone[0].has_value() + gone[5].has_value(), 1);
         EXPECT_FAILS(not_found, gone[1]);
         EXPECT_FAILS(is_directory, gone[2]);
         EXPECT_FAILS(invalid, gone[3]);
         EXPECT_FAILS(name_too_long, gone[4]);
         EXPECT_EQ(co_await f.names(dir), (std::vector<string>{"directory", "more", "new"}));
     }},
    {"BatchInAFileIsRefused",
     [](Fixture& f) -> Task<> {
         const NodeId file = co_await f.file(root_node, "file");
         const string_view names[] = {"a", "b"};
         for (const auto& each : co_await f.fs.create_many(f.call, file, names, 0644, f.owner)) {
             EXPECT_FAILS(not_directory, each);
         }
         for (const auto& each : co_await f.fs.unlink_many(f.call, file, names)) {
             EXPECT_FAILS(not_directory, each);
         }
         for (const auto& each : co_await f.fs.lookup_many(f.call, file, names)) {
             EXPECT_FAILS(not_directory, each);
         }
     }},
    {"UnlinkOfLinkedAndOpenFilesSucceeds",
     [](Fixture& f) -> Task<> {
         const NodeId one = co_await f.file(root_node, "a", "linked");
         EXPECT_OK(co_await f.fs.link(f.call, one, root_node, "b"));
         const NodeId other = co_await f.file(root_node, "c", "open");
         const FileHandle handle = co_await f.open(other);
         const string_view names[] = {"c", "a", "b"};
         EXPECT_EQ(how_many(co_await f.fs.unlink_many(f.call, root_node, names), success), 3u);
         EXPECT_EQ(co_await f.read(handle, 0, 10), "open");
         co_await f.close(handle);
         f.fs.forget(one, 1'000'000);
         f.fs.forget(other, 1'000'000);
         EXPECT_TRUE(co_await f.is_gone(one));
         EXPECT_TRUE(co_await f.is_gone(other));
     }},
    {"ConcurrentBatchesHandleEachNameOnce",
     [](Fixture& f) -> Task<> {
         const NodeId dir = co_await f.directory(root_node, "dir");
         const auto names = names_from("f", 60);
         auto forwards = views(names);
         auto backwards = forwards;
         std::ranges::reverse(backwards);
         // Each name is created once, and removed once.
         for (int round = 0; round < 3; ++round) {
             size_t made = 0;
             size_t gone = 0;
             Nursery nursery(f.reactor, 4);
             co_await nursery.spawn(create_them(f, dir, forwards, made));
             co_await nursery.spawn(create_them(f, dir, backwards, made));
             co_await nursery.join();
             EXPECT_EQ(made, names.size());
             co_await nursery.spawn(unlink_them(f, dir, backwards, gone));
             co_await nursery.spawn(unlink_them(f, dir, forwards, gone));
             co_await nursery.join();
             EXPECT_EQ(gone, names.size());
         }
         EXPECT_TRUE((co_await f.names(dir)).empty());
     }},
    {"ListingReturnsAttributes",
     [](Fixture& f) -> Task<> {
         const NodeId dir = co_await f.directory(root_node, "dir");
         const auto names = names_from("f", 100);
         for (const string& name : names) (void)co_await f.file(dir, name, name);
         const FileHandle handle = co_await f.open(dir, {});
         std::vector<string> seen;
         for (uint64_t cookie = 0;;) {
             const auto entries = co_await f.fs.readdir_many(f.call, dir, handle, cookie, 70);
             CO_ASSERT(entries.has_value());
             if (entries->empty()) break;
             EXPECT_LE(entries->size(), 70u);
             for (const auto& [entry, attributes] : *entries) {
                 seen.push_back(entry.name);
                 CO_ASSERT(attributes.has_value());
                 EXPECT_EQ(attributes->node, entry.node);
                 EXPECT_EQ(attributes->size, entry.name.size());
                 f.fs.forget(attributes->node, 1);
             }
             cookie = entries->back().entry.cookie;
         }
         std::ranges::sort(seen);
         EXPECT_EQ(seen, names);
         co_await f.close(handle);
         EXPECT_FAILS(stale, co_await f.fs.readdir_many(f.call, dir, handle, 0, 10));
     }},
};

}  // namespace

Cases many_cases() { return many_table; }

}  // namespace ros2s::fs::contract
