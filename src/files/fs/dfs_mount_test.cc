// What the contract suite cannot see: the content of the store, and the errors of mount.
#include "dfs_mount.h"

#include <fmt/format.h>

#include "ros2s/fs/container.h"
#include "test_support/counted_dfs.h"

namespace ros2s::fs {
namespace {

TEST_F(DfsMounts, ContainerWithoutFileSystemIsRefused) {
    EXPECT_EQ(mount(), Code::not_found);
    EXPECT_NE(report_.text().find("no file system"), std::string::npos) << report_.text();
    container_ = {};
    EXPECT_EQ(format(), Code::not_found);
    EXPECT_FALSE(report_.empty());
}

TEST_F(DfsMounts, SecondFormatIsRefused) {
    EXPECT_EQ(format(), std::nullopt);
    EXPECT_EQ(format(), Code::exists);
    EXPECT_NE(report_.text().find("already has a file system: mount it"), std::string::npos)
        << report_.text();
    ASSERT_EQ(mount(), std::nullopt);
    const auto root = world_.run(fs_->get_attributes(call_, root_node));
    EXPECT_EQ(root->uid, 7u);
    EXPECT_EQ(root->gid, 8u);
    unmount();
}

TEST_F(DfsMounts, StoreWithoutNeededFeaturesIsRefused) {
    store_.claimed.conditions = false;
    EXPECT_EQ(format(), Code::unsupported);
    EXPECT_NE(report_.text().find("conditional transactions"), std::string::npos);
    store_.claimed = {.multi_object_transactions = false, .conditions = true};
    EXPECT_EQ(mount(), Code::unsupported);
    EXPECT_NE(report_.text().find("several objects"), std::string::npos);
}

TEST_F(DfsMounts, UnknownFormatOrFeatureIsRefused) {
    ASSERT_EQ(format(), std::nullopt);
    put_record(root_node, superblock_akey(), Superblock{.format = 2, .chunk_bytes = 8192});
    EXPECT_EQ(mount(), Code::bad_version);
    EXPECT_NE(report_.text().find("format 2"), std::string::npos) << report_.text();
    put_record(root_node, superblock_akey(),
               Superblock{.features_needed = 16, .chunk_bytes = 8192});
    EXPECT_EQ(mount(), Code::bad_version);
    EXPECT_NE(report_.text().find("0x10"), std::string::npos) << report_.text();
    put_record(root_node, superblock_akey(), Superblock{.version = 9, .chunk_bytes = 8192});
    EXPECT_EQ(mount(), Code::bad_version);
    put_record(root_node, superblock_akey(), Superblock{.chunk_bytes = 1000});
    EXPECT_EQ(mount(), Code::corrupt);
    put_record(root_node, superblock_akey(), EntryRecord{});
    EXPECT_EQ(mount(), Code::corrupt);
    put_record(root_node, superblock_akey(), Superblock{.chunk_bytes = 8192});
    EXPECT_EQ(mount(), std::nullopt);
    unmount();
}

// The property, the mount's option and the store must agree before a change is deferred.
TEST_F(DfsMounts, ChangesAreDeferredOnlyIfAllAgree) {
    struct Row {
        bool property, option, store, deferred;
    };
    for (const Row& row : {Row{true, true, true, true}, Row{false, true, true, false},
                           Row{true, false, true, false}, Row{true, true, false, false}}) {
        store_.claimed.deferred = row.store;
        ASSERT_EQ(format(), std::nullopt);
        const object::ContainerRecord record{.id = container_, .properties = {.label = "c"}};
        const auto wanted = row.property ? Durability::fsync : Durability::durable;
        ASSERT_TRUE(
            world_.run(set_durability(call_, world_.core(), store_, record, wanted, report_)))
            << report_.text();
        EXPECT_EQ(*world_.run(durability_of(call_, store_, container_)), wanted);
        ASSERT_EQ(mount({.defers = row.option}), std::nullopt);
        EXPECT_EQ(fs_->is_deferred(), row.deferred);
        store_.deferred = store_.syncs = 0;
        const auto made =
            world_.run(fs_->create(call_, root_node, "f", 0644, {.write = true, .sync = true}, {}));
        ASSERT_TRUE(made);
        EXPECT_EQ(store_.deferred > 0, row.deferred);
        EXPECT_EQ(store_.syncs, 0);
        std::string bytes = "x";
        ASSERT_TRUE(world_.run(fs_->pwrite(
            call_, made->handle, Window::local(std::as_writable_bytes(std::span(bytes))), 0)));
        EXPECT_EQ(store_.syncs, row.deferred ? 1 : 0);
        EXPECT_TRUE(world_.run(fs_->fsync(call_, made->handle)));
        // Another mount may have deferred what this one has read.
        EXPECT_EQ(store_.syncs, (row.deferred ? 1 : 0) + (row.store ? 1 : 0));
        unmount();
        ASSERT_TRUE(world_.run(store_.destroy_container(call_, container_)));
        world_.run(make_container());
    }
}

TEST_F(DfsMounts, InvalidInodeRecordIsRefused) {
    start();
    const NodeId node = create("file").attributes.node;
    put_record(node, inode_akey(), EntryRecord{});
    EXPECT_EQ(outcome_of(world_.run(fs_->get_attributes(call_, node))), Code::corrupt);
    put_record(node, inode_akey(), InodeRecord{.version = 3});
    EXPECT_EQ(outcome_of(world_.run(fs_->get_attributes(call_, node))), Code::bad_version);
    unmount();
}

TEST_F(DfsMounts, XattrsPerNodeAreBounded) {
    start();
    const NodeId node = create("file").attributes.node;
    const auto set = [&](int number, SetXattr how = SetXattr::any) {
        return outcome_of(world_.run(
            fs_->set_xattr(call_, node, fmt::format("user.{}", number), as_bytes("value"), how)));
    };
    for (int i = 0; i < 256; ++i) ASSERT_EQ(set(i), std::nullopt) << i;
    EXPECT_EQ(set(256), Code::no_space);
    EXPECT_EQ(set(0), std::nullopt);
    EXPECT_EQ(set(1, SetXattr::replace), std::nullopt);
    EXPECT_EQ(world_.run(fs_->list_xattrs(call_, node))->size(), 256U);
    ASSERT_TRUE(world_.run(fs_->remove_xattr(call_, node, "user.7")));
    EXPECT_EQ(set(256), std::nullopt);
    EXPECT_EQ(set(7), Code::no_space);
    unmount();
}

// A client with rights at the engine can store anything where an attribute is expected.
TEST_F(DfsMounts, ArrayInPlaceOfXattrIsCorrupt) {
    start();
    const NodeId node = create("file").attributes.node;
    object::Transaction transaction;
    transaction.operations.push_back({.kind = object::Operation::Kind::set_size,
                                      .object = object_of(node),
                                      .dkey = record_dkey(),
                                      .akey = {"user.x"},
                                      .size = object::array_bytes_max});
    ASSERT_TRUE(world_.run(store_.update(call_, container_, transaction)));
    EXPECT_EQ(outcome_of(world_.run(fs_->get_xattr(call_, node, "user.x"))), Code::corrupt);
    unmount();
}

TEST_F(DfsMounts, ListingSkipsInvalidEntries) {
    start();
    for (const char* name : {"b", "d"}) {
        ASSERT_TRUE(world_.run(fs_->close(call_, create(name).handle)));
    }
    const EntryRecord entry = EntryRecord::of(NodeId{5}, S_IFREG);
    const std::string none = "no record";
    object::Transaction transaction;
    for (const char* name : {"..", "../x", "a/b", "e/"}) {
        transaction.operations.push_back(
            put(object_of(root_node), name_dkey(name), entry_akey(), entry));
    }
    transaction.operations.push_back({.kind = Operation::Kind::put,
                                      .object = object_of(root_node),
                                      .dkey = name_dkey("c"),
                                      .akey = entry_akey(),
                                      .window = Window::local(as_bytes(none))});
    ASSERT_TRUE(world_.run(store_.update(call_, container_, transaction)));
    const auto opened = world_.run(fs_->open(call_, root_node, {}));
    ASSERT_TRUE(opened);
    // One at a time, also a page that has none of them.
    std::vector<std::string> names;
    for (uint64_t cookie = 0;;) {
        const auto entries = world_.run(fs_->readdir(call_, opened->handle, cookie, 1));
        ASSERT_TRUE(entries) << describe(entries.error());
        if (entries->empty()) break;
        names.push_back(entries->front().name);
        cookie = entries->front().cookie;
    }
    EXPECT_EQ(names, (std::vector<std::string>{"b", "d"}));
    ASSERT_TRUE(world_.run(fs_->close(call_, opened->handle)));
    unmount();
}

TEST_F(DfsMounts, KeysWithoutEntriesAreFoundAndFreed) {
    start();
    const auto made = world_.run(fs_->mkdir(call_, root_node, "d", 0755, {}));
    ASSERT_TRUE(made);
    const auto kept = world_.run(fs_->create(call_, made->node, "kept", 0644, {.write = true}, {}));
    ASSERT_TRUE(kept);
    ASSERT_TRUE(world_.run(fs_->close(call_, kept->handle)));
    const EntryRecord entry = EntryRecord::of(NodeId{5}, S_IFREG);
    const std::string none = "no record";
    object::Transaction transaction;
    for (const auto& [node, name] : {std::pair{root_node, "../x"}, {made->node, "a/b"}}) {
        transaction.operations.push_back(
            put(object_of(node), name_dkey(name), entry_akey(), entry));
    }
    transaction.operations.push_back({.kind = Operation::Kind::put,
                                      .object = object_of(made->node),
                                      .dkey = name_dkey("c"),
                                      .akey = entry_akey(),
                                      .window = Window::local(as_bytes(none))});
    ASSERT_TRUE(world_.run(store_.update(call_, container_, transaction)));
    const auto checked = world_.run(fs_->check(call_, false));
    ASSERT_TRUE(checked);
    EXPECT_EQ(checked->keys, 3U);
    EXPECT_EQ(checked->objects, 0U);
    EXPECT_EQ(world_.run(fs_->check(call_, true))->keys, 3U);
    EXPECT_EQ(world_.run(fs_->check(call_, false))->keys, 0U);
    EXPECT_EQ(outcome_of(world_.run(fs_->rmdir(call_, root_node, "d"))), Code::not_empty);
    EXPECT_TRUE(world_.run(fs_->unlink(call_, made->node, "kept")));
    EXPECT_TRUE(world_.run(fs_->rmdir(call_, root_node, "d")));
    unmount();
}

TEST_F(DfsMounts, WriteWithoutSpaceKeepsItsBeginning) {
    start({.write_bytes_max = 4 * 8192});
    const Opened file = create("file");
    write(file.handle, 100, 0);
    const std::string text(12 * 8192, 'x');
    const auto pwrite = [&](uint64_t offset) {
        return world_.run(fs_->pwrite(call_, file.handle, Window::local(as_bytes(text)), offset));
    };
    const auto size = [&] {
        return world_.run(fs_->get_attributes(call_, file.attributes.node))->size;
    };
    // One chunk in the middle finds no space: its transaction does nothing.
    store_.full_at = 2;
    const auto refused = pwrite(100);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::no_space);
    EXPECT_EQ(size(), 100u);
    store_.full_at = 6;
    // Whatever the error: the durable part is reported.
    for (const Code code : {Code::no_space, Code::io, Code::disconnected, Code::no_memory}) {
        store_.full_code = code;
        const auto begun = pwrite(100);
        ASSERT_TRUE(begun) << describe(code);
        EXPECT_EQ(*begun, 4 * 8192u - 100);
        EXPECT_EQ(size(), 4 * 8192u);
    }
    store_.full_at.reset();
    const auto whole = pwrite(100);
    ASSERT_TRUE(whole);
    EXPECT_EQ(*whole, text.size());
    unmount();
}

// An append that is refused half way reports how far it came. One that may have been done does not,
// because the caller would append the rest twice.
TEST_F(DfsMounts, RefusedAppendReportsBytesDone) {
    start();
    (void)create("file");
    const NodeId node = world_.run(fs_->lookup(call_, root_node, "file"))->node;
    const FileHandle log =
        world_.run(fs_->open(call_, node, {.write = true, .append = true}))->handle;
    constexpr uint64_t one = (object::transaction_operations_max - 2) * 8192;
    const std::string text(one + 8192, 'x');
    uint64_t size = 0;
    for (const Code code :
         {Code::no_space, Code::read_only, Code::no_memory, Code::disconnected, Code::io}) {
        store_.full_at = (size + one) / 8192;
        store_.full_code = code;
        const auto done = world_.run(fs_->pwrite(call_, log, Window::local(as_bytes(text)), 0));
        size += one;
        EXPECT_EQ(world_.run(fs_->get_attributes(call_, node))->size, size);
        const bool unknown = code == Code::disconnected || code == Code::io;
        EXPECT_EQ(done, unknown ? Result<uint64_t>(fail(code)) : Result<uint64_t>(one))
            << describe(code);
    }
    unmount();
}

// A file's record names a directory that has one of its names, through every change of its names.
TEST_F(DfsMounts, FileRecordNamesAParentDirectory) {
    start();
    const Owner owner;
    const NodeId a = world_.run(fs_->mkdir(call_, root_node, "a", 0755, owner))->node;
    const NodeId b = world_.run(fs_->mkdir(call_, root_node, "b", 0755, owner))->node;
    const NodeId file = world_.run(fs_->mknod(call_, a, "f", S_IFREG | 0644, 0, owner))->node;
    const auto above = [&] {
        const auto found = world_.run(fs_->lookup(call_, file, ".."));
        return found ? found->node : NodeId{};
    };
    EXPECT_EQ(above(), a);
    ASSERT_TRUE(world_.run(fs_->link(call_, file, b, "g")));
    EXPECT_EQ(above(), a);
    ASSERT_TRUE(world_.run(fs_->unlink(call_, b, "g")));
    EXPECT_EQ(above(), a) << "a name elsewhere was removed";
    ASSERT_TRUE(world_.run(fs_->link(call_, file, b, "g")));
    ASSERT_TRUE(world_.run(fs_->unlink(call_, a, "f")));
    EXPECT_EQ(outcome_of(world_.run(fs_->lookup(call_, file, ".."))), Code::stale);
    ASSERT_TRUE(world_.run(fs_->link(call_, file, b, "h")));
    EXPECT_EQ(above(), b) << "the next link is known again";
    ASSERT_TRUE(world_.run(fs_->rename(call_, b, "g", a, "f", {})));
    EXPECT_EQ(above(), a);
    // A file that a rename replaces loses that name, too.
    const NodeId other = world_.run(fs_->mknod(call_, a, "o", S_IFREG | 0644, 0, owner))->node;
    ASSERT_TRUE(world_.run(fs_->rename(call_, a, "o", a, "f", {})));
    EXPECT_EQ(outcome_of(world_.run(fs_->lookup(call_, file, ".."))), Code::stale);
    ASSERT_TRUE(world_.run(fs_->rename(call_, a, "f", b, "h", {.exchange = true})));
    EXPECT_EQ(above(), a);
    EXPECT_EQ(world_.run(fs_->lookup(call_, other, ".."))->node, b);
    // An open file without a name keeps it.
    const Opened open = *world_.run(fs_->open(call_, file, {}));
    ASSERT_TRUE(world_.run(fs_->unlink(call_, a, "f")));
    EXPECT_EQ(above(), a);
    ASSERT_TRUE(world_.run(fs_->close(call_, open.handle)));
    const std::string_view many[] = {"1", "2"};
    for (const auto& made : world_.run(fs_->create_many(call_, b, many, 0644, owner))) {
        ASSERT_TRUE(made);
    }
    const NodeId one = world_.run(fs_->lookup(call_, b, "1"))->node;
    EXPECT_EQ(world_.run(fs_->lookup(call_, one, ".."))->node, b);
    unmount();
}

TEST_F(DfsMounts, OrphansOfLostMountAreReapedByNext) {
    start();
    const Opened file = create("file");
    const uint64_t free_before = world_.run(fs_->space(call_))->free_bytes;
    write(file.handle, 30'000, 0);
    ASSERT_TRUE(world_.run(fs_->unlink(call_, root_node, "file")).has_value());
    EXPECT_LT(world_.run(fs_->space(call_))->free_bytes, free_before);
    // As after a crash: the first mount never closes what it has open, and its session ends.
    store_.session_ended(0);
    auto next = world_.run(Dfs::mount(call_, store_, container_, world_.core(), {}, report_));
    ASSERT_TRUE(next.has_value());
    world_.run(pass(removed_after));
    EXPECT_EQ(world_.run((*next)->space(call_))->free_bytes, free_before);
    EXPECT_EQ(outcome_of(world_.run((*next)->get_attributes(call_, file.attributes.node))),
              Code::stale);
    world_.run((*next)->close_all());
    unmount();
}

TEST_F(DfsMounts, OrphansTooLargeForOneRequestAreReapedOneByOne) {
    start();
    std::vector<NodeId> nodes;
    for (const char* name : {"a", "b", "c"}) {
        const Opened file = create(name);
        nodes.push_back(file.attributes.node);
        ASSERT_TRUE(world_.run(fs_->close(call_, file.handle)));
        ASSERT_TRUE(world_.run(fs_->unlink(call_, root_node, name)));
    }
    store_.punched_objects_max = 1;
    world_.run(pass(removed_after));
    for (const NodeId node : nodes) {
        EXPECT_EQ(outcome_of(world_.run(fs_->get_attributes(call_, node))), Code::stale);
    }
    unmount();
}

// By a caller that found it before. A file that is open here gets no name: see the contract.
TEST_F(DfsMounts, ReplacedFileCanBeLinked) {
    start();
    const auto make = [&](std::string name, uint64_t bytes) {
        const Opened file = create(name);
        write(file.handle, bytes, 0);
        EXPECT_TRUE(world_.run(fs_->close(call_, file.handle)).has_value());
        return file.attributes.node;
    };
    const NodeId old = make("f", 100);
    make("g", 1);
    ASSERT_TRUE(world_.run(fs_->rename(call_, root_node, "g", root_node, "f", {})).has_value());
    const auto linked = world_.run(fs_->link(call_, old, root_node, "l"));
    ASSERT_TRUE(linked.has_value());
    EXPECT_EQ(linked->links, 1U);
    world_.run(pass(removed_after));
    EXPECT_EQ(world_.run(fs_->get_attributes(call_, old))->size, 100U);
    ASSERT_TRUE(world_.run(fs_->unlink(call_, root_node, "l")).has_value());
    world_.run(pass(removed_after));
    EXPECT_EQ(outcome_of(world_.run(fs_->get_attributes(call_, old))), Code::stale);
    unmount();
}

// During the time of grace they exist for clients that open them again, until the last close.
TEST_F(DfsMounts, ReopenedOrphanStays) {
    start();
    const Opened kept = create("kept"), dropped = create("dropped");
    write(kept.handle, 30'000, 0);
    write(dropped.handle, 30'000, 0);
    for (const char* name : {"kept", "dropped"}) {
        ASSERT_TRUE(world_.run(fs_->unlink(call_, root_node, name)).has_value());
    }
    store_.session_ended(0);
    auto next = world_.run(Dfs::mount(call_, store_, container_, world_.core(),
                                      {.orphan_grace = std::chrono::seconds(60)}, report_));
    ASSERT_TRUE(next.has_value());
    const auto attributes = [&](const Opened& file) {
        return outcome_of(world_.run((*next)->get_attributes(call_, file.attributes.node)));
    };
    const auto again = world_.run((*next)->open(call_, kept.attributes.node, {.write = true}));
    ASSERT_TRUE(again.has_value());
    EXPECT_EQ(again->attributes.size, 30'000U);
    EXPECT_EQ(again->attributes.links, 0U);
    EXPECT_EQ(attributes(dropped), std::nullopt);
    // The store knows who has others open.
    const NodeId late = world_.run((*next)->mknod(call_, root_node, "late", S_IFREG, 0, {}))->node;
    ASSERT_TRUE(world_.run((*next)->unlink(call_, root_node, "late")).has_value());
    world_.run(pass(removed_after));
    EXPECT_EQ(outcome_of(world_.run((*next)->get_attributes(call_, late))), Code::stale);
    // Opened twice at the earlier mount, so the first close is not the last.
    ASSERT_TRUE(world_.run((*next)->close(call_, again->handle)).has_value());
    const auto third = world_.run((*next)->open(call_, kept.attributes.node, {.write = true}));
    ASSERT_TRUE(third.has_value());
    world_.run(pass(std::chrono::seconds(61)));
    EXPECT_EQ(attributes(kept), std::nullopt);
    EXPECT_EQ(attributes(dropped), Code::stale);
    ASSERT_TRUE(world_.run((*next)->close(call_, third->handle)).has_value());
    EXPECT_EQ(attributes(kept), Code::stale);
    world_.run((*next)->close_all());
    unmount();
}

// A mount that ends for a regular restart of its process leaves them, too.
TEST_F(DfsMounts, OrphansAreLeftToNextMountIfConfigured) {
    bool leaves = false;
    start({.leaves_orphans = &leaves});
    const Opened kept = create("kept"), dropped = create("dropped");
    for (const char* name : {"kept", "dropped"}) {
        ASSERT_TRUE(world_.run(fs_->unlink(call_, root_node, name)).has_value());
    }
    const auto attributes = [&](const Opened& file) {
        return outcome_of(world_.run(fs_->get_attributes(call_, file.attributes.node)));
    };
    ASSERT_TRUE(world_.run(fs_->close(call_, dropped.handle)).has_value());
    world_.run(pass(removed_after));
    leaves = true;
    unmount();
    ASSERT_EQ(mount({.orphan_grace = std::chrono::seconds(60)}), std::nullopt);
    EXPECT_EQ(attributes(kept), std::nullopt);
    EXPECT_EQ(attributes(dropped), Code::stale);
    unmount();
    ASSERT_EQ(mount(), std::nullopt);
    EXPECT_EQ(attributes(kept), std::nullopt) << "the first one's session goes on";
    unmount();
    store_.session_ended(0);
    ASSERT_EQ(mount(), std::nullopt);
    EXPECT_EQ(attributes(kept), Code::stale);
    unmount();
}

TEST_F(DfsMounts, ReadOnlyPoolMountsForReading) {
    start();
    const Opened file = create("file");
    write(file.handle, 100, 0);
    ASSERT_TRUE(world_.run(fs_->unlink(call_, root_node, "file")).has_value());
    memory_.set_read_only(true);
    auto next = world_.run(Dfs::mount(call_, store_, container_, world_.core(), {}, report_));
    ASSERT_TRUE(next.has_value()) << "the orphan has to wait";
    EXPECT_EQ(outcome_of(world_.run((*next)->mkdir(call_, root_node, "d", 0755, {}))),
              Code::read_only);
    EXPECT_EQ(read(file.handle, 100, 0), 100u);
    world_.run((*next)->close_all());
    unmount();
}

TEST_F(DfsMounts, NodeIdsAreNotReusedByNextMount) {
    start({.node_ids_per_lease = 2});
    std::vector<NodeId> nodes;
    for (int i = 0; i < 5; ++i) nodes.push_back(create("a" + std::to_string(i)).attributes.node);
    unmount();
    ASSERT_EQ(mount(), std::nullopt);
    nodes.push_back(create("b").attributes.node);
    for (size_t i = 1; i < nodes.size(); ++i) EXPECT_GT(nodes[i], nodes[i - 1]);
    EXPECT_EQ(nodes[0].value, first_free_node);
    unmount();
}

TEST_F(DfsMounts, MetricsCountOperations) {
    start();
    const FileHandle handle = create("file").handle;
    write(handle, 10, 0);
    read(handle, 10, 0);
    std::map<std::string, uint64_t> values;
    fs_->visit_metrics([&](std::string_view name, std::string_view, uint64_t value) {
        values[std::string(name)] = value;
    });
    EXPECT_EQ(values["ros2store_fs_reads_total"], 1u);
    EXPECT_EQ(values["ros2store_fs_written_bytes_total"], 10u);
    unmount();
}

// The attack: a client that can guess a mount's next name has an empty update done under it. The
// stored reply would then pass for the reply to the transaction that takes node ids, and two mounts
// would give the same ids to their files.
TEST_F(DfsMounts, ReplyToAnotherRequestStopsUpdates) {
    start();
    (void)create("before");
    unmount();
    std::vector<std::string> lines;
    const Log log([&](LogLevel, std::string_view line) { lines.emplace_back(line); });
    ASSERT_EQ(mount({.log = log, .shown = "the container 'main'"}), std::nullopt);
    store_.robbed = 1;  // a mount's first update takes node ids
    const auto made = world_.run(fs_->mkdir(call_, root_node, "a", 0755, {}));
    EXPECT_EQ(outcome_of(made), Code::name_taken);
    store_.robbed = 0;
    EXPECT_EQ(outcome_of(world_.run(fs_->mkdir(call_, root_node, "b", 0755, {}))),
              Code::name_taken);
    EXPECT_TRUE(world_.run(fs_->lookup(call_, root_node, "before")));
    ASSERT_EQ(lines.size(), 1U);
    EXPECT_TRUE(lines.front().starts_with("the container 'main': another client"));
    unmount();
    ASSERT_EQ(mount(), std::nullopt);
    EXPECT_EQ(outcome_of(world_.run(fs_->mkdir(call_, root_node, "b", 0755, {}))), std::nullopt);
    unmount();
}

// A store keeps replies by owner, so mounts of one container do not displace replies of another
// container's mounts.
TEST_F(DfsMounts, UpdateNamesBelongToTheContainer) {
    std::set<Uuid> containers;
    for (int i = 0; i < 2; ++i) {
        container_ = world_.run(store_.create_container(call_, {.label = std::to_string(i)}))->id;
        containers.insert(container_.uuid);
        start();
        EXPECT_TRUE(world_.run(fs_->mkdir(call_, root_node, "a", 0755, {})));
        unmount();
    }
    EXPECT_EQ(store_.owners, containers);
}

}  // namespace
}  // namespace ros2s::fs
