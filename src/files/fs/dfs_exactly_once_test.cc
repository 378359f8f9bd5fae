// Calls that are repeated at another mount, as a host does when its DPU restarts. The store's reply
// decides, whatever other clients did in between.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "dfs.h"
#include "ros2s/object/forwarding_store.h"
#include "ros2s/object/test_support/memory_store.h"
#include "ros2s/runtime/sim/world.h"

namespace ros2s::fs {
namespace {

// Can forget the names of updates; the tests must detect that.
class Store final : public object::ForwardingStore {
  public:
    explicit Store(object::ObjectStore& below) : ForwardingStore(below) {}
    bool forgets = false;
    uint64_t replayed = 0;

    Task<Result<object::Commit>> update(const Call& call, object::ContainerId container,
                                        const object::Transaction& transaction) override {
        object::Transaction copy = transaction;
        if (forgets) copy.id = {};
        const auto done = co_await below().update(call, container, copy);
        if (done && done->replayed) ++replayed;
        co_return done;
    }
};

constexpr uint64_t chunk_bytes = 8192;

class DfsExactlyOnce : public testing::Test {
  protected:
    void SetUp() override { world_.run(start()); }
    void TearDown() override {
        world_.run(first_->close_all());
        world_.run(second_->close_all());
    }
    Task<> start() {
        container_ =
            (co_await store_.create_container({}, {.label = "c", .chunk_bytes = chunk_bytes}))->id;
        Report report;
        EXPECT_TRUE(co_await Dfs::format({}, store_, container_, world_.core(), {}, report));
        first_ = co_await mount();
        second_ = co_await mount();
    }
    Task<std::unique_ptr<Dfs>> mount(const bool* leaves_orphans = nullptr) {
        Report report;
        auto mounted = co_await Dfs::mount(
            {}, store_, container_, world_.core(),
            {.write_bytes_max = chunk_bytes, .leaves_orphans = leaves_orphans}, report);
        EXPECT_TRUE(mounted) << report.text();
        co_return std::move(*mounted);
    }
    // The host's next update, sent for the first time; and sent again.
    Call next() {
        name_ = {.client = client_, .slot = 7, .sequence = name_.sequence + 1};
        return {.update = &name_};
    }
    Call again() { return {.update = &name_, .repeated = true}; }
    using Outcome = std::optional<Code>;
    template <class T>
    static Outcome outcome_of(const Result<T>& result) {
        return result ? Outcome{} : Outcome{result.error().code};
    }
    template <class T>
    T run(Task<T> task) {
        return world_.run(std::move(task));
    }
    NodeId made(FileSystem& files, const char* name) {
        return run(files.create({}, root_node, name, 0644, {.write = true}, {}))->attributes.node;
    }
    FileHandle opened(FileSystem& files, NodeId node, bool append = false) {
        return run(files.open({}, node, {.write = true, .append = append}))->handle;
    }
    Result<uint64_t> write(const Call& call, FileSystem& files, FileHandle handle,
                           std::string_view text, uint64_t offset = 0) {
        return run(files.pwrite(call, handle, Window::local(as_bytes(text)), offset));
    }
    std::string contents(NodeId node) {
        const FileHandle handle = run(first_->open({}, node, {}))->handle;
        std::string text(100'000, '?');
        const auto bytes = run(
            first_->pread({}, handle, Window::local(std::as_writable_bytes(std::span(text))), 0));
        text.resize(bytes.value_or(0));
        EXPECT_TRUE(run(first_->close({}, handle)));
        return text;
    }
    size_t objects() {
        const auto found =
            run(store_.list({}, container_, {.what = object::ListRequest::What::objects}));
        EXPECT_TRUE(found);
        return found ? found->entries.size() : 0;
    }
    // Longer than the mounts wait before they look for orphans.
    Task<> rest() { co_await sleep_for(world_.core(), std::chrono::minutes(1)); }
    static void expect_done(const std::vector<Result<>>& results) {
        for (const Result<>& result : results) EXPECT_TRUE(result) << describe(result.error());
    }
    Result<Attributes> look(const char* name) { return run(first_->lookup({}, root_node, name)); }

    sim::World world_{1};
    object::MemoryStore memory_{world_.core()};
    Store store_{memory_};
    object::ContainerId container_;
    Uuid client_ = Uuid::make(world_.secrets());
    UpdateName name_;
    std::unique_ptr<Dfs> first_, second_;
};

TEST_F(DfsExactlyOnce, RepeatedAppendIsDoneOnce) {
    const NodeId log = made(*first_, "log");
    EXPECT_EQ(write(next(), *first_, opened(*first_, log, true), "one "), Result<uint64_t>(4));
    EXPECT_EQ(write({}, *first_, opened(*first_, log, true), "two "), Result<uint64_t>(4));
    EXPECT_EQ(write(again(), *second_, opened(*second_, log, true), "one "), Result<uint64_t>(4));
    EXPECT_EQ(write(next(), *second_, opened(*second_, log, true), "three"), Result<uint64_t>(5));
    EXPECT_EQ(contents(log), "one two three");
    EXPECT_EQ(store_.replayed, 1U);
}

TEST_F(DfsExactlyOnce, StoreWithoutStoredRepliesIsDetected) {
    store_.forgets = true;
    const NodeId log = made(*first_, "log");
    (void)write(next(), *first_, opened(*first_, log, true), "one ");
    (void)write(again(), *second_, opened(*second_, log, true), "one ");
    EXPECT_EQ(contents(log), "one one ");
}

TEST_F(DfsExactlyOnce, RepetitionOfUndoneAppendIsDone) {
    const NodeId log = made(*first_, "log");
    (void)next();
    EXPECT_EQ(write(again(), *second_, opened(*second_, log, true), "one"), Result<uint64_t>(3));
    EXPECT_EQ(contents(log), "one");
    EXPECT_EQ(store_.replayed, 0U);
}

// Data that another client wrote in between stays, in each part.
TEST_F(DfsExactlyOnce, RepeatedWriteOverChunksIsDoneOnceInEach) {
    const NodeId file = made(*first_, "f");
    const std::string old(3 * chunk_bytes, 'o'), fresh(3 * chunk_bytes, 'n');
    EXPECT_TRUE(write(next(), *first_, opened(*first_, file), old));
    EXPECT_TRUE(write({}, *first_, opened(*first_, file), fresh));
    EXPECT_TRUE(write(again(), *second_, opened(*second_, file), old));
    EXPECT_EQ(contents(file), fresh);
    EXPECT_EQ(store_.replayed, 3U);
}

TEST_F(DfsExactlyOnce, RepeatedExclusiveCreateFindsItsFile) {
    const OpenFlags exclusive{.write = true, .exclusive = true};
    const auto created = run(first_->create(next(), root_node, "f", 0600, exclusive, {.uid = 5}));
    ASSERT_TRUE(created);
    const auto found = run(second_->create(again(), root_node, "f", 0600, exclusive, {.uid = 5}));
    ASSERT_TRUE(found) << describe(found.error());
    EXPECT_EQ(found->attributes.node, created->attributes.node);
    EXPECT_EQ(found->attributes.uid, 5U);
    // The next update with the same update name is another call.
    EXPECT_EQ(run(second_->create(next(), root_node, "f", 0600, exclusive, {})).error().code,
              Code::exists);
    EXPECT_EQ(run(second_->create(again(), root_node, "f", 0600, exclusive, {})).error().code,
              Code::exists);
}

// Its file is gone, and another client's file under its name is not its own.
TEST_F(DfsExactlyOnce, RepeatedCreateOfRemovedNameIsStale) {
    for (const bool taken : {false, true}) {
        ASSERT_TRUE(run(first_->mkdir(next(), root_node, "d", 0700, {})));
        ASSERT_TRUE(run(first_->rmdir({}, root_node, "d")));
        if (taken) ASSERT_TRUE(run(first_->mkdir({}, root_node, "d", 0711, {})));
        EXPECT_EQ(run(second_->mkdir(again(), root_node, "d", 0700, {})).error().code, Code::stale);
        EXPECT_EQ(look("d").has_value(), taken);
    }
}

TEST_F(DfsExactlyOnce, RepeatedCreateAddsNameOnce) {
    const auto directory = run(first_->mkdir(next(), root_node, "d", 0700, {}));
    EXPECT_EQ(run(second_->mkdir(again(), root_node, "d", 0700, {}))->node, directory->node);
    const auto text = run(first_->symlink(next(), root_node, "s", "target", {}));
    EXPECT_EQ(run(second_->symlink(again(), root_node, "s", "target", {}))->node, text->node);
    const auto pipe = run(first_->mknod(next(), root_node, "p", S_IFIFO | 0600, 0, {}));
    EXPECT_EQ(run(second_->mknod(again(), root_node, "p", S_IFIFO | 0600, 0, {}))->node,
              pipe->node);
    const NodeId file = made(*first_, "f");
    EXPECT_EQ(run(first_->link(next(), file, root_node, "g"))->links, 2U);
    EXPECT_EQ(run(second_->link(again(), file, root_node, "g"))->links, 2U);
    EXPECT_EQ(look("f")->links, 2U);
}

// A file that was created under the name meanwhile stays.
TEST_F(DfsExactlyOnce, RepeatedRemoveRemovesNameOnce) {
    for (const bool taken : {false, true}) {
        made(*first_, "f");
        ASSERT_TRUE(run(first_->unlink(next(), root_node, "f")));
        const NodeId other = taken ? made(*first_, "f") : NodeId{};
        EXPECT_TRUE(run(second_->unlink(again(), root_node, "f")));
        EXPECT_EQ(look("f").has_value(), taken);
        if (taken) EXPECT_EQ(look("f")->node, other);
    }
    ASSERT_TRUE(run(first_->mkdir({}, root_node, "d", 0700, {})));
    ASSERT_TRUE(run(first_->rmdir(next(), root_node, "d")));
    EXPECT_TRUE(run(second_->rmdir(again(), root_node, "d")));
    EXPECT_EQ(run(second_->rmdir(next(), root_node, "d")).error().code, Code::not_found);
}

// The file was open at a mount that has ended. Only the store knows the orphan, and that the
// repeated removal made it.
TEST_F(DfsExactlyOnce, RepeatedRemoveReapsOrphan) {
    constexpr bool leaves_orphans = true;
    for (const bool replaced : {false, true}) {
        const auto ended = run(mount(&leaves_orphans));
        made(*first_, "new");
        const NodeId file = made(*ended, "f");  // and stays open
        ASSERT_TRUE(write({}, *ended, opened(*ended, file), "content"));
        const auto remove = [&](const Call& call, FileSystem& files) {
            return run(replaced ? files.rename(call, root_node, "new", root_node, "f", {})
                                : files.unlink(call, root_node, "f"));
        };
        ASSERT_TRUE(remove(next(), *ended));
        world_.run(ended->close_all());
        memory_.session_ended(0);  // and its pins
        const size_t with_orphan = objects();
        world_.run(rest());
        EXPECT_EQ(objects(), with_orphan) << "somebody else knows of it";
        ASSERT_TRUE(remove(again(), *second_));
        world_.run(rest());
        // The file, and the object that lists orphans.
        EXPECT_EQ(objects(), with_orphan - 2);
    }
}

// A repetition knows what the first execution did with each name, whether they shared transactions
// or were done one by one.
TEST_F(DfsExactlyOnce, RepeatedBatchOfNamesIsDoneOnce) {
    constexpr size_t count = 60;  // three groups of a removal
    std::vector<std::string> names;
    for (size_t i = 0; i < count; ++i) names.push_back(fmt::format("f{}", 100 + i));
    const std::vector<std::string_view> all(names.begin(), names.end());
    for (const bool one_by_one : {false, true}) {
        SCOPED_TRACE(one_by_one);
        const auto is_odd = [&](size_t i) { return one_by_one && i == 30; };
        const auto expect = [&](const char* what, const std::vector<Result<>>& results, Code code) {
            SCOPED_TRACE(what);
            ASSERT_EQ(results.size(), count);
            for (size_t i = 0; i < count; ++i) {
                const Outcome wanted = is_odd(i) ? Outcome(code) : Outcome();
                EXPECT_EQ(results[i] ? Outcome() : Outcome(results[i].error().code), wanted)
                    << names[i];
            }
        };
        const size_t before = objects();
        const auto add = [&](std::string_view name) {
            return run(first_->mknod({}, root_node, name, S_IFREG | 0600, 0, {}))->node;
        };
        if (one_by_one) (void)add(names[30]);
        expect("create", run(first_->create_many(next(), root_node, all, 0644, {})), Code::exists);
        const NodeId made_first = look("f110")->node;
        // Meanwhile others replace one file.
        EXPECT_TRUE(run(first_->unlink({}, root_node, "f120")));
        const NodeId theirs = add("f120");
        store_.replayed = 0;
        expect("create again", run(second_->create_many(again(), root_node, all, 0644, {})),
               Code::exists);
        EXPECT_GT(store_.replayed, 0U);
        EXPECT_EQ(look("f110")->node, made_first);
        EXPECT_EQ(look("f120")->node, theirs);

        if (one_by_one) EXPECT_TRUE(run(first_->unlink({}, root_node, names[30])));
        expect("unlink", run(first_->unlink_many(next(), root_node, all)), Code::not_found);
        const NodeId later = add("f140");
        store_.replayed = 0;
        expect("unlink again", run(second_->unlink_many(again(), root_node, all)), Code::not_found);
        EXPECT_GT(store_.replayed, 0U);
        EXPECT_EQ(look("f140")->node, later);
        EXPECT_TRUE(run(first_->unlink({}, root_node, "f140")));
        run(rest());
        EXPECT_EQ(objects(), before);
    }
}

// The first execution ended after the first name, which it had done by itself.
TEST_F(DfsExactlyOnce, NameDoneAloneIsNotTakenForBatch) {
    const std::vector<std::string_view> names{"a", "b", "c"};
    const Call first = next();
    const std::span one = std::span(names).first(1);
    expect_done(run(first_->Namespace::create_many(first, root_node, one, 0644, {})));
    const NodeId made_first = look("a")->node;
    expect_done(run(second_->create_many(again(), root_node, names, 0644, {})));
    EXPECT_EQ(look("a")->node, made_first);
    for (const char* name : {"b", "c"}) EXPECT_TRUE(look(name)) << name;

    const Call removal = next();
    expect_done(run(first_->Namespace::unlink_many(removal, root_node, one)));
    expect_done(run(second_->unlink_many(again(), root_node, names)));
    for (const std::string_view name : names) {
        EXPECT_EQ(outcome_of(run(first_->lookup({}, root_node, name))), Code::not_found) << name;
    }
}

TEST_F(DfsExactlyOnce, RepeatedPathCreateIsDoneOnce) {
    EXPECT_TRUE(run(first_->mkdir({}, root_node, "d", 0755, {})));
    for (const bool exclusive : {true, false}) {
        const std::string path = exclusive ? "/d/one" : "/d/two";
        const PathOpen how{.flags = {.write = true, .truncate = true, .exclusive = exclusive},
                           .creates = true,
                           .mode = 0644};
        const auto opened_first = run(first_->open_path(next(), path, how));
        ASSERT_TRUE(opened_first);
        EXPECT_EQ(write({}, *first_, opened_first->handle, "kept"), Result<uint64_t>(4));
        // It does not truncate data that was written since.
        const auto opened_again = run(second_->open_path(again(), path, how));
        ASSERT_TRUE(opened_again) << path;
        EXPECT_EQ(opened_again->attributes.node, opened_first->attributes.node);
        EXPECT_EQ(contents(opened_first->attributes.node), "kept");
    }
}

// A creation has the mount's cached knowledge of the directory as a condition.
TEST_F(DfsExactlyOnce, DirectoryChangedByOthersIsSeenByCreate) {
    const auto dir = run(first_->mkdir({}, root_node, "d", 0755, {}));
    ASSERT_TRUE(dir);
    const auto create = [&](const char* name) {
        return run(first_->mknod({}, dir->node, name, S_IFREG | 0644, 0, {.uid = 1, .gid = 2}));
    };
    ASSERT_TRUE(create("before"));
    EXPECT_TRUE(run(second_->set_attributes({}, dir->node, {.mode = 02755, .gid = 55})));
    const auto made_after = create("after");
    ASSERT_TRUE(made_after);
    EXPECT_EQ(made_after->gid, 55U);
    EXPECT_EQ(outcome_of(create("after")), Outcome(Code::exists));
    for (const char* name : {"before", "after"}) {
        EXPECT_TRUE(run(second_->unlink({}, dir->node, name)));
    }
    EXPECT_TRUE(run(second_->rmdir({}, root_node, "d")));
    EXPECT_EQ(outcome_of(create("late")), Outcome(Code::not_found));
}

TEST_F(DfsExactlyOnce, RepeatedRenameIsDoneOnce) {
    const NodeId moved = made(*first_, "a");
    made(*first_, "b");
    ASSERT_TRUE(run(first_->rename(next(), root_node, "a", root_node, "b", {})));
    EXPECT_TRUE(run(second_->rename(again(), root_node, "a", root_node, "b", {})));
    EXPECT_EQ(look("b")->node, moved);
    // Another file has the old name: it is not moved.
    ASSERT_TRUE(run(first_->rename(next(), root_node, "b", root_node, "c", {})));
    const NodeId other = made(*first_, "b");
    EXPECT_TRUE(run(second_->rename(again(), root_node, "b", root_node, "c", {})));
    EXPECT_EQ(look("b")->node, other);
    EXPECT_EQ(look("c")->node, moved);
    // An exchange that is done twice changes nothing.
    ASSERT_TRUE(run(first_->rename(next(), root_node, "b", root_node, "c", {.exchange = true})));
    EXPECT_TRUE(run(second_->rename(again(), root_node, "b", root_node, "c", {.exchange = true})));
    EXPECT_EQ(look("b")->node, moved);
}

TEST_F(DfsExactlyOnce, RepeatedRenameDoesNotMoveItsWhiteout) {
    const NodeId moved = made(*first_, "a");
    const FileSystem::RenameFlags flags{.whiteout = true, .owner = {.uid = 1, .gid = 2}};
    ASSERT_TRUE(run(first_->rename(next(), root_node, "a", root_node, "b", flags)));
    EXPECT_TRUE(run(second_->rename(again(), root_node, "a", root_node, "b", flags)));
    EXPECT_EQ(look("b")->node, moved);
    const auto left = look("a");
    ASSERT_TRUE(left);
    EXPECT_TRUE(is_whiteout(left->mode, left->device));
    EXPECT_EQ(left->uid, 1U);
    EXPECT_EQ(left->gid, 2U);
}

TEST_F(DfsExactlyOnce, RepeatedTruncateIsDoneOnce) {
    const NodeId file = made(*first_, "f");
    ASSERT_TRUE(write({}, *first_, opened(*first_, file), std::string(20'000, 'x')));
    const SetAttributes changes{.mode = 0600, .size = 10'000};
    ASSERT_TRUE(run(first_->set_attributes(next(), file, changes)));
    ASSERT_TRUE(run(first_->set_attributes({}, file, {.mode = 0640})));
    ASSERT_TRUE(write({}, *first_, opened(*first_, file, true), "more"));
    EXPECT_EQ(run(second_->set_attributes(again(), file, changes))->size, 10'004U);
    EXPECT_EQ(look("f")->mode & 0777, 0640U);
    // The same by opening, with and without creating the file.
    const OpenFlags truncate{.write = true, .truncate = true};
    for (const char* name : {"f", "new"}) {
        ASSERT_TRUE(run(first_->create(next(), root_node, name, 0644, truncate, {})));
        const NodeId node = look(name)->node;
        ASSERT_TRUE(write({}, *first_, opened(*first_, node), "kept"));
        const auto again_opened =
            run(second_->create(again(), root_node, name, 0644, truncate, {}));
        ASSERT_TRUE(again_opened) << describe(again_opened.error());
        EXPECT_EQ(contents(node), "kept");
    }
}

TEST_F(DfsExactlyOnce, RepeatedPunchIsDoneOnce) {
    const NodeId file = made(*first_, "f");
    const std::string bytes(3 * chunk_bytes, 'x');
    ASSERT_TRUE(write({}, *first_, opened(*first_, file), bytes));
    ASSERT_TRUE(run(first_->punch_hole(next(), opened(*first_, file), 100, 2 * chunk_bytes)));
    ASSERT_TRUE(write({}, *first_, opened(*first_, file), bytes));
    EXPECT_TRUE(run(second_->punch_hole(again(), opened(*second_, file), 100, 2 * chunk_bytes)));
    EXPECT_EQ(contents(file), bytes);
}

TEST_F(DfsExactlyOnce, RepeatedXattrChangeIsDoneOnce) {
    const NodeId file = made(*first_, "f");
    const auto set = [&](const Call& call, FileSystem& files, const char* value, SetXattr how) {
        return run(files.set_xattr(call, file, "user.x", as_bytes(std::string_view(value)), how));
    };
    ASSERT_TRUE(set(next(), *first_, "one", SetXattr::create));
    EXPECT_TRUE(set(again(), *second_, "one", SetXattr::create));
    ASSERT_TRUE(set(next(), *first_, "two", SetXattr::any));
    ASSERT_TRUE(set({}, *first_, "three", SetXattr::any));
    EXPECT_TRUE(set(again(), *second_, "two", SetXattr::any));
    EXPECT_EQ(run(first_->get_xattr({}, file, "user.x")), Result<std::string>("three"));
    ASSERT_TRUE(run(first_->remove_xattr(next(), file, "user.x")));
    EXPECT_TRUE(run(second_->remove_xattr(again(), file, "user.x")));
    EXPECT_EQ(run(second_->remove_xattr(next(), file, "user.x")),
              Result<>(fail(Code::no_attribute)));
}

// A named append must be one transaction, because the rest would have no name.
TEST_F(DfsExactlyOnce, AppendOverOneTransactionIsRefused) {
    const NodeId log = made(*first_, "log");
    const std::string large((object::transaction_operations_max + 1) * chunk_bytes, 'x');
    EXPECT_EQ(write(next(), *first_, opened(*first_, log, true), large).error().code,
              Code::too_large);
    EXPECT_EQ(look("log")->size, 0U);
}

}  // namespace
}  // namespace ros2s::fs
