// Opening and handles: the flags, and a handle after it was closed.
#include "suite.h"

namespace ros2s::fs::contract {
namespace {

using std::string;

Task<> create_and_count(Fixture& f, OpenFlags flags, int& opened, std::vector<NodeId>& nodes) {
    const auto made = co_await f.fs.create(f.call, root_node, "file", 0644, flags, f.owner);
    EXPECT_OK(made);
    if (!made) co_return;
    ++opened;
    nodes.push_back(made->attributes.node);
    co_await f.close(made->handle);
}

Task<Result<Opened>> make_nameless(Fixture& f, bool exclusive = false) {
    const OpenFlags flags{.read = true, .write = true, .exclusive = exclusive, .nameless = true};
    auto made = co_await f.fs.create(f.call, root_node, "", 0640, flags, f.owner);
    if (!made && f.traits.nameless_files) EXPECT_OK(made);
    co_return made;
}

constexpr Case open_table[] = {
    {"CreateMakesAnEmptyFile",
     [](Fixture& f) -> Task<> {
         const auto made =
             co_await f.fs.create(f.call, root_node, "file", 0640, f.writing, f.owner);
         CO_ASSERT(made.has_value());
         EXPECT_EQ(made->attributes.mode, S_IFREG | 0640u);
         EXPECT_EQ(made->attributes.size, 0u);
         EXPECT_EQ(made->attributes.links, 1u);
         EXPECT_EQ(made->attributes.uid, 1000u);
         EXPECT_EQ(co_await f.node_of(root_node, "file"), made->attributes.node);
         co_await f.write(made->handle, "x", 0);
         EXPECT_EQ(co_await f.read(made->handle, 0, 5), "x");
         co_await f.close(made->handle);
     }},
    {"CreateOpensAnExistingFile",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.file(root_node, "file", "kept", 0600);
         const auto opened = co_await f.fs.create(f.call, root_node, "file", 0777, f.writing,
                                                  Owner{.uid = 1, .gid = 1});
         CO_ASSERT(opened.has_value());
         EXPECT_EQ(opened->attributes.node, node);
         EXPECT_EQ(opened->attributes.mode & 07777, 0600u);
         EXPECT_EQ(opened->attributes.uid, 1000u);
         EXPECT_EQ(co_await f.read(opened->handle, 0, 10), "kept");
         co_await f.close(opened->handle);
     }},
    {"CreateOverADirectoryIsRefused",
     [](Fixture& f) -> Task<> {
         co_await f.directory(root_node, "dir");
         EXPECT_FAILS(is_directory,
                      co_await f.fs.create(f.call, root_node, "dir", 0644, f.writing, f.owner));
     }},
    {"TruncateFlagEmptiesTheFile",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.file(root_node, "file", "contents");
         OpenFlags flags = f.writing;
         flags.truncate = true;
         const auto opened = co_await f.fs.open(f.call, node, flags);
         CO_ASSERT(opened.has_value());
         EXPECT_EQ(opened->attributes.size, 0u);
         EXPECT_EQ(co_await f.read(opened->handle, 0, 10), "");
         co_await f.close(opened->handle);
         const auto created = co_await f.fs.create(f.call, root_node, "file", 0644, flags, f.owner);
         CO_ASSERT(created.has_value());
         EXPECT_EQ(created->attributes.node, node);
         co_await f.close(created->handle);
     }},
    {"TruncateFlagUpdatesTheTimesOfAnEmptyFile",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.file(root_node, "file");
         const Attributes before = co_await f.stat(node);
         co_await f.later();
         OpenFlags flags = f.writing;
         flags.truncate = true;
         co_await f.close(co_await f.open(node, flags));
         EXPECT_GT((co_await f.stat(node)).modified, before.modified);
     }},
    {"OpenReturnsAttributes",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.file(root_node, "file", "12345");
         const auto opened = co_await f.fs.open(f.call, node, f.reading);
         CO_ASSERT(opened.has_value());
         EXPECT_EQ(opened->attributes.node, node);
         EXPECT_EQ(opened->attributes.size, 5u);
         co_await f.close(opened->handle);
     }},
    {"TransferAgainstTheOpenFlagsIsRefused",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.file(root_node, "file", "12345");
         const FileHandle reader = co_await f.open(node, f.reading);
         const Window x = Window::local(as_bytes("x"));
         EXPECT_FAILS(denied, co_await f.fs.pwrite(f.call, reader, x, 0));
         EXPECT_FAILS(denied, co_await f.fs.punch_hole(f.call, reader, 0, 1));
         const FileHandle writer = co_await f.open(node, {.read = false, .write = true});
         std::byte byte{};
         EXPECT_FAILS(denied,
                      co_await f.fs.pread(f.call, writer, Window::local(Bytes(&byte, 1)), 0));
         EXPECT_EQ(co_await f.contents(node), "12345");
     }},
    {"DirectoryOpensOnlyForReading",
     [](Fixture& f) -> Task<> {
         const NodeId dir = co_await f.directory(root_node, "dir");
         const FileHandle handle = co_await f.open(dir, f.reading);
         std::byte byte{};
         const Window window = Window::local(Bytes(&byte, 1));
         EXPECT_FAILS(is_directory, co_await f.fs.pread(f.call, handle, window, 0));
         EXPECT_OK(co_await f.fs.fsync(f.call, handle));
         co_await f.close(handle);
         EXPECT_FAILS(is_directory, co_await f.fs.open(f.call, dir, f.writing));
         EXPECT_FAILS(is_directory, co_await f.fs.open(f.call, dir, {.truncate = true}));
     }},
    {"OpenOfASpecialNodeIsRefused",
     [](Fixture& f) -> Task<> {
         for (const mode_t type : {S_IFIFO, S_IFSOCK}) {
             const auto made = co_await f.fs.mknod(f.call, root_node, std::to_string(type),
                                                   type | 0644, 0, f.owner);
             CO_ASSERT(made.has_value());
             EXPECT_FAILS(invalid, co_await f.fs.open(f.call, made->node, f.reading));
         }
     }},
    {"NamelessFileEndsWithItsHandle",
     [](Fixture& f) -> Task<> {
         const auto made = co_await make_nameless(f);
         if (!made) GTEST_SKIP_CO("it has no nameless files");
         EXPECT_EQ(made->attributes.links, 0u);
         EXPECT_EQ(made->attributes.mode, S_IFREG | 0640u);
         EXPECT_EQ(made->attributes.uid, f.owner.uid);
         EXPECT_TRUE((co_await f.names(root_node)).empty());
         co_await f.write(made->handle, "contents", 0);
         EXPECT_EQ(co_await f.read(made->handle, 0, 10), "contents");
         EXPECT_EQ((co_await f.stat(made->attributes.node)).size, 8u);
         co_await f.close(made->handle);
         f.fs.forget(made->attributes.node, 1);
         EXPECT_TRUE(co_await f.is_gone(made->attributes.node));
     }},
    {"NamelessFileIsLinked",
     [](Fixture& f) -> Task<> {
         const auto made = co_await make_nameless(f);
         if (!made) GTEST_SKIP_CO("it has no nameless files");
         const NodeId node = made->attributes.node;
         const NodeId dir = co_await f.directory(root_node, "dir");
         co_await f.write(made->handle, "contents", 0);
         const auto linked = co_await f.fs.link(f.call, node, dir, "file");
         CO_ASSERT(linked.has_value());
         EXPECT_EQ(linked->links, 1u);
         co_await f.write(made->handle, "more", 8);
         EXPECT_OK(co_await f.fs.link(f.call, node, root_node, "again"));
         co_await f.close(made->handle);
         EXPECT_EQ(co_await f.node_of(dir, "file"), node);
         EXPECT_EQ(co_await f.contents(node), "contentsmore");
         EXPECT_EQ((co_await f.stat(node)).links, 2u);
     }},
    {"NamelessFileThatLostItsNameEndsWithItsHandle",
     [](Fixture& f) -> Task<> {
         const auto made = co_await make_nameless(f);
         if (!made) GTEST_SKIP_CO("it has no nameless files");
         const NodeId node = made->attributes.node;
         EXPECT_OK(co_await f.fs.link(f.call, node, root_node, "file"));
         EXPECT_OK(co_await f.fs.unlink(f.call, root_node, "file"));
         EXPECT_FAILS(not_found, co_await f.fs.link(f.call, node, root_node, "file"));
         co_await f.write(made->handle, "x", 0);
         EXPECT_EQ(co_await f.read(made->handle, 0, 10), "x");
         co_await f.close(made->handle);
         f.fs.forget(node, 2);
         EXPECT_TRUE(co_await f.is_gone(node));
     }},
    {"ExclusiveNamelessFileIsNotLinked",
     [](Fixture& f) -> Task<> {
         const auto made = co_await make_nameless(f, true);
         if (!made) GTEST_SKIP_CO("it has no nameless files");
         EXPECT_FAILS(not_found,
                      co_await f.fs.link(f.call, made->attributes.node, root_node, "file"));
         co_await f.close(made->handle);
     }},
    {"InvalidNamelessCreationIsRefused",
     [](Fixture& f) -> Task<> {
         if (!f.traits.nameless_files) GTEST_SKIP_CO("it has no nameless files");
         const OpenFlags flags{.read = true, .write = true, .nameless = true};
         const OpenFlags reading{.read = true, .nameless = true};
         const NodeId file = co_await f.file(root_node, "file");
         const NodeId dir = co_await f.directory(root_node, "dir");
         const auto create = [&](NodeId parent, string name, OpenFlags how) {
             return f.fs.create(f.call, parent, name, 0600, how, f.owner);
         };
         EXPECT_FAILS(invalid, co_await create(root_node, "name", flags));
         EXPECT_FAILS(invalid, co_await create(root_node, "", reading));
         EXPECT_FAILS(not_directory, co_await create(file, "", flags));
         EXPECT_OK(co_await f.fs.rmdir(f.call, root_node, "dir"));
         EXPECT_FALSE((co_await create(dir, "", flags)).has_value());
     }},
    {"ClosedHandleIsStale",
     [](Fixture& f) -> Task<> {
         const FileHandle handle = co_await f.open(co_await f.file(root_node, "file", "x"));
         co_await f.close(handle);
         std::byte byte{};
         const Window window = Window::local(Bytes(&byte, 1));
         EXPECT_FAILS(stale, co_await f.fs.pread(f.call, handle, window, 0));
         EXPECT_FAILS(stale, co_await f.fs.pwrite(f.call, handle, window, 0));
         EXPECT_FAILS(stale, co_await f.fs.punch_hole(f.call, handle, 0, 1));
         EXPECT_FAILS(stale, co_await f.fs.readdir(f.call, handle, 0, 1));
         EXPECT_FAILS(stale, co_await f.fs.close(f.call, handle));
     }},
    {"ReopenedFileHasANewHandle",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.file(root_node, "file", "x");
         const FileHandle first = co_await f.open(node);
         co_await f.close(first);
         const FileHandle second = co_await f.open(node);
         EXPECT_NE(first, second);
         std::byte byte{};
         EXPECT_FAILS(stale, co_await f.fs.pread(f.call, first, Window::local(Bytes(&byte, 1)), 0));
         EXPECT_EQ(co_await f.read(second, 0, 5), "x");
     }},
    {"UnknownHandleIsStale",
     [](Fixture& f) -> Task<> {
         for (const uint64_t value :
              {uint64_t{0}, uint64_t{1}, uint64_t{0x1234567}, UINT64_MAX, uint64_t{1} << 32}) {
             EXPECT_FAILS(stale, co_await f.fs.close(f.call, FileHandle{value})) << value;
             EXPECT_FAILS(stale, co_await f.fs.fsync(f.call, FileHandle{value})) << value;
         }
     }},
    {"UnknownNodeIsStale",
     [](Fixture& f) -> Task<> {
         for (const uint64_t value : {uint64_t{0}, uint64_t{12345678901}, UINT64_MAX}) {
             EXPECT_FAILS(stale, co_await f.fs.get_attributes(f.call, NodeId{value})) << value;
             EXPECT_FAILS(stale, co_await f.fs.open(f.call, NodeId{value}, f.reading)) << value;
         }
     }},
    {"HandlesOfOneFileAreIndependent",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.file(root_node, "file", "x");
         std::vector<FileHandle> handles;
         for (int i = 0; i < 300; ++i) handles.push_back(co_await f.open(node, f.reading));
         for (const FileHandle handle : handles) EXPECT_EQ(co_await f.read(handle, 0, 5), "x");
         for (size_t i = 0; i < handles.size(); i += 2) co_await f.close(handles[i]);
         for (size_t i = 1; i < handles.size(); i += 2) {
             EXPECT_EQ(co_await f.read(handles[i], 0, 5), "x");
         }
         // close_all() closes the others.
     }},
    {"ConcurrentCreationsOpenOneFile",
     [](Fixture& f) -> Task<> {
         int opened = 0;
         std::vector<NodeId> nodes;
         Nursery nursery(f.reactor, 10);
         for (int i = 0; i < 10; ++i) {
             co_await nursery.spawn(create_and_count(f, f.writing, opened, nodes));
         }
         co_await nursery.join();
         EXPECT_EQ(opened, 10);
         for (const NodeId node : nodes) EXPECT_EQ(node, nodes[0]);
     }},
};

}  // namespace

Cases open_cases() { return open_table; }

}  // namespace ros2s::fs::contract
