// What the contract suite cannot see: the requests to the store, its content, and the errors of
// mount.
#include "dfs_mount.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "ros2s/object/forwarding_store.h"
#include "ros2s/object/memory_store.h"
#include "ros2s/runtime/sim/world.h"

namespace ros2s::fs {
namespace {

// Counts requests, and can claim fewer features than the store below has.
class CountingStore final : public object::ForwardingStore {
  public:
    CountingStore(Reactor& reactor, object::ObjectStore& below)
        : ForwardingStore(below), reactor_(reactor) {}
    object::Features claimed{.multi_object_transactions = true, .conditions = true, .chains = true};
    uint64_t fetches = 0, items = 0, chains = 0, updates = 0, operations = 0, conditions = 0,
             queries = 0, lists = 0, operations_most = 0;
    std::optional<uint64_t> full_at;  // no space for this chunk of any file
    Code full_code = Code::no_space;
    Duration trip{};  // the time of each request
    void reset() {
        fetches = items = chains = updates = operations = conditions = 0;
        queries = lists = operations_most = 0;
    }

    std::set<Uuid> owners;  // of the updates' names

    // Before the update with this number, another client makes an update under the same name.
    uint64_t robbed = 0;

    object::Features features() const override { return claimed; }
    Task<Result<>> fetch(const Call& call, object::ContainerId container,
                         std::span<FetchItem> wanted) override {
        ++fetches;
        items += wanted.size();
        co_await pass();
        co_return co_await below().fetch(call, container, wanted);
    }
    Task<Result<Commit>> update(const Call& call, object::ContainerId container,
                                const object::Transaction& transaction) override {
        ++updates;
        co_await pass();
        if (!transaction.id.client.is_nil()) owners.insert(transaction.id.owner);
        operations += transaction.operations.size();
        conditions += transaction.conditions.size();
        operations_most = std::max<uint64_t>(operations_most, transaction.operations.size());
        for (const Operation& operation : transaction.operations) {
            const bool data = operation.kind == Operation::Kind::write;
            if (data && full_at && operation.dkey.number() == *full_at) {
                co_return fail(full_code);
            }
        }
        if (robbed != 0 && transaction.id.sequence == robbed) {
            object::Transaction theirs{.id = transaction.id, .is_new = true};
            theirs.id.digest = 0;
            EXPECT_TRUE(co_await below().update(call, container, theirs));
        }
        co_return co_await below().update(call, container, transaction);
    }
    Task<Result<object::ListReply>> list(const Call& call, object::ContainerId container,
                                         const object::ListRequest& request) override {
        ++lists;
        return below().list(call, container, request);
    }
    Task<Result<QueryReply>> query(const Call& call, object::ContainerId container, ObjectId object,
                                   const Akey& akey) override {
        ++queries;
        co_await pass();
        co_return co_await below().query(call, container, object, akey);
    }

    Task<Result<>> fetch_chain(const Call& call, object::ContainerId container,
                               const object::Holder& holder, std::span<FetchItem> wanted,
                               std::span<object::Link> links) override {
        ++chains;
        co_await pass();
        co_return co_await below().fetch_chain(call, container, holder, wanted, links);
    }

  private:
    Task<> pass() {
        if (trip > Duration{}) co_await sleep_for(reactor_, trip);
    }
    Reactor& reactor_;
};

class DfsMountTest : public testing::Test {
  protected:
    using Outcome = std::optional<Code>;
    void SetUp() override { world_.run(make_container()); }
    Task<> make_container() {
        container_ =
            (co_await store_.create_container(call_, {.label = "c", .chunk_bytes = 8192}))->id;
    }
    Outcome format() {
        report_ = {};
        return outcome_of(world_.run(
            Dfs::format(call_, store_, container_, world_.core(), {.uid = 7, .gid = 8}, report_)));
    }
    template <class T>
    static Outcome outcome_of(const Result<T>& result) {
        return result ? Outcome{} : Outcome{result.error().code};
    }
    Outcome mount(DfsOptions options = {}) {
        report_ = {};
        auto mounted =
            world_.run(Dfs::mount(call_, store_, container_, world_.core(), options, report_));
        if (mounted) fs_ = std::move(*mounted);
        return outcome_of(mounted);
    }
    void unmount() {
        world_.run(fs_->close_all());
        fs_.reset();
    }
    void start(DfsOptions options = {}) {
        ASSERT_EQ(format(), std::nullopt);
        ASSERT_EQ(mount(options), std::nullopt);
    }
    template <class Record>
    void put_record(NodeId node, Akey akey, const Record& record) {
        object::Transaction transaction;
        transaction.operations.push_back(put(object_of(node), record_dkey(), akey, record));
        ASSERT_TRUE(world_.run(store_.update(call_, container_, transaction)).has_value());
    }
    Opened create(std::string name) {
        return *world_.run(
            fs_->create(call_, root_node, name, 0644, {.read = true, .write = true}, {}));
    }
    void write(FileHandle handle, uint64_t bytes, uint64_t offset) {
        const std::string text(bytes, 'x');
        ASSERT_TRUE(world_.run(fs_->pwrite(call_, handle, Window::local(as_bytes(text)), offset)));
    }
    uint64_t read(FileHandle handle, uint64_t bytes, uint64_t offset) {
        std::string text(bytes, '?');
        return *world_.run(fs_->pread(
            call_, handle, Window::local(std::as_writable_bytes(std::span(text))), offset));
    }

    Task<> pass(Duration duration) { co_await sleep_for(world_.core(), duration); }

    sim::World world_{1};
    object::MemoryStore memory_{world_.core()};
    CountingStore store_{world_.core(), memory_};
    object::ContainerId container_;
    Call call_;
    Report report_;
    std::unique_ptr<Dfs> fs_;
};

TEST_F(DfsMountTest, WantsAFileSystemInTheContainer) {
    EXPECT_EQ(mount(), Code::not_found);
    EXPECT_NE(report_.text().find("no file system"), std::string::npos) << report_.text();
    container_ = {};
    EXPECT_EQ(format(), Code::not_found);
    EXPECT_FALSE(report_.empty());
}

TEST_F(DfsMountTest, FormatsOnce) {
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

TEST_F(DfsMountTest, RefusesStoresThatLackWhatItNeeds) {
    store_.claimed.conditions = false;
    EXPECT_EQ(format(), Code::unsupported);
    EXPECT_NE(report_.text().find("conditional transactions"), std::string::npos);
    store_.claimed = {.multi_object_transactions = false, .conditions = true};
    EXPECT_EQ(mount(), Code::unsupported);
    EXPECT_NE(report_.text().find("several objects"), std::string::npos);
}

TEST_F(DfsMountTest, RefusesWhatItDoesNotKnow) {
    ASSERT_EQ(format(), std::nullopt);
    put_record(root_node, superblock_akey(), Superblock{.format = 2, .chunk_bytes = 8192});
    EXPECT_EQ(mount(), Code::bad_version);
    EXPECT_NE(report_.text().find("format 2"), std::string::npos) << report_.text();
    put_record(root_node, superblock_akey(), Superblock{.features_needed = 4, .chunk_bytes = 8192});
    EXPECT_EQ(mount(), Code::bad_version);
    EXPECT_NE(report_.text().find("0x4"), std::string::npos) << report_.text();
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

TEST_F(DfsMountTest, RefusesRecordsThatAreNone) {
    start();
    const NodeId node = create("file").attributes.node;
    put_record(node, inode_akey(), EntryRecord{});
    EXPECT_EQ(outcome_of(world_.run(fs_->get_attributes(call_, node))), Code::corrupt);
    put_record(node, inode_akey(), InodeRecord{.version = 3});
    EXPECT_EQ(outcome_of(world_.run(fs_->get_attributes(call_, node))), Code::bad_version);
    unmount();
}

// The reason for DFS's speed: a small read is one item, a small write one operation, and no more.
TEST_F(DfsMountTest, ASmallReadOrWriteIsOneRequest) {
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

TEST_F(DfsMountTest, AttributesOfANodeAreBounded) {
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
TEST_F(DfsMountTest, AnArrayIsNoAttribute) {
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

TEST_F(DfsMountTest, AListingSkipsWhatIsNoEntry) {
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

TEST_F(DfsMountTest, KeysThatAreNoEntriesAreFoundAndFreed) {
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

TEST_F(DfsMountTest, ReadManyIsAFewBatches) {
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
    EXPECT_EQ(store_.queries, 100u) << "side by side";
    unmount();
}

TEST_F(DfsMountTest, TracesItsReadsAndWrites) {
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

TEST_F(DfsMountTest, AWriteThatFindsNoSpaceLeavesItsBeginning) {
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
TEST_F(DfsMountTest, AnAppendThatIsRefusedTellsItsBeginning) {
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

TEST_F(DfsMountTest, AWholePathIsOneRequest) {
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
TEST_F(DfsMountTest, ARenameTakesTwoTrips) {
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

TEST_F(DfsMountTest, ManyNamesTakeFewRequests) {
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

// In steps of four chunks, by their number or by their bytes.
class DfsSteps : public DfsMountTest, public testing::WithParamInterface<DfsOptions> {};
INSTANTIATE_TEST_SUITE_P(Of, DfsSteps,
                         testing::Values(DfsOptions{.punch_chunks_max = 4},
                                         DfsOptions{.punch_bytes_max = uint64_t{4} * 8192}));

TEST_P(DfsSteps, RemoveALargeFile) {
    start(GetParam());
    const Opened file = create("file");
    const uint64_t free_before = world_.run(fs_->space(call_))->free_bytes;
    write(file.handle, 30 * 8192, 0);
    ASSERT_TRUE(world_.run(fs_->close(call_, file.handle)).has_value());
    store_.reset();
    ASSERT_TRUE(world_.run(fs_->unlink(call_, root_node, "file")).has_value());
    EXPECT_GE(store_.updates, 7u);
    EXPECT_EQ(world_.run(fs_->space(call_))->free_bytes, free_before);
    EXPECT_EQ(outcome_of(world_.run(fs_->get_attributes(call_, file.attributes.node))),
              Code::stale);
    unmount();
}

TEST_F(DfsMountTest, AVastSparseFileGoesInFewSteps) {
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

// A file's record names a directory that has one of its names, through every change of its names.
TEST_F(DfsMountTest, AFileKnowsADirectoryThatHasIt) {
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

TEST_F(DfsMountTest, OrphansOfALostMountAreReapedByTheNext) {
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
    EXPECT_EQ(world_.run((*next)->space(call_))->free_bytes, free_before);
    EXPECT_EQ(outcome_of(world_.run((*next)->get_attributes(call_, file.attributes.node))),
              Code::stale);
    world_.run((*next)->close_all());
    unmount();
}

// During the time of grace they exist for clients that open them again, until the last close.
TEST_F(DfsMountTest, OrphansThatAreOpenedAgainStay) {
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
    // The same for one that loses its name now, and may be open in a client that this mount does
    // not know.
    const NodeId late = world_.run((*next)->mknod(call_, root_node, "late", S_IFREG, 0, {}))->node;
    ASSERT_TRUE(world_.run((*next)->unlink(call_, root_node, "late")).has_value());
    EXPECT_EQ(world_.run((*next)->get_attributes(call_, late))->links, 0U);
    world_.run(pass(std::chrono::seconds(61)));
    EXPECT_EQ(outcome_of(world_.run((*next)->get_attributes(call_, late))), Code::stale);
    EXPECT_EQ(attributes(kept), std::nullopt);
    EXPECT_EQ(attributes(dropped), Code::stale);
    ASSERT_TRUE(world_.run((*next)->close(call_, again->handle)).has_value());
    EXPECT_EQ(attributes(kept), Code::stale);
    world_.run((*next)->close_all());
    unmount();
}

// A mount that ends for a regular restart of its process leaves them, too.
TEST_F(DfsMountTest, OrphansAreLeftToTheNextMountWhereThatIsTold) {
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

TEST_F(DfsMountTest, AReadOnlyPoolMountsForReading) {
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

TEST_F(DfsMountTest, NodeIdsAreNotReusedByTheNextMount) {
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

TEST_F(DfsMountTest, MetricsCount) {
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
TEST_F(DfsMountTest, AnAnswerToAnothersRequestStopsItsUpdates) {
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
TEST_F(DfsMountTest, ItsNamesBelongToTheContainer) {
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
