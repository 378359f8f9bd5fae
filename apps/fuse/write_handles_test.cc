// WriteHandles over a file system that checks permissions, as a DPU's does.
#include "write_handles.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "ros2s/access/checked_file_system.h"
#include "ros2s/fs/dfs.h"
#include "ros2s/object/memory_store.h"
#include "ros2s/runtime/sim/world.h"

namespace ros2s::fuse {
namespace {

// A file of user 7 with mode 0644. No other user may write, including the user of the mount's
// process.
Task<> write_both_ways(Reactor& reactor, bool append_first) {
    const Call call;
    Report report;
    object::MemoryStore memory(reactor, {});
    const auto container = co_await memory.create_container(call, {.label = "main"});
    EXPECT_TRUE(co_await fs::Dfs::format(call, memory, container->id, reactor, {}, report));
    auto dfs = co_await fs::Dfs::mount(call, memory, container->id, reactor, {}, report);
    access::CheckedFileSystem files(reactor, std::move(*dfs));
    const fs::Caller root{.uid = 0, .gid = 0};
    const Call as_root{.caller = &root};
    const auto file =
        co_await files.mknod(as_root, fs::root_node, "file", S_IFREG | 0644, 0, {7, 8});
    EXPECT_TRUE(file);

    const fs::Caller user{.uid = 7, .gid = 8};
    const Call as_user{.caller = &user};
    WriteHandles handles(files);
    const auto opened = co_await files.open(as_user, file->node,
                                            {.read = false, .write = true, .append = append_first});
    EXPECT_TRUE(opened);
    handles.opened(opened->handle, user, append_first);
    const auto same = co_await handles.find(file->node, opened->handle, append_first);
    EXPECT_TRUE(same && *same == opened->handle);
    const auto other = co_await handles.find(file->node, opened->handle, !append_first);
    EXPECT_TRUE(other) << describe(other.error());
    if (other) {
        EXPECT_NE(*other, opened->handle);
        const auto again = co_await handles.find(file->node, opened->handle, !append_first);
        EXPECT_TRUE(again && *again == *other) << "it is opened once";
    }
    EXPECT_TRUE(co_await handles.close(call, opened->handle));
    if (other) EXPECT_FALSE(co_await files.close(call, *other)) << "it was closed with the first";
    co_await files.close_all();
}

TEST(WriteHandles, TheSecondIsForTheUserWhoOpenedTheFile) {
    for (const bool append_first : {true, false}) {
        sim::World world(1);
        world.run(write_both_ways(world.core(), append_first));
    }
}

}  // namespace
}  // namespace ros2s::fuse
