// Extended attributes.
#include <algorithm>

#include "suite.h"

namespace ros2s::fs::contract {
namespace {

using std::string;
using Names = std::vector<string>;

Task<Outcome> set(Fixture& f, NodeId node, string name, string value,
                  SetXattr how = SetXattr::any) {
    co_return outcome(co_await f.fs.set_xattr(f.call, node, name, as_bytes(value), how));
}
Task<string> get(Fixture& f, NodeId node, string name) {
    const auto value = co_await f.fs.get_xattr(f.call, node, name);
    EXPECT_OK(value) << name;
    co_return value.value_or("");
}
Task<Names> list(Fixture& f, NodeId node) {
    auto names = co_await f.fs.list_xattrs(f.call, node);
    EXPECT_OK(names);
    // Attributes that the machine adds itself (labels) are not counted.
    Names ours;
    if (names) {
        std::ranges::copy_if(*names, std::back_inserter(ours),
                             [](const string& name) { return name.starts_with("user."); });
    }
    std::ranges::sort(ours);
    co_return ours;
}

constexpr Case xattr_table[] = {
    {"AttributesAreSetListedAndRemoved",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.file(root_node, "file");
         EXPECT_EQ(co_await list(f, node), Names{});
         EXPECT_EQ(co_await set(f, node, "user.a", "one"), success);
         EXPECT_EQ(co_await set(f, node, "user.b", "two"), success);
         EXPECT_EQ(co_await get(f, node, "user.a"), "one");
         EXPECT_EQ(co_await list(f, node), (Names{"user.a", "user.b"}));
         EXPECT_OK(co_await f.fs.remove_xattr(f.call, node, "user.a"));
         EXPECT_EQ(co_await list(f, node), Names{"user.b"});
         EXPECT_FAILS(no_attribute, co_await f.fs.get_xattr(f.call, node, "user.a"));
     }},
    {"DirectoryAttributesAreApartFromNames",
     [](Fixture& f) -> Task<> {
         const NodeId dir = co_await f.directory(root_node, "dir");
         EXPECT_EQ(co_await set(f, dir, "user.a", "one"), success);
         co_await f.file(dir, "user.a", "a file of that name");
         EXPECT_EQ(co_await get(f, dir, "user.a"), "one");
         EXPECT_EQ(co_await list(f, dir), Names{"user.a"});
         EXPECT_EQ(co_await f.names(dir), Names{"user.a"});
         EXPECT_OK(co_await f.fs.unlink(f.call, dir, "user.a"));
         EXPECT_OK(co_await f.fs.rmdir(f.call, root_node, "dir"));
     }},
    {"ValuesOfEachSizeAreReadBack",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.file(root_node, "file");
         for (const size_t size : {0u, 1u, 255u, 256u, 257u, 1000u, f.traits.xattr_bytes}) {
             const string value = f.random_bytes(size);
             EXPECT_EQ(co_await set(f, node, "user.v", value), success) << size;
             EXPECT_TRUE(co_await get(f, node, "user.v") == value) << size;
         }
     }},
    {"TooLargeValueIsRefused",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.file(root_node, "file");
         EXPECT_EQ(co_await set(f, node, "user.v", string(64 * 1024 + 1, 'x')),
                   is(Code::too_large));
         EXPECT_FAILS(no_attribute, co_await f.fs.get_xattr(f.call, node, "user.v"));
     }},
    {"CreateAndReplaceFlagsAreObeyed",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.file(root_node, "file");
         EXPECT_EQ(co_await set(f, node, "user.a", "1", SetXattr::replace), is(Code::no_attribute));
         EXPECT_EQ(co_await set(f, node, "user.a", "2", SetXattr::create), success);
         EXPECT_EQ(co_await set(f, node, "user.a", "3", SetXattr::create), is(Code::exists));
         EXPECT_EQ(co_await get(f, node, "user.a"), "2");
         EXPECT_EQ(co_await set(f, node, "user.a", "4", SetXattr::replace), success);
         EXPECT_EQ(co_await get(f, node, "user.a"), "4");
         EXPECT_EQ(co_await set(f, node, "user.a", "", SetXattr::any), success);
         EXPECT_EQ(co_await get(f, node, "user.a"), "");
     }},
    {"MissingAttributeIsReported",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.file(root_node, "file");
         EXPECT_FAILS(no_attribute, co_await f.fs.get_xattr(f.call, node, "user.none"));
         EXPECT_FAILS(no_attribute, co_await f.fs.remove_xattr(f.call, node, "user.none"));
     }},
    {"NameWithoutNamespaceIsRefused",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.file(root_node, "file");
         for (const char* name : {"plain", "other.x", "inode", "", "user"}) {
             EXPECT_NE(co_await set(f, node, name, "x"), success) << name;
         }
         EXPECT_EQ(co_await set(f, node, "user.", "x"), is(Code::invalid));
         EXPECT_EQ(co_await list(f, node), Names{});
     }},
    {"AttributeNameOver255BytesIsRefused",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.file(root_node, "file");
         const string longest = "user." + string(250, 'n');
         EXPECT_EQ(co_await set(f, node, longest, "x"), success);
         EXPECT_EQ(co_await get(f, node, longest), "x");
         EXPECT_EQ(co_await list(f, node), Names{longest});
         EXPECT_EQ(co_await set(f, node, longest + "n", "x"), is(Code::too_small));  // ERANGE
     }},
    {"OddNamesAndBytesAreStored",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.file(root_node, "file");
         const Names odd{"user. ", "user..", "user./x", "user.a.b", "user.\xc3\xa9", "user.\n"};
         for (const string& name : odd) {
             EXPECT_EQ(co_await set(f, node, name, string("\0\xff", 2)), success) << name;
         }
         EXPECT_EQ((co_await list(f, node)).size(), odd.size());
         for (const string& name : odd) {
             EXPECT_EQ(co_await get(f, node, name), string("\0\xff", 2)) << name;
         }
     }},
    {"TwentyAttributesAreListed",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.file(root_node, "file", "contents");
         for (int i = 0; i < 20; ++i) {
             EXPECT_EQ(co_await set(f, node, "user.n" + std::to_string(i), std::to_string(i)),
                       success);
         }
         EXPECT_EQ((co_await list(f, node)).size(), 20u);
         EXPECT_EQ(co_await f.contents(node), "contents");
     }},
    {"SetUpdatesOnlyTheChangeTime",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.file(root_node, "file", "x");
         const Attributes before = co_await f.stat(node);
         co_await f.later();
         EXPECT_EQ(co_await set(f, node, "user.a", "1"), success);
         EXPECT_GT((co_await f.stat(node)).changed, before.changed);
         EXPECT_EQ((co_await f.stat(node)).modified, before.modified);
         EXPECT_EQ((co_await f.stat(node)).size, 1u);
     }},
    {"RenameAndLinkKeepAttributes",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.file(root_node, "file");
         EXPECT_EQ(co_await set(f, node, "user.a", "1"), success);
         EXPECT_OK(co_await f.fs.rename(f.call, root_node, "file", root_node, "moved", {}));
         EXPECT_OK(co_await f.fs.link(f.call, node, root_node, "linked"));
         EXPECT_EQ(co_await get(f, co_await f.node_of(root_node, "linked"), "user.a"), "1");
     }},
    {"NewFileHasNoOldAttributes",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.file(root_node, "file");
         EXPECT_EQ(co_await set(f, node, "user.a", "1"), success);
         EXPECT_OK(co_await f.fs.unlink(f.call, root_node, "file"));
         EXPECT_EQ(co_await list(f, co_await f.file(root_node, "file")), Names{});
     }},
};

}  // namespace

Cases xattr_cases() { return xattr_table; }

}  // namespace ros2s::fs::contract
