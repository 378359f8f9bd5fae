// WriteHandles over a file system that checks permissions, as a DPU's does.
#include "write_handles.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <memory>

#include "ros2s/access/checked_file_system.h"
#include "ros2s/fs/dfs.h"
#include "ros2s/object/test_support/memory_store.h"
#include "ros2s/runtime/sim/co_test.h"

namespace ros2s::fuse {
namespace {

// A Dfs in memory behind the checks of a DPU, with a file of user 7.
struct Files {
    explicit Files(Reactor& core) : reactor(core), memory(core, {}) {}
    Task<> start(mode_t mode) {
        const Call call;
        Report report;
        const auto container = co_await memory.create_container(call, {.label = "main"});
        EXPECT_TRUE(co_await fs::Dfs::format(call, memory, container->id, reactor, {}, report));
        auto dfs = co_await fs::Dfs::mount(call, memory, container->id, reactor, {}, report);
        checked = std::make_unique<access::CheckedFileSystem>(reactor, std::move(*dfs));
        const fs::Caller root{.uid = 0, .gid = 0, .may_set_ids = true};
        const Call as_root{.caller = &root};
        const auto made =
            co_await checked->mknod(as_root, fs::root_node, "file", S_IFREG | mode, 0, {7, 8});
        EXPECT_TRUE(made);
        file = made->node;
    }

    Reactor& reactor;
    object::MemoryStore memory;
    std::unique_ptr<access::CheckedFileSystem> checked;
    fs::NodeId file{};
};

// No other user may write, including the user of the mount's process.
Task<> write_both_ways(Reactor& reactor, bool append_first) {
    const Call call;
    Files files(reactor);
    co_await files.start(0644);
    const fs::Caller user{.uid = 7, .gid = 8};
    const Call as_user{.caller = &user};
    WriteHandles handles(*files.checked);
    const auto opened = co_await files.checked->open(
        as_user, files.file, {.read = false, .write = true, .append = append_first});
    EXPECT_TRUE(opened);
    handles.opened(opened->handle, user, {.appends = append_first});
    const auto same = co_await handles.find(files.file, opened->handle, {.appends = append_first});
    EXPECT_TRUE(same && *same == opened->handle);
    const WriteHandles::Kind other_kind{.appends = !append_first};
    const auto other = co_await handles.find(files.file, opened->handle, other_kind);
    EXPECT_TRUE(other) << describe(other.error());
    if (other) {
        EXPECT_NE(*other, opened->handle);
        const auto again = co_await handles.find(files.file, opened->handle, other_kind);
        EXPECT_TRUE(again && *again == *other) << "it is opened once";
    }
    EXPECT_TRUE(co_await handles.close(call, opened->handle));
    if (other) {
        EXPECT_FALSE(co_await files.checked->close(call, *other)) << "it was closed with the first";
    }
    co_await files.checked->close_all();
}

TEST(WriteHandles, SecondHandleBelongsToTheOpeningUser) {
    for (const bool append_first : {true, false}) {
        sim::World world(1);
        world.run(write_both_ways(world.core(), append_first));
    }
}

Task<mode_t> mode_after(Files& files, fs::FileHandle handle) {
    const Call call;
    EXPECT_TRUE(co_await files.checked->pwrite(call, handle, fs::Window::local(as_bytes("x")), 0));
    co_return (co_await files.checked->get_attributes(call, files.file))->mode & 07777;
}

CO_TEST(WriteHandles, AnotherProgramsWriteKeepsNoSetIdBits, sim::World, world, 1) {
    Reactor& reactor = world.core();
    const Call call;
    Files files(reactor);
    co_await files.start(06755);
    const fs::Caller root{.uid = 0, .gid = 0, .may_set_ids = true};
    const Call as_root{.caller = &root};
    WriteHandles handles(*files.checked);
    const auto opened =
        co_await files.checked->open(as_root, files.file, {.write = true, .keeps_set_ids = true});
    EXPECT_TRUE(opened);
    handles.opened(opened->handle, root, {.keeps_set_ids = true});
    const auto own = co_await handles.find(files.file, opened->handle, {.keeps_set_ids = true});
    EXPECT_TRUE(own && *own == opened->handle);
    EXPECT_EQ(co_await mode_after(files, *own), 06755U);
    const auto others = co_await handles.find(files.file, opened->handle, {});
    EXPECT_TRUE(others && *others != opened->handle);
    EXPECT_EQ(co_await mode_after(files, *others), 0755U);
    EXPECT_TRUE(co_await handles.close(call, opened->handle));
    EXPECT_FALSE(co_await files.checked->close(call, *others)) << "it was closed with the first";
    co_await files.checked->close_all();
}

}  // namespace
}  // namespace ros2s::fuse
