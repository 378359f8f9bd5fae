// Two mounts of one container: neither punches a file that the other has open.
#include <gtest/gtest.h>

#include "dfs_mount.h"
#include "ros2s/object/forwarding_store.h"
#include "ros2s/object/test_support/memory_store.h"
#include "ros2s/runtime/sim/world.h"

namespace ros2s::fs {
namespace {

// A server that counts requests. A restart makes it forget pins.
class FarStore final : public object::ForwardingStore {
  public:
    using ForwardingStore::ForwardingStore;
    uint64_t era = 1;
    uint64_t requests = 0;
    bool loses_answers = false;  // of updates, which are done
    // Runs once, within the next fetch of several items, after the first of them was read.
    std::function<Task<>()> meanwhile;
    // Runs once, after the next update, which is then repeated.
    std::function<Task<>()> before_repetition;
    // Run once, before the next query or chain of queries, or after the next query.
    std::function<Task<>()> before_query, after_query;

    void restart() {
        below().session_ended(0);
        ++era;
    }
    uint64_t pins_era() const override { return era; }
    Task<Result<>> fetch(const Call& call, object::ContainerId container,
                         std::span<FetchItem> items) override {
        ++requests;
        if (meanwhile && items.size() > 1) {
            const auto run = std::exchange(meanwhile, nullptr);
            ROS2S_CO_TRY(co_await below().fetch(call, container, items.first(1)));
            co_await run();
            co_return co_await below().fetch(call, container, items.subspan(1));
        }
        co_return co_await below().fetch(call, container, items);
    }
    Task<Result<Commit>> update(const Call& call, object::ContainerId container,
                                const object::Transaction& transaction) override {
        ++requests;
        if (before_repetition) {
            const auto run = std::exchange(before_repetition, nullptr);
            ROS2S_CO_TRY(co_await below().update(call, container, transaction));
            co_await run();
            object::Transaction again = transaction;
            again.is_new = false;
            co_return co_await below().update(call, container, again);
        }
        const auto done = co_await below().update(call, container, transaction);
        co_return loses_answers ? Result<Commit>(fail(Code::disconnected)) : done;
    }
    Task<Result<QueryReply>> query(const Call& call, object::ContainerId container, ObjectId object,
                                   const Akey& akey) override {
        ++requests;
        if (before_query) co_await std::exchange(before_query, nullptr)();
        auto reply = co_await below().query(call, container, object, akey);
        if (after_query) co_await std::exchange(after_query, nullptr)();
        co_return reply;
    }
    Task<Result<>> fetch_chain(const Call& call, object::ContainerId container,
                               const object::Holder& holder, std::span<FetchItem> items,
                               std::span<Link> links) override {
        ++requests;
        const bool is_query = links.front().kind == Link::Kind::query;
        if (is_query && before_query) co_await std::exchange(before_query, nullptr)();
        co_return co_await below().fetch_chain(call, container, holder, items, links);
    }
    Task<Result<bool>> unpin(const Call& call, object::ContainerId container,
                             const object::Holder& holder, ObjectId object) override {
        ++requests;
        return below().unpin(call, container, holder, object);
    }
    Task<Result<bool>> pinned_again(const Call&, object::ContainerId,
                                    const object::Holder& holder) override {
        const auto holds = [&](ObjectId object) {
            object::Transaction asks{.holder = holder};
            asks.conditions.push_back({.kind = Condition::Kind::pinned, .object = object});
            return asks;
        };
        returned.push_back(0);
        for (const ObjectId object : watched) {
            const object::Transaction asks = holds(object);
            if (co_await below().update({}, container, asks)) ++returned.back();
        }
        co_return refused_a_punch;
    }
    // For each mount that said that it has pinned again: how many of these it has pinned.
    std::vector<size_t> returned;
    std::vector<ObjectId> watched;
    object::ContainerId container;
    bool refused_a_punch = false;
};

class DfsPins : public testing::Test {
  protected:
    static constexpr uint64_t chunk = 8192;
    // After this time an orphan is removed.
    static constexpr Duration removed_after = std::chrono::seconds(4);

    void SetUp() override {
        world_.run(make_container());
        a_ = mount();
        b_ = mount();
        // Done now, so that later counts do not include the first requests of a mount, such as for
        // node ids.
        for (const auto& each : {a_.get(), b_.get()}) {
            close(*each, create(*each, "x"));
            ASSERT_TRUE(world_.run(each->unlink(call_, root_node, "x")));
        }
        pass(removed_after);
        empty_ = free_bytes();
    }
    void TearDown() override {
        for (auto* mounted : {&a_, &b_}) {
            if (*mounted != nullptr) world_.run((*mounted)->close_all());
            mounted->reset();
        }
    }
    Task<> make_container() {
        container_ =
            (co_await store_.create_container(call_, {.label = "c", .chunk_bytes = chunk}))->id;
        EXPECT_TRUE(co_await Dfs::format(call_, store_, container_, world_.core(), {}, report_));
    }
    std::unique_ptr<Dfs> mount(DfsOptions options = {}) {
        auto mounted =
            world_.run(Dfs::mount(call_, store_, container_, world_.core(), options, report_));
        EXPECT_TRUE(mounted) << report_.text();
        return std::move(*mounted);
    }
    void unmount(std::unique_ptr<Dfs>& mounted) {
        world_.run(mounted->close_all());
        mounted.reset();
    }
    FileHandle create(Dfs& mounted, std::string name) {
        return world_
            .run(mounted.create(call_, root_node, name, 0644, {.read = true, .write = true}, {}))
            ->handle;
    }
    Opened create_nameless(Dfs& mounted) {
        return *world_.run(mounted.create(call_, root_node, "", 0600,
                                          {.read = true, .write = true, .nameless = true}, {}));
    }
    FileHandle open(Dfs& mounted, std::string name) {
        const auto there = world_.run(mounted.lookup(call_, root_node, name));
        return world_.run(mounted.open(call_, there->node, {.read = true, .write = true}))->handle;
    }
    void close(Dfs& mounted, FileHandle handle) {
        EXPECT_TRUE(world_.run(mounted.close(call_, handle)));
    }
    Result<uint64_t> write(Dfs& mounted, FileHandle handle, std::string text, uint64_t offset = 0) {
        return world_.run(mounted.pwrite(call_, handle, Window::local(as_bytes(text)), offset));
    }
    Result<std::string> read(Dfs& mounted, FileHandle handle, size_t length = 100,
                             uint64_t offset = 0) {
        std::string text(length, '?');
        const auto count = world_.run(mounted.pread(
            call_, handle, Window::local(std::as_writable_bytes(std::span(text))), offset));
        if (!count) return fail(count.error());
        return text.substr(0, *count);
    }
    // By one mount, with the name alone.
    Result<std::string> read_named(Dfs& mounted, std::string name) {
        std::string text(100, '?');
        ReadManyItem item{.name = name,
                          .window = Window::local(std::as_writable_bytes(std::span(text)))};
        EXPECT_TRUE(world_.run(mounted.read_many(call_, root_node, {&item, 1})));
        if (!item.status) return fail(item.status.error());
        EXPECT_EQ(item.size, item.bytes);
        return text.substr(0, item.bytes);
    }
    uint64_t size_of(Dfs& mounted, std::string name) {
        return world_.run(mounted.lookup(call_, root_node, name))->size;
    }
    void unlink(Dfs& mounted, std::string name) {
        EXPECT_TRUE(world_.run(mounted.unlink(call_, root_node, name)));
    }
    void pass(Duration duration) { world_.run(wait(duration)); }
    Task<> wait(Duration duration) { co_await sleep_for(world_.core(), duration); }
    Task<> remove_f(Dfs& mounted) {
        EXPECT_TRUE(co_await mounted.unlink(call_, root_node, "f"));
        co_await wait(removed_after);
    }
    uint64_t free_bytes() { return world_.run(store_.space(call_, {}))->free_bytes; }
    // Reads and writes continue while it is open, and it is removed with the last handle.
    void expect_usable(Dfs& mounted, FileHandle handle, std::string before) {
        EXPECT_EQ(read(mounted, handle), Result<std::string>(before));
        EXPECT_EQ(write(mounted, handle, "after"), Result<uint64_t>(5));
        EXPECT_EQ(read(mounted, handle).value_or("").substr(0, 5), "after");
        EXPECT_LT(free_bytes(), empty_);
    }
    uint64_t cost(const std::function<void()>& doing) {
        const uint64_t before = store_.requests;
        doing();
        pass(std::chrono::milliseconds(10));
        return store_.requests - before;
    }

    sim::World world_{1};
    object::MemoryStore memory_{world_.core(), {.delay_max = std::chrono::microseconds(50)}};
    FarStore store_{memory_};
    object::ContainerId container_;
    Call call_;
    Report report_;
    std::unique_ptr<Dfs> a_, b_;
    uint64_t empty_ = 0;
};

TEST_F(DfsPins, FileUnlinkedByAnotherMountStaysUsable) {
    const FileHandle file = create(*a_, "f");
    ASSERT_TRUE(write(*a_, file, "before"));
    unlink(*b_, "f");
    EXPECT_FALSE(world_.run(a_->lookup(call_, root_node, "f")));
    expect_usable(*a_, file, "before");
    close(*a_, file);
    pass(removed_after);
    EXPECT_EQ(free_bytes(), empty_);
}

TEST_F(DfsPins, FileReplacedByAnotherMountStaysUsable) {
    const FileHandle file = create(*a_, "f");
    ASSERT_TRUE(write(*a_, file, "before"));
    close(*b_, create(*b_, "g"));
    EXPECT_TRUE(world_.run(b_->rename(call_, root_node, "g", root_node, "f", {})));
    expect_usable(*a_, file, "before");
    close(*a_, file);
    unlink(*b_, "f");
    pass(removed_after);
    EXPECT_EQ(free_bytes(), empty_);
}

TEST_F(DfsPins, FileOpenElsewhereIsNotReaped) {
    const FileHandle file = create(*a_, "f");
    ASSERT_TRUE(write(*a_, file, "before"));
    unlink(*a_, "f");
    unmount(b_);
    b_ = mount();
    pass(std::chrono::minutes(2));
    expect_usable(*a_, file, "before");
    close(*a_, file);
    pass(removed_after);
    EXPECT_EQ(free_bytes(), empty_);
}

TEST_F(DfsPins, LastOfTwoMountsReaps) {
    for (const bool a_first : {true, false}) {
        const FileHandle in_a = create(*a_, "f");
        ASSERT_TRUE(write(*a_, in_a, "before"));
        const FileHandle in_b = open(*b_, "f");
        unlink(*a_, "f");
        if (a_first) {
            close(*a_, in_a);
            expect_usable(*b_, in_b, "before");
            close(*b_, in_b);
        } else {
            close(*b_, in_b);
            expect_usable(*a_, in_a, "before");
            close(*a_, in_a);
        }
        pass(removed_after);
        EXPECT_EQ(free_bytes(), empty_) << a_first;
    }
}

TEST_F(DfsPins, NamelessFileOfADeadMountIsRemoved) {
    const bool dies = true;
    auto dead = mount({.leaves_orphans = &dies});
    ASSERT_TRUE(write(*dead, create_nameless(*dead).handle, "content"));
    unmount(dead);
    EXPECT_LT(free_bytes(), empty_);
    store_.restart();  // its session ends
    pass(std::chrono::seconds(31));
    EXPECT_EQ(free_bytes(), empty_);
}

TEST_F(DfsPins, NamelessFileOpenElsewhereIsNotReaped) {
    const Opened file = create_nameless(*a_);
    ASSERT_TRUE(write(*a_, file.handle, "before"));
    unmount(b_);
    b_ = mount();
    store_.restart();
    pass(std::chrono::minutes(2));
    expect_usable(*a_, file.handle, "before");
    EXPECT_TRUE(world_.run(a_->link(call_, file.attributes.node, root_node, "f")));
    close(*a_, file.handle);
    pass(removed_after);
    EXPECT_EQ(read_named(*b_, "f").value_or("").substr(0, 5), "after");
    unlink(*b_, "f");
    pass(removed_after);
    EXPECT_EQ(free_bytes(), empty_);
}

// Larger than one transaction punches: it is removed in steps, and cannot be found after the first.
TEST_F(DfsPins, LargeFileIsRemovedInSteps) {
    unmount(a_);
    a_ = mount({.punch_chunks_max = 2});
    const FileHandle file = create(*a_, "f");
    for (uint64_t i = 0; i < 9; ++i) ASSERT_TRUE(write(*a_, file, "before", i * chunk));
    const FileHandle in_b = open(*b_, "f");
    unlink(*a_, "f");
    close(*a_, file);
    EXPECT_EQ(write(*b_, in_b, "after", 8 * chunk), Result<uint64_t>(5));
    expect_usable(*b_, in_b, read(*b_, in_b).value_or(""));
    unmount(b_);
    b_ = mount({.punch_chunks_max = 2});
    pass(removed_after);
    EXPECT_EQ(free_bytes(), empty_);
}

// A restart of the store forgets pins. Existing files are pinned again before they are written to.
TEST_F(DfsPins, AfterRestartExistingFileIsPinnedAgain) {
    const FileHandle file = create(*a_, "f");
    ASSERT_TRUE(write(*a_, file, "before"));
    store_.restart();
    EXPECT_EQ(write(*a_, file, "after!"), Result<uint64_t>(6));
    unlink(*b_, "f");
    expect_usable(*a_, file, "after!");
    close(*a_, file);
    // Also for a file that is not used meanwhile.
    const FileHandle idle = create(*a_, "g");
    ASSERT_TRUE(write(*a_, idle, "before"));
    store_.restart();
    pass(std::chrono::seconds(5));
    unlink(*b_, "g");
    expect_usable(*a_, idle, "before");
    close(*a_, idle);
    pass(removed_after);
    EXPECT_EQ(free_bytes(), empty_);
}

// An engine awaits its clients until they say so.
TEST_F(DfsPins, MountReportsThatPinsAreRestored) {
    store_.container = container_;
    std::vector<FileHandle> files;
    for (const char* name : {"f", "g", "h"}) {
        files.push_back(create(*a_, name));
        const auto there = world_.run(a_->lookup(call_, root_node, name));
        store_.watched.push_back(object_of(there->node));
    }
    store_.restart();
    pass(std::chrono::seconds(3));
    std::ranges::sort(store_.returned);
    EXPECT_EQ(store_.returned, (std::vector<size_t>{0, 3}));
    for (const FileHandle each : files) close(*a_, each);
    for (const char* name : {"f", "g", "h"}) unlink(*a_, name);
    pass(removed_after);
    EXPECT_EQ(free_bytes(), empty_);
    // If a punch was refused meanwhile, it is repeated now.
    const bool dies = true;
    auto dead = mount({.leaves_orphans = &dies});
    ASSERT_TRUE(write(*dead, create(*dead, "old"), "content"));
    unlink(*a_, "old");
    unmount(dead);
    EXPECT_LT(free_bytes(), empty_);
    store_.refused_a_punch = true;
    store_.restart();
    pass(removed_after);
    EXPECT_EQ(free_bytes(), empty_);
}

TEST_F(DfsPins, AfterRestartRemovedFileIsStale) {
    const FileHandle file = create(*a_, "f");
    ASSERT_TRUE(write(*a_, file, "before"));
    store_.restart();
    unlink(*b_, "f");
    unmount(b_);  // it removes the file, before the pin is back
    EXPECT_EQ(write(*a_, file, "after"), Result<uint64_t>(fail(Code::stale)));
    EXPECT_EQ(read(*a_, file), Result<std::string>(fail(Code::stale)));
    EXPECT_EQ(
        world_.run(a_->pwrite(call_, file, Window::local(as_bytes(std::string(30000, 'x'))), 0)),
        Result<uint64_t>(fail(Code::stale)));
    EXPECT_EQ(world_.run(a_->punch_hole(call_, file, 0, 4)), Result<>(fail(Code::stale)));
    EXPECT_EQ(free_bytes(), empty_);
    close(*a_, file);
}

// Its mount has died: the mount that unlinked the file checks again.
TEST_F(DfsPins, OrphanOfDeadMountIsSwept) {
    const bool dies = true;
    unmount(a_);
    a_ = mount({.leaves_orphans = &dies});
    ASSERT_TRUE(write(*a_, create(*a_, "f"), "before"));
    unlink(*b_, "f");
    unmount(a_);
    pass(std::chrono::seconds(31));
    EXPECT_LT(free_bytes(), empty_);
    store_.restart();  // its session ends
    world_.step_clock(-std::chrono::days(365));
    pass(std::chrono::seconds(31));
    EXPECT_EQ(free_bytes(), empty_);
}

TEST_F(DfsPins, MountWithoutReapingReapsNothing) {
    const bool dies = true;
    unmount(a_);
    a_ = mount({.leaves_orphans = &dies});
    ASSERT_TRUE(write(*a_, create(*a_, "f"), "before"));
    unlink(*a_, "f");
    unmount(a_);
    unmount(b_);
    store_.restart();
    b_ = mount({.reaps = false});
    pass(std::chrono::minutes(2));
    EXPECT_LT(free_bytes(), empty_);
    a_ = mount();
    EXPECT_EQ(free_bytes(), empty_);
}

TEST_F(DfsPins, FileThatIsRemovedDuringACheckIsNoLeak) {
    close(*a_, create(*a_, "f"));
    store_.meanwhile = [this] { return remove_f(*a_); };
    EXPECT_EQ(world_.run(b_->check(call_, false))->objects, 0U);
    EXPECT_EQ(store_.meanwhile, nullptr);
}

// Chunks of a node that was punched, as written by a mount that did not know of the punch.
TEST_F(DfsPins, LeakIsFoundAndFreed) {
    const FileHandle kept = create(*a_, "kept"), orphan = create(*a_, "orphan");
    EXPECT_TRUE(write(*a_, kept, "x"));
    EXPECT_TRUE(write(*a_, orphan, "x"));
    EXPECT_TRUE(world_.run(a_->mkdir(call_, root_node, "d", 0755, {})));
    EXPECT_TRUE(world_.run(a_->symlink(call_, root_node, "link", "to", {})));
    unlink(*a_, "orphan");
    EXPECT_EQ(world_.run(b_->check(call_, true))->objects, 0U);
    const uint64_t before = free_bytes();
    for (const uint64_t node : {5000, 5001}) {
        object::Transaction lost;
        for (uint64_t at = 0; at < 3; ++at) {
            lost.operations.push_back({.kind = Operation::Kind::write,
                                       .object = object_of({node}),
                                       .dkey = chunk_dkey(at),
                                       .akey = data_akey(),
                                       .extent = {0, 1},
                                       .window = Window::local(as_bytes(std::string_view("x")))});
        }
        ASSERT_TRUE(world_.run(store_.update(call_, container_, lost)));
    }
    const auto found = world_.run(b_->check(call_, false));
    EXPECT_EQ(found->objects, 2U);
    EXPECT_EQ(found->bytes, 6 * 4096U);
    EXPECT_EQ(free_bytes(), before - 6 * 4096);
    EXPECT_EQ(world_.run(b_->check(call_, true))->objects, 2U);
    EXPECT_EQ(free_bytes(), before);
    EXPECT_EQ(world_.run(b_->check(call_, false))->objects, 0U);
    EXPECT_EQ(read(*a_, orphan), Result<std::string>("x"));
    close(*a_, orphan);
    close(*a_, kept);
}

Task<> remove_f(Dfs& mount) { EXPECT_TRUE(co_await mount.unlink({}, root_node, "f")); }
Task<> remove_f_at_once(Dfs& mount) {
    co_await remove_f(mount);
    co_await mount.close_all();
}

// In requests to the store, for a file that is open only here.
TEST_F(DfsPins, FileRemovedDuringReadManyIsNotFound) {
    const FileHandle file = create(*a_, "f");
    ASSERT_TRUE(write(*a_, file, "before"));
    close(*a_, file);
    pass(removed_after);
    store_.meanwhile = [this] { return remove_f_at_once(*b_); };
    EXPECT_EQ(read_named(*a_, "f"), Result<std::string>(fail(Code::not_found)));
    EXPECT_EQ(store_.meanwhile, nullptr) << "a file's record and contents come in one fetch";
}

Task<> write_f(Dfs& mount, std::string text, uint64_t offset) {
    const auto there = co_await mount.lookup({}, root_node, "f");
    const auto opened = co_await mount.open({}, there->node, {.write = true});
    EXPECT_EQ(co_await mount.pwrite({}, opened->handle, Window::local(as_bytes(text)), offset),
              Result<uint64_t>(text.size()));
    EXPECT_TRUE(co_await mount.close({}, opened->handle));
}
Task<> truncate_f(Dfs& mount, uint64_t size) {
    const auto there = co_await mount.lookup({}, root_node, "f");
    EXPECT_TRUE(co_await mount.set_attributes({}, there->node, {.size = size}));
}
// The new contents are there before the next query.
Task<> write_f_anew(FarStore& store, Dfs& mount) {
    co_await truncate_f(mount, 0);
    store.before_query = [&mount] { return write_f(mount, "after!", 0); };
}

// While its size was queried and its contents were read, a file lost its contents.
TEST_F(DfsPins, FileTruncatedDuringReadManyShowsNoZeros) {
    close(*a_, create(*a_, "f"));
    world_.run(write_f(*a_, "before", 0));
    store_.meanwhile = [this] { return truncate_f(*b_, 0); };
    EXPECT_EQ(read_named(*a_, "f"), Result<std::string>(""));
    EXPECT_EQ(store_.meanwhile, nullptr);
    // Written again, up to the same size.
    world_.run(write_f(*a_, "before", 0));
    store_.meanwhile = [this] { return write_f_anew(store_, *b_); };
    EXPECT_EQ(read_named(*a_, "f"), Result<std::string>("after!"));
    // A hole is not an error, and what is in it is not read twice.
    world_.run(truncate_f(*a_, 0));
    world_.run(truncate_f(*a_, chunk + 3));
    world_.run(write_f(*a_, "x", 50));
    std::string sparse(100, '\0');
    sparse[50] = 'x';
    std::string text(100, '?');
    ReadManyItem item{.name = "f",
                      .window = Window::local(std::as_writable_bytes(std::span(text)))};
    EXPECT_EQ(cost([&] { (void)world_.run(a_->read_many(call_, root_node, {&item, 1})); }), 5U);
    EXPECT_TRUE(item.status);
    EXPECT_EQ(item.size, chunk + 3);
    EXPECT_EQ(text, sparse);
}

TEST_F(DfsPins, FileTruncatedDuringReadShowsNoZeros) {
    const FileHandle file = create(*a_, "f");
    ASSERT_TRUE(write(*a_, file, "before"));
    store_.before_query = [this] { return write_f(*b_, std::string(44, 'x'), 6); };
    store_.after_query = [this] { return truncate_f(*b_, 0); };
    EXPECT_EQ(read(*a_, file), Result<std::string>(""));
    close(*a_, file);
}

// Where the data goes is not known to be free until it is there.
TEST_F(DfsPins, AppendOverwritesNothing) {
    const std::string text(3 * chunk, 'a');
    for (const std::string before : {"", "before"}) {
        const FileHandle file = create(*a_, "f");
        if (!before.empty()) ASSERT_TRUE(write(*a_, file, before));
        const auto there = world_.run(a_->lookup(call_, root_node, "f"));
        const FileHandle log =
            world_.run(a_->open(call_, there->node, {.write = true, .append = true}))->handle;
        store_.after_query = [this] { return write_f(*b_, "x", 2 * chunk); };
        EXPECT_EQ(write(*a_, log, text), Result<uint64_t>(text.size()));
        EXPECT_EQ(store_.after_query, nullptr);
        EXPECT_EQ(size_of(*a_, "f"), 5 * chunk + 1);
        EXPECT_EQ(read(*a_, file, 6 * chunk, 2 * chunk), Result<std::string>("x" + text));
        close(*a_, log);
        close(*a_, file);
        unlink(*a_, "f");
    }
}

TEST_F(DfsPins, PunchBesideTruncationKeepsTheSize) {
    for (const uint32_t step : {1024U, 2U}) {
        unmount(a_);
        a_ = mount({.punch_chunks_max = step});
        const FileHandle file = create(*a_, "f");
        for (uint64_t i = 0; i < 10; ++i) ASSERT_TRUE(write(*a_, file, "before", i * chunk));
        store_.after_query = [this] { return truncate_f(*b_, 4 * chunk + 6); };
        EXPECT_TRUE(world_.run(a_->punch_hole(call_, file, 2 * chunk, 6 * chunk)));
        EXPECT_EQ(store_.after_query, nullptr);
        EXPECT_EQ(size_of(*a_, "f"), 4 * chunk + 6) << step;
        EXPECT_EQ(read(*a_, file, 6), Result<std::string>("before"));
        EXPECT_EQ(read(*a_, file, 6, chunk), Result<std::string>("before"));
        for (uint64_t i = 2; i < 5; ++i) {
            EXPECT_EQ(read(*a_, file, 6, i * chunk), Result<std::string>(std::string(6, '\0')));
        }
        close(*a_, file);
        unlink(*a_, "f");
    }
}

// The file was created and pinned, but its mount does not know this. The pin does not stay.
TEST_F(DfsPins, CreateWithoutReplyLeavesNoPin) {
    pass(removed_after);
    close(*a_, create(*a_, "first"));  // leases ids
    store_.loses_answers = true;
    const auto made = world_.run(a_->create(call_, root_node, "f", 0644, {.write = true}, {}));
    EXPECT_EQ(made.error().code, Code::disconnected);
    store_.loses_answers = false;
    EXPECT_EQ(cost([&] { unlink(*b_, "f"); }), 2U);
}

TEST_F(DfsPins, PinsAddFewRequests) {
    FileHandle file;
    EXPECT_EQ(cost([&] { file = create(*a_, "f"); }), 1U);      // as without pins
    EXPECT_EQ(cost([&] { (void)write(*a_, file, "x"); }), 1U);  // as without
    EXPECT_EQ(cost([&] { (void)read(*a_, file); }), 2U);        // as without
    EXPECT_EQ(cost([&] { close(*a_, file); }), 1U);             // no caller waits for it; 0 without
    const auto there = world_.run(a_->lookup(call_, root_node, "f"));
    EXPECT_EQ(cost([&] { file = world_.run(a_->open(call_, there->node, {}))->handle; }), 1U);
    EXPECT_EQ(cost([&] { close(*a_, file); }), 1U);
    EXPECT_EQ(cost([&] { unlink(*a_, "f"); }), 2U);  // as without
    // To remove it later: one to find out what it has, and one for all that is removed then.
    EXPECT_EQ(cost([&] { pass(removed_after); }), 2U);
    for (int i = 0; i < 30; ++i) close(*a_, create(*a_, std::to_string(i)));
    pass(removed_after);
    EXPECT_LE(cost([&] {
                  for (int i = 0; i < 30; ++i) unlink(*a_, std::to_string(i));
                  pass(removed_after);
              }),
              30 * 2U + 2 * 2U);
    // If another mount has it open: one more when it is refused, and two when it is closed.
    file = create(*a_, "g");
    EXPECT_EQ(cost([&] { unlink(*b_, "g"); }), 2U);
    EXPECT_EQ(cost([&] { pass(removed_after); }), 2U);
    EXPECT_EQ(cost([&] { close(*a_, file); }), 1U + 2U);
}

Task<> write_and_remove(Dfs& mount) {
    const auto there = co_await mount.lookup({}, root_node, "f");
    const auto opened = co_await mount.open({}, there->node, {.write = true});
    const std::string text = "x";
    EXPECT_TRUE(co_await mount.pwrite({}, opened->handle, Window::local(as_bytes(text)), 0));
    EXPECT_TRUE(co_await mount.close({}, opened->handle));
    co_await remove_f(mount);
}

// The first request's answer was lost. It pinned the file all the same.
TEST_F(DfsPins, FailedRepeatedCreateLeavesNoPin) {
    store_.before_repetition = [this] { return write_and_remove(*b_); };
    const auto made = world_.run(a_->create(call_, root_node, "f", 0644, {.write = true}, {}));
    EXPECT_EQ(made.error().code, Code::stale);
    pass(removed_after);
    EXPECT_EQ(free_bytes(), empty_);
}

}  // namespace
}  // namespace ros2s::fs
