// Access control lists.
#include <algorithm>
#include <cerrno>

#include "acl_text.h"
#include "ros2s/fs/acl.h"
#include "suite.h"

namespace ros2s::fs::contract {
namespace {

using std::string;

Task<Result<>> set_list(Fixture& f, NodeId node, string text, SetXattr how = SetXattr::any) {
    const string bytes = acl(text);
    co_return co_await f.fs.set_xattr(f.call, node, access_acl_name, as_bytes(bytes), how);
}
Task<Result<>> set_default(Fixture& f, NodeId node, string text) {
    const string bytes = acl(text);
    co_return co_await f.fs.set_xattr(f.call, node, default_acl_name, as_bytes(bytes),
                                      SetXattr::any);
}
// "none" if the node has no such list.
Task<string> get_list(Fixture& f, NodeId node, std::string_view name = access_acl_name) {
    const auto value = co_await f.fs.get_xattr(f.call, node, name);
    if (!value) co_return value.error().code == Code::no_attribute ? "none" : "error";
    const auto list = Acl::decode(as_bytes(*value));
    co_return list ? acl_text(*list) : "invalid";
}
Task<mode_t> mode_of_node(Fixture& f, NodeId node) {
    co_return (co_await f.stat(node)).mode & 07777;
}

#define EXPECT_ERRNO(number, ...)                                                   \
    do {                                                                            \
        const auto refused = (__VA_ARGS__);                                         \
        EXPECT_EQ(refused ? 0 : to_errno(refused.error()), number) << #__VA_ARGS__; \
    } while (false)

const string file_list = "u::rw-,u:1001:rw-,g::r--,m::rw-,o::---";
const string directory_list = "u::rwx,u:1001:rwx,g::r-x,m::rwx,o::---";

constexpr Case acl_table[] = {
    {"ListIsStoredAndChangesTheMode",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.file(root_node, "file", "x");
         EXPECT_OK(co_await f.fs.set_attributes(f.call, node, {.mode = 04644}));
         const Attributes before = co_await f.stat(node);
         EXPECT_EQ(co_await get_list(f, node), "none");
         co_await f.later();
         EXPECT_OK(co_await set_list(f, node, file_list));
         EXPECT_EQ(co_await get_list(f, node), file_list);
         EXPECT_EQ(co_await mode_of_node(f, node), 04660u) << "the group bits are the mask";
         EXPECT_GT((co_await f.stat(node)).changed, before.changed);
         EXPECT_EQ((co_await f.stat(node)).modified, before.modified);
         const auto names = co_await f.fs.list_xattrs(f.call, node);
         EXPECT_TRUE(names && std::ranges::count(*names, access_acl_name) == 1);
         EXPECT_OK(co_await f.fs.remove_xattr(f.call, node, access_acl_name));
         EXPECT_EQ(co_await get_list(f, node), "none");
         EXPECT_EQ(co_await mode_of_node(f, node), 04660u) << "as in Linux";
         EXPECT_FAILS(no_attribute, co_await f.fs.remove_xattr(f.call, node, access_acl_name));
     }},
    {"ListOfAModeIsStoredAsTheMode",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.file(root_node, "file");
         EXPECT_OK(co_await set_list(f, node, "u::rwx,g::-wx,o::r--"));
         EXPECT_EQ(co_await get_list(f, node), "none");
         EXPECT_EQ(co_await mode_of_node(f, node), 0734u);
         EXPECT_OK(co_await set_list(f, node, file_list));
         EXPECT_OK(co_await set_list(f, node, "u::rw-,g::r--,o::---"));
         EXPECT_EQ(co_await get_list(f, node), "none");
         EXPECT_EQ(co_await mode_of_node(f, node), 0640u);
         EXPECT_OK(co_await set_list(f, node, "u::rw-,g::r--,m::rwx,o::---"));
         EXPECT_EQ(co_await get_list(f, node), "u::rw-,g::r--,m::rwx,o::---") << "a mask is more";
     }},
    {"NewModeChangesTheList",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.file(root_node, "file");
         EXPECT_OK(co_await set_list(f, node, file_list));
         EXPECT_OK(co_await f.fs.set_attributes(f.call, node, {.mode = 0714}));
         EXPECT_EQ(co_await get_list(f, node), "u::rwx,u:1001:rw-,g::r--,m::--x,o::r--");
         EXPECT_EQ(co_await mode_of_node(f, node), 0714u);
         EXPECT_OK(co_await f.fs.set_attributes(f.call, node, {.uid = 1001, .gid = 7}));
         EXPECT_EQ(co_await get_list(f, node), "u::rwx,u:1001:rw-,g::r--,m::--x,o::r--");
     }},
    {"InvalidListIsRefused",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.file(root_node, "file");
         for (const char* text : {"", "u::rw-", "u::rw-,u:1001:rw-,g::r--,o::---",
                                  "u::rw-,o::---,g::r--", "u::rw-,g::r--,m::rwx,m::rwx,o::---"}) {
             EXPECT_ERRNO(EINVAL, co_await set_list(f, node, text));
         }
         EXPECT_FAILS(invalid, co_await f.fs.set_xattr(f.call, node, access_acl_name,
                                                       as_bytes(string("text")), SetXattr::any));
         EXPECT_EQ(co_await get_list(f, node), "none");
         EXPECT_EQ(co_await mode_of_node(f, node), 0644u);
     }},
    {"OtherSystemAttributesAreRefused",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.file(root_node, "file");
         for (const char* name : {"system.nfs4_acl", "system.posix_acl", "system.x"}) {
             EXPECT_FAILS(unsupported,
                          co_await f.fs.set_xattr(f.call, node, name, as_bytes(acl(file_list)),
                                                  SetXattr::any));
         }
     }},
    {"CreateAndReplaceOfAListAreObeyed",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.file(root_node, "file");
         EXPECT_FAILS(no_attribute, co_await set_list(f, node, file_list, SetXattr::replace));
         EXPECT_OK(co_await set_list(f, node, file_list, SetXattr::create));
         EXPECT_FAILS(exists, co_await set_list(f, node, file_list, SetXattr::create));
         EXPECT_OK(co_await set_list(f, node, file_list, SetXattr::replace));
     }},
    {"ListOfAnotherGroupsFileClearsSetGroupBit",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.directory(root_node, "dir", 02775);
         EXPECT_OK(co_await set_list(f, node, directory_list));
         EXPECT_EQ(co_await mode_of_node(f, node), 02770u);
         EXPECT_OK(co_await set_list(f, node, directory_list, SetXattr::without_set_group));
         EXPECT_EQ(co_await mode_of_node(f, node), 0770u);
     }},
    {"LinksHaveNoListAndFilesNoDefaultOne",
     [](Fixture& f) -> Task<> {
         const NodeId link = co_await f.symlink(root_node, "link", "target");
         EXPECT_FAILS(unsupported, co_await set_list(f, link, file_list));
         const NodeId file = co_await f.file(root_node, "file");
         EXPECT_ERRNO(EACCES, co_await set_default(f, file, file_list));
         EXPECT_FAILS(no_attribute, co_await f.fs.remove_xattr(f.call, file, default_acl_name));
         EXPECT_EQ(co_await get_list(f, file, default_acl_name), "none");
     }},
    {"DefaultListIsInherited",
     [](Fixture& f) -> Task<> {
         const NodeId dir = co_await f.directory(root_node, "dir", 0755);
         EXPECT_OK(co_await set_default(f, dir, directory_list));
         EXPECT_EQ(co_await get_list(f, dir, default_acl_name), directory_list);
         EXPECT_EQ(co_await get_list(f, dir), "none");
         EXPECT_EQ(co_await mode_of_node(f, dir), 0755u);
         const NodeId below = co_await f.directory(dir, "below", 0775);
         EXPECT_EQ(co_await get_list(f, below, default_acl_name), directory_list);
         EXPECT_EQ(co_await get_list(f, below), "u::rwx,u:1001:rwx,g::r-x,m::rwx,o::---");
         EXPECT_EQ(co_await mode_of_node(f, below), 0770u);
         const NodeId file = co_await f.file(below, "file", "x", 0666);
         EXPECT_EQ(co_await get_list(f, file), "u::rw-,u:1001:rwx,g::r-x,m::rw-,o::---");
         EXPECT_EQ(co_await get_list(f, file, default_acl_name), "none");
         EXPECT_EQ(co_await mode_of_node(f, file), 0660u);
         const NodeId link = co_await f.symlink(dir, "link", "target");
         EXPECT_EQ(co_await get_list(f, link), "none");
         EXPECT_OK(co_await f.fs.remove_xattr(f.call, dir, default_acl_name));
         const NodeId plain = co_await f.file(dir, "plain", "x", 0644);
         EXPECT_EQ(co_await get_list(f, plain), "none");
         EXPECT_EQ(co_await mode_of_node(f, plain), 0644u);
     }},
    {"DefaultListIsInheritedByEveryKindOfNode",
     [](Fixture& f) -> Task<> {
         const NodeId dir = co_await f.directory(root_node, "dir", 0755);
         EXPECT_OK(co_await set_default(f, dir, directory_list));
         const string expected = "u::rw-,u:1001:rwx,g::r-x,m::r--,o::---";
         if (f.traits.special_nodes) {
             const auto fifo = co_await f.fs.mknod(f.call, dir, "fifo", S_IFIFO | 0644, 0, f.owner);
             CO_ASSERT(fifo);
             EXPECT_EQ(co_await get_list(f, fifo->node), expected);
             EXPECT_EQ(fifo->mode, S_IFIFO | 0640u);
         }
         const std::vector<std::string_view> names{"one", "two"};
         for (const auto& made : co_await f.fs.create_many(f.call, dir, names, 0644, f.owner)) {
             EXPECT_OK(made);
         }
         for (const std::string_view name : names) {
             const NodeId node = co_await f.node_of(dir, string(name));
             EXPECT_EQ(co_await get_list(f, node), expected) << name;
         }
         if (!f.traits.nameless_files) co_return;
         const auto made = co_await f.fs.create(f.call, dir, "", 0644,
                                                {.write = true, .nameless = true}, f.owner);
         CO_ASSERT(made);
         EXPECT_EQ(co_await get_list(f, made->attributes.node), expected);
         EXPECT_OK(co_await f.fs.link(f.call, made->attributes.node, dir, "named"));
         EXPECT_EQ(co_await get_list(f, made->attributes.node), expected);
         co_await f.close(made->handle);
     }},
    {"DefaultListOfAModeLeavesAMode",
     [](Fixture& f) -> Task<> {
         const NodeId dir = co_await f.directory(root_node, "dir", 0755);
         EXPECT_OK(co_await set_default(f, dir, "u::rwx,g::r-x,o::---"));
         EXPECT_EQ(co_await get_list(f, dir, default_acl_name), "u::rwx,g::r-x,o::---");
         const NodeId file = co_await f.file(dir, "file", "x", 0666);
         EXPECT_EQ(co_await get_list(f, file), "none");
         EXPECT_EQ(co_await mode_of_node(f, file), 0640u);
     }},
    {"UmaskIsForDirectoriesWithoutDefaultList",
     [](Fixture& f) -> Task<> {
         const NodeId dir = co_await f.directory(root_node, "dir", 0755);
         Owner owner = f.owner;
         owner.umask = 0027;
         const auto make = [&](string name) -> Task<mode_t> {
             const auto made = co_await f.fs.mkdir(f.call, dir, name, 0777, owner);
             EXPECT_OK(made);
             co_return made ? made->mode & 07777 : 0;
         };
         EXPECT_EQ(co_await make("plain"), 0750u);
         const auto opened = co_await f.fs.create(f.call, dir, "file", 0666, f.writing, owner);
         CO_ASSERT(opened);
         EXPECT_EQ(opened->attributes.mode & 07777, 0640u);
         co_await f.close(opened->handle);
         const std::string_view many = "many";
         EXPECT_OK((co_await f.fs.create_many(f.call, dir, {&many, 1}, 0666, owner)).front());
         EXPECT_EQ(co_await mode_of_node(f, co_await f.node_of(dir, "many")), 0640u);
         EXPECT_OK(co_await set_default(f, dir, directory_list));
         EXPECT_EQ(co_await make("inherits"), 0770u);
     }},
    {"ListStaysWithMovedAndLinkedNodes",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.file(root_node, "file");
         const NodeId dir = co_await f.directory(root_node, "dir");
         EXPECT_OK(co_await set_list(f, node, file_list));
         EXPECT_OK(co_await f.fs.rename(f.call, root_node, "file", dir, "moved", {}));
         EXPECT_EQ(co_await get_list(f, node), file_list);
         if (f.traits.hard_links) {
             EXPECT_OK(co_await f.fs.link(f.call, node, root_node, "again"));
             EXPECT_EQ(co_await get_list(f, node), file_list);
         }
         EXPECT_OK(co_await f.fs.unlink(f.call, dir, "moved"));
     }},
};

}  // namespace

Cases acl_cases() { return acl_table; }

}  // namespace ros2s::fs::contract
