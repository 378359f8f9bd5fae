// How many requests to the store an operation takes.
#include "ros2s/fs/contract/acl_text.h"
#include "test_support/counted_dfs.h"

namespace ros2s::fs {
namespace {

// The reason for DFS's speed: a small read is one item, a small write one operation, and no more.
TEST_F(DfsMounts, SmallReadOrWriteIsOneRequest) {
    start();
    const FileHandle handle = create("file").handle;
    write(handle, 20'000, 0);
    store_.reset();
    EXPECT_EQ(read(handle, 4096, 4096), 4096u);
    EXPECT_EQ(read(handle, 100, 8192 + 10), 100u);
    EXPECT_EQ(store_.fetches, 2u);
    EXPECT_EQ(store_.items, 2u);
    write(handle, 4096, 4096);
    EXPECT_EQ(store_.updates, 1u);
    EXPECT_EQ(store_.operations, 1u);
    EXPECT_EQ(store_.conditions, 1u) << "that it is pinned: in the store's memory";
    EXPECT_EQ(store_.queries + store_.lists, 0u);

    store_.reset();
    EXPECT_EQ(read(handle, 20'000, 0), 20'000u);
    EXPECT_EQ(store_.fetches, 1u) << "three chunks in one batch";
    EXPECT_EQ(store_.items, 3u);
    EXPECT_EQ(store_.queries, 0u);
    EXPECT_EQ(read(handle, 4096, 18'000), 2000u);
    EXPECT_EQ(store_.fetches, 2u) << "the end is found by one query, not by reading again";
    EXPECT_EQ(store_.queries, 1u);
    unmount();
}

TEST_F(DfsMounts, ReadManyTakesFewBatches) {
    start();
    std::vector<ReadManyItem> items(100);
    for (size_t i = 0; i < items.size(); ++i) {
        items[i].name = "f" + std::to_string(i);
        const FileHandle handle = create(items[i].name).handle;
        write(handle, 10, 0);
    }
    std::vector<std::string> rooms(items.size(), std::string(100, '?'));
    for (size_t i = 0; i < items.size(); ++i) {
        items[i].window = Window::local(std::as_writable_bytes(std::span(rooms[i])));
    }
    store_.reset();
    ASSERT_TRUE(world_.run(fs_->read_many(call_, root_node, items)).has_value());
    for (const ReadManyItem& item : items) EXPECT_EQ(item.bytes, 10u);
    EXPECT_EQ(store_.fetches, 3u) << "the directory, the entries, the contents";
    EXPECT_EQ(store_.queries, 0u);
    EXPECT_EQ(store_.chains, 4u) << "the sizes, side by side";
    unmount();
}

// A host sees what its memory has, whatever the reply says.
TEST_F(DfsMounts, ReadManyPutsNothingUnreadableIntoTheHostsMemory) {
    start();
    const auto made = world_.run(
        fs_->create(call_, root_node, "f", 0600, {.read = true, .write = true}, {.uid = 7}));
    write(made->handle, 5000, 0);
    std::string into(5000, '?');
    const Caller stranger{.uid = 9, .gid = 9}, owner{.uid = 7, .gid = 7};
    Call call = call_;
    for (const Caller* const caller : {&stranger, &owner}) {
        ReadManyItem item{.name = "f",
                          .window = Window::local(std::as_writable_bytes(std::span(into)))};
        item.window.shared = true;
        call.caller = caller;
        ASSERT_TRUE(world_.run(fs_->read_many(call, root_node, {&item, 1})));
        EXPECT_EQ(item.status.has_value(), caller == &owner);
        EXPECT_EQ(into, std::string(5000, caller == &owner ? 'x' : '?'));
    }
    unmount();
}

TEST_F(DfsMounts, ReadsAndWritesAreTraced) {
    start();
    const FileHandle handle = create("file").handle;
    Trace trace;
    call_.trace = &trace;
    write(handle, 10, 0);
    read(handle, 10, 0);
    ASSERT_EQ(trace.steps().size(), 2u);
    EXPECT_EQ(trace.steps()[0].name, "fs.pwrite");
    EXPECT_EQ(trace.steps()[1].name, "fs.pread");
    call_.trace = nullptr;
    unmount();
}

TEST_F(DfsMounts, WholePathTakesOneRequest) {
    start();
    std::string path;
    for (int i = 0; i < 70; ++i) {
        path += path.empty() ? "d" : "/d";
        const auto made = world_.run(fs_->walk(call_, path, LastLink::unasked));
        ASSERT_TRUE(made);
        ASSERT_TRUE(world_.run(fs_->mkdir(call_, made->parent, made->name, 0755, {})));
    }
    const auto chains = [&](std::string_view way) {
        store_.reset();
        const auto walked = world_.run(fs_->walk(call_, way, LastLink::follow));
        EXPECT_TRUE(walked && walked->attributes && walked->attributes->mode == (S_IFDIR | 0755));
        EXPECT_EQ(store_.fetches, 0u);
        return store_.chains;
    };
    EXPECT_EQ(chains("d"), 1u);
    EXPECT_EQ(chains(path.substr(0, 2 * 62)), 1u);
    EXPECT_EQ(chains(path), 2u);  // longer than a chain
    ASSERT_TRUE(world_.run(fs_->symlink(call_, root_node, "link", "d/d", {})));
    store_.reset();
    EXPECT_TRUE(world_.run(fs_->walk(call_, "link/d/d", LastLink::follow))->attributes);
    EXPECT_EQ(store_.chains, 2u);
    EXPECT_EQ(store_.fetches, 1u);  // the link's target
    // What is no directory, and what does not exist.
    (void)create("file");
    store_.reset();
    EXPECT_EQ(world_.run(fs_->walk(call_, "file/d", LastLink::follow)).error().code,
              Code::not_directory);
    EXPECT_EQ(world_.run(fs_->walk(call_, "d/x/d", LastLink::follow)).error().code,
              Code::not_found);
    EXPECT_EQ(store_.chains, 2u);
    unmount();
}

// To find the names and the nodes, and for the operation itself.
TEST_F(DfsMounts, RenameTakesTwoRoundTrips) {
    start();
    (void)create("a");
    store_.reset();
    store_.trip = std::chrono::milliseconds(1);
    const Time begun = world_.core().now();
    EXPECT_TRUE(world_.run(fs_->rename(call_, root_node, "a", root_node, "b", {})));
    EXPECT_EQ(world_.core().now() - begun, std::chrono::milliseconds(2));
    EXPECT_EQ(store_.chains, 1u);
    EXPECT_EQ(store_.updates, 1u);
    unmount();
}

TEST_F(DfsMounts, ManyNamesTakeFewRequests) {
    start();
    (void)create("first");  // leases ids, and reads the directory
    std::vector<std::string> names;
    for (int i = 0; i < 100; ++i) names.push_back(std::to_string(i));
    const std::vector<std::string_view> all(names.begin(), names.end());
    const auto is_fine = [](const auto& result) { return result.has_value(); };
    store_.reset();
    EXPECT_TRUE(std::ranges::all_of(world_.run(fs_->create_many(call_, root_node, all, 0644, {})),
                                    is_fine));
    EXPECT_EQ(store_.fetches + store_.chains + store_.queries, 1u);
    EXPECT_EQ(store_.updates, 1u);
    store_.reset();
    store_.trip = std::chrono::milliseconds(1);
    const Time begun = world_.core().now();
    EXPECT_TRUE(std::ranges::all_of(world_.run(fs_->lookup_many(call_, root_node, all)), is_fine));
    EXPECT_EQ(store_.chains, 4u);
    EXPECT_EQ(world_.core().now() - begun, store_.trip);
    EXPECT_TRUE(std::ranges::all_of(world_.run(fs_->unlink_many(call_, root_node, all)), is_fine));
    EXPECT_EQ(world_.core().now() - begun, 3 * store_.trip);
    EXPECT_EQ(store_.chains, 8u);
    EXPECT_EQ(store_.updates, 4u);
    EXPECT_EQ(store_.fetches + store_.queries, 0u);
    // A creation in a directory that was looked into reads nothing.
    store_.reset();
    (void)create("last");
    EXPECT_EQ(store_.fetches + store_.chains + store_.queries, 0u);
    EXPECT_EQ(store_.updates, 1u);
    unmount();
}

// A node without a list, in a directory without one, is made and changed as before there were any.
TEST_F(DfsMounts, AccessListCostsOneRequestWhereItIsUsed) {
    start();
    const std::string list = contract::acl("u::rwx,u:1001:rwx,g::r-x,m::rwx,o::---");
    const auto made = world_.run(fs_->mkdir(call_, root_node, "directory", 0755, {}));
    ASSERT_TRUE(made);
    (void)create("first");  // leases node ids, and knows the root
    ASSERT_TRUE(world_.run(
        fs_->set_xattr(call_, made->node, default_acl_name, as_bytes(list), SetXattr::any)));
    ASSERT_TRUE(world_.run(fs_->lookup(call_, root_node, "directory")));
    const auto counted = [this](auto task) {
        store_.reset();
        EXPECT_TRUE(world_.run(std::move(task)));
        return store_.fetches + store_.chains + store_.updates + store_.lists;
    };
    EXPECT_EQ(counted(fs_->mknod(call_, root_node, "a", S_IFREG | 0644, 0, {})), 1u);
    EXPECT_EQ(counted(fs_->mknod(call_, made->node, "b", S_IFREG | 0644, 0, {})), 2u);
    const auto without = world_.run(fs_->lookup(call_, root_node, "a"));
    const auto with = world_.run(fs_->lookup(call_, made->node, "b"));
    ASSERT_TRUE(without && with);
    EXPECT_EQ(without->flags, 0u);
    EXPECT_EQ(with->flags, node_flags::has_access_acl);
    EXPECT_EQ(counted(fs_->set_attributes(call_, without->node, {.mode = 0600})), 2u);
    EXPECT_EQ(counted(fs_->set_attributes(call_, with->node, {.mode = 0600})), 3u);
    unmount();
}

// An older program, which does not know lists, does not mount the container from then on.
TEST_F(DfsMounts, FirstAccessListIsAFeatureOfTheContainer) {
    start();
    const auto features = [this] {
        Superblock superblock;
        FetchItem item =
            record_item(object_of(root_node), record_dkey(), superblock_akey(), superblock);
        EXPECT_TRUE(world_.run(store_.fetch(call_, container_, {&item, 1})));
        return superblock.features_needed;
    };
    const auto set = [this](std::string_view text) {
        const std::string list = contract::acl(text);
        EXPECT_TRUE(world_.run(
            fs_->set_xattr(call_, root_node, access_acl_name, as_bytes(list), SetXattr::any)));
    };
    set("u::rwx,g::r-x,o::---");
    EXPECT_EQ(features(), 0u) << "it is a mode";
    set("u::rwx,u:1001:rwx,g::r-x,m::rwx,o::---");
    EXPECT_EQ(features(), Superblock::has_acls);
    unmount();
    EXPECT_EQ(mount(), std::nullopt);
    unmount();
}

// In steps of four chunks, by their number or by their bytes.
class DfsSteps : public DfsMounts, public testing::WithParamInterface<DfsOptions> {};
INSTANTIATE_TEST_SUITE_P(Of, DfsSteps,
                         testing::Values(DfsOptions{.punch_chunks_max = 4},
                                         DfsOptions{.punch_bytes_max = uint64_t{4} * 8192}));

TEST_P(DfsSteps, LargeFileIsRemovedInSteps) {
    start(GetParam());
    const Opened file = create("file");
    const uint64_t free_before = world_.run(fs_->space(call_))->free_bytes;
    write(file.handle, 30 * 8192, 0);
    ASSERT_TRUE(world_.run(fs_->close(call_, file.handle)).has_value());
    store_.reset();
    ASSERT_TRUE(world_.run(fs_->unlink(call_, root_node, "file")).has_value());
    EXPECT_EQ(store_.updates, 1u);
    world_.run(pass(removed_after));
    EXPECT_GE(store_.updates, 8u);
    EXPECT_EQ(world_.run(fs_->space(call_))->free_bytes, free_before);
    EXPECT_EQ(outcome_of(world_.run(fs_->get_attributes(call_, file.attributes.node))),
              Code::stale);
    unmount();
}

TEST_F(DfsMounts, SparseFileIsPunchedInFewSteps) {
    start({.punch_chunks_max = 4});
    const Opened file = create("file");
    for (uint64_t i = 0; i < 20; ++i) write(file.handle, 1, i << 50);
    store_.reset();
    ASSERT_TRUE(
        world_.run(fs_->punch_hole(call_, file.handle, 0, uint64_t{INT64_MAX})).has_value());
    EXPECT_LT(store_.updates, 12u);
    store_.reset();
    ASSERT_TRUE(
        world_.run(fs_->set_attributes(call_, file.attributes.node, {.size = 1})).has_value());
    EXPECT_LT(store_.updates, 30u);
    unmount();
}

}  // namespace
}  // namespace ros2s::fs
