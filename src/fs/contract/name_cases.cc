#include "suite.h"

namespace ros2s::fs::contract {
namespace {

using std::string;

constexpr Case cases[] = {
    {"RootIsADirectory",
     [](Fixture& f) -> Task<> {
         const Attributes root = co_await f.stat(root_node);
         EXPECT_TRUE(S_ISDIR(root.mode));
         EXPECT_EQ(root.node, root_node);
         EXPECT_GE(root.links, 1u);
         EXPECT_EQ(co_await f.names(root_node), std::vector<string>{});
     }},
    {"LookupOfNothing",
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
    {"LookupInAFile",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.file(root_node, "file");
         EXPECT_FAILS(not_directory, co_await f.fs.lookup(f.call, node, "x"));
     }},
    {"CreateInAFile",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.file(root_node, "file");
         EXPECT_FAILS(not_directory, co_await f.fs.mkdir(f.call, node, "x", 0755, f.owner));
         EXPECT_FAILS(not_directory,
                      co_await f.fs.create(f.call, node, "x", 0644, f.writing, f.owner));
     }},
    {"SameNameInTwoDirectories",
     [](Fixture& f) -> Task<> {
         const NodeId a = co_await f.directory(root_node, "a");
         const NodeId b = co_await f.directory(root_node, "b");
         const NodeId in_a = co_await f.file(a, "x", "in a");
         const NodeId in_b = co_await f.file(b, "x", "in b");
         EXPECT_NE(in_a, in_b);
         EXPECT_EQ(co_await f.contents(co_await f.node_of(a, "x")), "in a");
         EXPECT_EQ(co_await f.contents(co_await f.node_of(b, "x")), "in b");
     }},
};

}  // namespace

Cases name_cases() { return cases; }

}  // namespace ros2s::fs::contract
