// BlockFiles: names of keys, files that appear whole and never change, and requests of many.
#include "block_files.h"

#include <fmt/format.h>

#include <numeric>

#include "payload_checksums.h"
#include "ros2s/base/crc32c.h"
#include "ros2s/base/random.h"
#include "ros2s/fs/container.h"
#include "ros2s/runtime/nursery.h"
#include "test_support/counted_dfs.h"

namespace ros2s::fs {
namespace {

TEST(BlockNames, KeyHasOneName) {
    for (const std::string& key :
         {std::string("a"), std::string("0123456789abcdef"), std::string("\0\xff", 2),
          std::string("%"), std::string("."), std::string("a/b"), std::string("a b"),
          std::string(64, '\x01')}) {
        const std::string name = block_name_of(key);
        EXPECT_TRUE(check_name(name)) << name;
        EXPECT_EQ(block_key_of(name), key);
    }
    EXPECT_EQ(block_name_of("a b"), "%612062");
    for (const char* bad : {"%", "%6", "%61", "%zz", "%FF", "a b", "..", ""}) {
        EXPECT_FALSE(block_key_of(bad)) << bad;
    }
    EXPECT_EQ(block_key_of(std::string(65, 'a')).error().code, Code::name_too_long);
}

// A container that MemoryStore has. It evicts nothing.
class BlockFilesOnMemory : public DfsMounts {
  protected:
    void SetUp() override {
        DfsMounts::SetUp();
        ASSERT_EQ(format(), std::nullopt);
        object::ContainerRecord record{.id = container_, .properties = {.label = "c"}};
        EXPECT_EQ(outcome_of(world_.run(make_cache(call_, store_, record, {}, report_))),
                  Code::invalid)
            << "no budget";
        record.properties.caps.bytes = 1 << 20;
        ASSERT_EQ(outcome_of(world_.run(make_cache(call_, store_, record, {}, report_))),
                  std::nullopt);
        auto opened =
            world_.run(open_container(call_, world_.core(), store_, "the pool", "c", {}, report_));
        ASSERT_TRUE(opened) << report_.text();
        files_ = std::move(*opened);
    }
    void TearDown() override {
        if (files_ != nullptr) world_.run(files_->close_all());
    }
    Outcome write(std::string name, std::string bytes) {
        const auto file = world_.run(
            files_->create(call_, root_node, name, 0644, {.read = false, .write = true}, {}));
        if (!file) return file.error().code;
        // In two pieces, the second one first.
        const size_t cut = bytes.size() / 2;
        for (const size_t from : {cut, size_t{0}}) {
            const size_t count = from == 0 ? cut : bytes.size() - cut;
            const ConstBytes piece = as_bytes(bytes).subspan(from, count);
            EXPECT_EQ(world_.run(files_->pwrite(call_, file->handle, Window::local(piece), from)),
                      count);
        }
        const auto closed = world_.run(files_->close(call_, file->handle));
        files_->forget(file->attributes.node, 1);
        return outcome_of(closed);
    }
    Opened create(std::string_view name) {
        return *world_.run(
            files_->create(call_, root_node, name, 0644, {.read = false, .write = true}, {}));
    }
    Outcome write_at(FileHandle handle, std::string_view bytes, uint64_t offset) {
        return outcome_of(
            world_.run(files_->pwrite(call_, handle, Window::local(as_bytes(bytes)), offset)));
    }
    Result<std::string> read(std::string name, size_t room = 64) {
        std::string into(room, '\0');
        ReadManyItem item{.name = name,
                          .window = Window::local(std::as_writable_bytes(std::span(into)))};
        EXPECT_TRUE(world_.run(files_->read_many(call_, root_node, {&item, 1})));
        if (!item.status) return fail(item.status.error());
        EXPECT_EQ(item.bytes, std::min<uint64_t>(item.size, room));
        into.resize(item.bytes);
        return into;
    }
    std::unique_ptr<FileSystem> files_;
};

TEST_F(BlockFilesOnMemory, BlockAppearsWholeAtTheClose) {
    const auto file = world_.run(
        files_->create(call_, root_node, "key", 0644, {.read = false, .write = true}, {}));
    ASSERT_TRUE(file);
    const std::string bytes = "some bytes";
    EXPECT_TRUE(world_.run(files_->pwrite(call_, file->handle, Window::local(as_bytes(bytes)), 0)));
    EXPECT_EQ(read("key").error().code, Code::not_found);
    EXPECT_TRUE(world_.run(files_->close(call_, file->handle)));
    EXPECT_EQ(read("key"), bytes);
    EXPECT_EQ(read("key", 4), "some");
    const auto found = world_.run(files_->lookup(call_, root_node, "key"));
    ASSERT_TRUE(found);
    EXPECT_EQ(found->size, bytes.size());
    EXPECT_EQ(found->mode, S_IFREG | 0444U);
    EXPECT_EQ(found->uid, 7U);
}

TEST_F(BlockFilesOnMemory, SameBytesAreThereAlreadyAndOthersAreRefused) {
    EXPECT_EQ(write("key", "bytes"), std::nullopt);
    EXPECT_EQ(write("key", "bytes"), std::nullopt);
    EXPECT_EQ(write("key", "other"), Code::exists);
    EXPECT_EQ(write("key", "longer bytes"), Code::exists);
    EXPECT_EQ(read("key"), "bytes");
    EXPECT_EQ(write("empty", ""), std::nullopt);
    EXPECT_EQ(read("empty"), "");
    EXPECT_EQ(write("a b", "no key"), Code::invalid);
}

TEST_F(BlockFilesOnMemory, OpenFileOfARemovedBlockIsStale) {
    ASSERT_EQ(write("key", "bytes"), std::nullopt);
    const auto node = world_.run(files_->lookup(call_, root_node, "key"));
    const auto file = world_.run(files_->open(call_, node->node, {}));
    ASSERT_TRUE(file);
    std::string into(5, '\0');
    const Window window = Window::local(std::as_writable_bytes(std::span(into)));
    EXPECT_EQ(world_.run(files_->pread(call_, file->handle, window, 0)), 5U);
    EXPECT_TRUE(world_.run(files_->unlink(call_, root_node, "key")));
    EXPECT_EQ(outcome_of(world_.run(files_->pread(call_, file->handle, window, 0))), Code::stale);
    ASSERT_EQ(write("key", "other"), std::nullopt);
    EXPECT_EQ(outcome_of(world_.run(files_->pread(call_, file->handle, window, 0))), Code::stale);
    EXPECT_TRUE(world_.run(files_->close(call_, file->handle)));
    EXPECT_EQ(outcome_of(world_.run(files_->open(call_, node->node, {.write = true}))),
              Code::denied);
}

TEST_F(BlockFilesOnMemory, BlockWithAnotherChecksumIsAMissAndIsRemoved) {
    ASSERT_EQ(write("key", "bytes"), std::nullopt);
    const object::BlockHead wrong{.crc = 1, .length = 5};
    object::Transaction change;
    change.operations.push_back({.kind = object::Operation::Kind::put,
                                 .object = object::blocks_object,
                                 .dkey = {"key"},
                                 .akey = object::block_head_akey(),
                                 .window = Window::local(object_bytes(wrong))});
    // Bytes and head get the same epoch again.
    change.operations.push_back({.kind = object::Operation::Kind::write,
                                 .object = object::blocks_object,
                                 .dkey = {"key"},
                                 .akey = object::block_data_akey(),
                                 .extent = {0, 5},
                                 .window = Window::local(as_bytes(std::string_view("bytes")))});
    ASSERT_TRUE(world_.run(store_.update(call_, container_, change)));
    EXPECT_EQ(read("key").error().code, Code::not_found);
    EXPECT_EQ(outcome_of(world_.run(files_->lookup(call_, root_node, "key"))), Code::not_found);
    EXPECT_EQ(write("key", "bytes"), std::nullopt);
}

TEST_F(BlockFilesOnMemory, ForwardedBlocksHaveTheirChecksums) {
    store_.claimed.checksums = true;
    std::vector<std::string> names, buffers;
    std::vector<ReadManyItem> items;
    for (const size_t size : {0, 5, 4096, 5000, 12'288}) {
        names.push_back(fmt::format("{}", size));
        ASSERT_EQ(write(names.back(), std::string(size, 'a')), std::nullopt);
    }
    names.emplace_back("absent");
    buffers.assign(2 * names.size(), std::string(16'384, '?'));
    for (size_t i = 0; i < buffers.size(); ++i) {
        // The second half is too small for some.
        if (i >= names.size()) buffers[i].resize(4500);
        items.push_back({.name = names[i % names.size()],
                         .window = Window::local(std::as_writable_bytes(std::span(buffers[i])))});
    }
    SliceTurns turns(world_.core());
    PayloadChecksums checksums(turns);
    Call call = call_;
    call.checksums = &checksums;
    ASSERT_TRUE(world_.run(files_->read_many(call, root_node, items)));
    ASSERT_EQ(checksums.items.size(), items.size());
    for (size_t i = 0; i < items.size(); ++i) {
        EXPECT_EQ(items[i].bytes, std::min(items[i].size, items[i].window.length)) << i;
        EXPECT_EQ(checksums.items[i], crc32c(items[i].window.bytes().first(items[i].bytes))) << i;
    }
}

// The host changes its memory while the file system reads into it.
class ChangingStore final : public object::ForwardingStore {
  public:
    using ForwardingStore::ForwardingStore;
    Task<Result<>> fetch(const Call& call, object::ContainerId container,
                         std::span<FetchItem> items) override {
        auto done = co_await below().fetch(call, container, items);
        for (const FetchItem& item : items) {
            if (item.akey == object::block_data_akey()) item.window.bytes()[0] ^= std::byte{1};
        }
        co_return done;
    }
};
TEST_F(BlockFilesOnMemory, HostThatChangesItsMemoryDoesNotRemoveTheBlock) {
    store_.claimed.checksums = true;
    ASSERT_EQ(write("key", "bytes"), std::nullopt);
    ChangingStore changing(store_);
    auto files =
        world_.run(open_container(call_, world_.core(), changing, "the pool", "c", {}, report_));
    ASSERT_TRUE(files) << report_.text();
    std::string into(64, '?');
    ReadManyItem item{.name = "key",
                      .window = Window::local(std::as_writable_bytes(std::span(into)))};
    SliceTurns turns(world_.core());
    PayloadChecksums checksums(turns);
    Call call = call_;
    call.checksums = &checksums;
    ASSERT_TRUE(world_.run((*files)->read_many(call, root_node, {&item, 1})));
    EXPECT_TRUE(item.status);
    EXPECT_EQ(checksums.items[0], crc32c(as_bytes(std::string_view("bytes"))));
    world_.run((*files)->close_all());
    EXPECT_EQ(read("key"), "bytes");
}

TEST_F(BlockFilesOnMemory, ManyTakeFewRequestsAndAreListedOnce) {
    std::vector<std::string> names;
    for (int i = 0; i < 300; ++i) {
        names.push_back(fmt::format("key-{:03}", i));
        if (i % 2 == 0) ASSERT_EQ(write(names.back(), names.back()), std::nullopt);
    }
    const std::vector<std::string_view> some(names.begin(), names.begin() + names_together_max);
    store_.reset();
    const auto found = world_.run(files_->lookup_many(call_, root_node, some));
    EXPECT_EQ(store_.fetches, 1U);
    for (size_t i = 0; i < some.size(); ++i) EXPECT_EQ(found[i].has_value(), i % 2 == 0) << i;
    const auto root = world_.run(files_->open(call_, root_node, {}));
    std::vector<std::string> listed;
    uint64_t cookie = 0;
    for (;;) {
        const auto page = world_.run(files_->readdir(call_, root->handle, cookie, 40));
        ASSERT_TRUE(page);
        if (page->empty()) break;
        for (const DirectoryEntry& entry : *page) {
            listed.push_back(entry.name);
            cookie = entry.cookie;
        }
    }
    EXPECT_TRUE(world_.run(files_->close(call_, root->handle)));
    EXPECT_EQ(listed.size(), 150U);
    EXPECT_TRUE(std::ranges::is_sorted(listed));
    store_.reset();
    const auto removed = world_.run(files_->unlink_many(call_, root_node, some));
    EXPECT_EQ(store_.fetches + store_.updates, 2U);
    for (size_t i = 0; i < some.size(); ++i) {
        EXPECT_EQ(outcome_of(removed[i]),
                  i % 2 == 0 ? std::nullopt : std::optional(Code::not_found));
    }
    EXPECT_EQ(read("key-000").error().code, Code::not_found);
    EXPECT_EQ(read("key-298"), "key-298");
}

TEST_F(BlockFilesOnMemory, WorkOnManyByTheirKeys) {
    std::vector<std::string> keys;
    for (size_t i = 0; i < blocks_together_max; ++i) keys.push_back(fmt::format("key {:4}", i));
    keys.back() = std::string(65, 'k');
    std::vector<BlockItem> items(keys.size());
    const auto work = [&](BlockWork what) {
        return world_.run(files_->blocks(call_, what, items, std::chrono::seconds(1)));
    };
    for (size_t i = 0; i < items.size(); ++i) {
        items[i] = {.key = keys[i], .window = Window::local(as_bytes(keys[i]))};
    }
    const auto count = [&](Outcome outcome) {
        return std::ranges::count_if(
            items, [&](const BlockItem& item) { return outcome_of(item.status) == outcome; });
    };
    const int64_t all = static_cast<int64_t>(keys.size()) - 1;
    ASSERT_TRUE(work(BlockWork::look));
    EXPECT_EQ(count(Code::not_found), all);
    EXPECT_EQ(count(Code::invalid), 1);
    for (int i = 0; i < 2; ++i) {
        ASSERT_TRUE(work(BlockWork::put));
        EXPECT_EQ(count(std::nullopt), all);
    }
    EXPECT_EQ(read(block_name_of(keys[5])), keys[5]);
    items[0].window = Window::local(as_bytes(keys[1]));
    items[0].checksums.clear();
    ASSERT_TRUE(work(BlockWork::put));
    EXPECT_EQ(outcome_of(items[0].status), Code::exists);
    store_.reset();
    for (const auto what : {BlockWork::look, BlockWork::touch, BlockWork::unpin}) {
        ASSERT_TRUE(work(what));
        EXPECT_EQ(count(std::nullopt), all);
    }
    EXPECT_EQ(store_.fetches + store_.updates, 3U);
    ASSERT_TRUE(work(BlockWork::pin));
    EXPECT_EQ(count(std::nullopt), all);
    ASSERT_TRUE(work(BlockWork::remove));
    EXPECT_EQ(count(std::nullopt), all);
    ASSERT_TRUE(work(BlockWork::remove));
    EXPECT_EQ(count(Code::not_found), all);
    EXPECT_EQ(outcome_of(world_.run(files_->blocks(call_, BlockWork::pin, items, {}))),
              Code::invalid);
}

TEST_F(BlockFilesOnMemory, WriteThatFailedIsNotPut) {
    SliceTurns turns(world_.core());
    PayloadChecksums wrong(turns);
    wrong.whole = 1;
    Call checked = call_;
    checked.checksums = &wrong;
    const auto file = world_.run(
        files_->create(call_, root_node, "key", 0644, {.read = false, .write = true}, {}));
    const ConstBytes bytes = as_bytes(std::string_view("bytes"));
    EXPECT_EQ(
        outcome_of(world_.run(files_->pwrite(checked, file->handle, Window::local(bytes), 0))),
        Code::corrupt);
    EXPECT_EQ(outcome_of(world_.run(files_->close(call_, file->handle))), Code::corrupt);
    EXPECT_EQ(outcome_of(world_.run(files_->lookup(call_, root_node, "key"))), Code::not_found);
}

TEST_F(BlockFilesOnMemory, FileOfAWriterThatHasGoneIsNotPut) {
    const auto file = world_.run(
        files_->create(call_, root_node, "key", 0644, {.read = false, .write = true}, {}));
    StopSource gone;
    gone.request_stop();
    const Call stopped{.stop = gone.token()};
    EXPECT_EQ(outcome_of(world_.run(files_->close(stopped, file->handle))), Code::cancelled);
    EXPECT_EQ(outcome_of(world_.run(files_->lookup(call_, root_node, "key"))), Code::not_found);
}

Task<> close_it(FileSystem& files, FileHandle handle, StopToken stop, Result<>& closed) {
    const Call call{.stop = std::move(stop)};
    closed = co_await files.close(call, handle);
}
Task<> stop_during_close(Reactor& core, FileSystem& files, FileHandle handle) {
    StopSource gone;
    Result<> closed;
    Nursery nursery(core, 1);
    co_await nursery.spawn(close_it(files, handle, gone.token(), closed));
    for (int turn = 0; turn < 4; ++turn) co_await yield(core);
    gone.request_stop();
    co_await nursery.join();
    EXPECT_EQ(closed, Result<>(fail(Code::cancelled)));
}
// The checksums of a large one take a while, and others have their turns.
TEST_F(BlockFilesOnMemory, WriterMayGoDuringTheClose) {
    const std::string bytes(4 << 20, 'x');
    const auto file = create("key");
    ASSERT_EQ(write_at(file.handle, bytes, 0), std::nullopt);
    world_.run(stop_during_close(world_.core(), *files_, file.handle));
    EXPECT_EQ(outcome_of(world_.run(files_->lookup(call_, root_node, "key"))), Code::not_found);
}

TEST_F(BlockFilesOnMemory, WritesInAnyOrderMakeTheBlock) {
    std::string bytes(100'000, '\0');
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7 / 1000);
    const uint64_t seed = random_seed();
    SCOPED_TRACE(seed);
    Random random(seed);
    const auto file = create("key");
    std::vector<size_t> places(100);
    std::iota(places.begin(), places.end(), 0U);
    for (size_t left = places.size(); left > 0; --left) {
        std::swap(places[left - 1], places[random.below(left)]);
        const size_t at = places[left - 1] * 1000;
        ASSERT_EQ(write_at(file.handle, bytes.substr(at, 1000), at), std::nullopt);
        const auto sized = world_.run(files_->get_attributes(call_, file.attributes.node));
        EXPECT_GE(sized->size, at + 1000);
    }
    EXPECT_TRUE(world_.run(files_->close(call_, file.handle)));
    EXPECT_EQ(read("key", bytes.size()), bytes);
}

TEST_F(BlockFilesOnMemory, LaterWriteOverOneBehindAGapWins) {
    const auto file = create("key");
    ASSERT_EQ(write_at(file.handle, "23456", 2), std::nullopt);
    EXPECT_EQ(write_at(file.handle, "abcd", 0), std::nullopt);
    EXPECT_TRUE(world_.run(files_->close(call_, file.handle)));
    EXPECT_EQ(read("key"), "abcd456");
}

TEST_F(BlockFilesOnMemory, GapIsNotFilled) {
    world_.run(files_->close_all());
    Quota quota({.in_all = uint64_t{256} << 20});
    files_ = *world_.run(open_container(call_, world_.core(), store_, "the pool", "c",
                                        {.unfinished = &quota}, report_));
    const auto file = create("key");
    EXPECT_EQ(write_at(file.handle, "x", object::block_length_max - 1), std::nullopt);
    EXPECT_EQ(quota.used(), 1U) << "memory for what was written";
    EXPECT_EQ(write_at(file.handle, "yz", object::block_length_max - 2), Code::invalid)
        << "both are behind the gap";
    EXPECT_EQ(outcome_of(world_.run(files_->close(call_, file.handle))), Code::invalid);
    EXPECT_EQ(quota.used(), 0U);
    const auto other = create("key");
    EXPECT_EQ(write_at(other.handle, "x", 1), std::nullopt);
    EXPECT_EQ(outcome_of(world_.run(files_->close(call_, other.handle))), Code::invalid);
    EXPECT_EQ(outcome_of(world_.run(files_->lookup(call_, root_node, "key"))), Code::not_found);
    const auto scattered = create("key");
    Outcome refused;
    for (uint64_t i = 1; i <= 256; ++i) refused = write_at(scattered.handle, "x", 2 * i);
    EXPECT_EQ(refused, std::nullopt);
    EXPECT_EQ(write_at(scattered.handle, "x", 1000), Code::no_memory);
    world_.run(files_->close_all());
    EXPECT_EQ(quota.used(), 0U);
    files_.reset();
}

TEST_F(BlockFilesOnMemory, FileHasAttributesAsLongAsItIsWritten) {
    const auto first = create("key"), second = create("key");
    const NodeId node = first.attributes.node;
    ASSERT_EQ(write_at(second.handle, "bytes", 0), std::nullopt);
    EXPECT_EQ(world_.run(files_->get_attributes(call_, node))->size, 0U) << "of the first one";
    StopSource gone;
    gone.request_stop();
    EXPECT_FALSE(world_.run(files_->close({.stop = gone.token()}, first.handle)));
    EXPECT_EQ(world_.run(files_->get_attributes(call_, node))->size, 5U);
    EXPECT_FALSE(world_.run(files_->close({.stop = gone.token()}, second.handle)));
    EXPECT_EQ(outcome_of(world_.run(files_->get_attributes(call_, node))), Code::stale);
    files_->forget(node, 2);
}

Task<> write_checked(FileSystem& files, SliceTurns& turns, FileHandle handle,
                     std::string_view bytes, uint64_t offset) {
    PayloadChecksums checksums(turns);
    checksums.whole = crc32c(as_bytes(bytes));
    const Call call{.checksums = &checksums};
    EXPECT_TRUE(co_await files.pwrite(call, handle, Window::local(as_bytes(bytes)), offset));
}
Task<> write_at_once(Reactor& core, FileSystem& files, FileHandle handle, std::string_view bytes) {
    SliceTurns turns(core);
    Nursery writes(core, 4);
    const size_t part = bytes.size() / 4;
    for (size_t i = 0; i < 4; ++i) {
        const size_t from = i * part;
        co_await writes.spawn(write_checked(files, turns, handle, bytes.substr(from, part), from));
    }
    co_await writes.join();
    EXPECT_TRUE(co_await files.close({}, handle));
}
TEST_F(BlockFilesOnMemory, WritesAtOnceAreCheckedAndKept) {
    std::string bytes(800'000, '\0');
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7 / 1000);
    const auto file = world_.run(
        files_->create(call_, root_node, "key", 0644, {.read = false, .write = true}, {}));
    world_.run(write_at_once(world_.core(), *files_, file->handle, bytes));
    EXPECT_EQ(read("key", bytes.size()), bytes);
}

TEST_F(BlockFilesOnMemory, TooMuchThatIsNotClosedIsRefused) {
    const std::string bytes(size_t{32} << 20, 'x');
    std::vector<FileHandle> handles;
    Outcome refused;
    while (!refused && handles.size() < 20) {
        const auto file =
            world_.run(files_->create(call_, root_node, fmt::format("k{}", handles.size()), 0644,
                                      {.read = false, .write = true}, {}));
        handles.push_back(file->handle);
        refused = outcome_of(
            world_.run(files_->pwrite(call_, file->handle, Window::local(as_bytes(bytes)), 0)));
    }
    EXPECT_EQ(refused, Code::no_memory);
    EXPECT_EQ(handles.size(), 17U);
    EXPECT_EQ(outcome_of(
                  world_.run(files_->pwrite(call_, handles[0], Window::local(as_bytes(bytes)), 1))),
              Code::too_large);
}

TEST_F(BlockFilesOnMemory, TenantLeavesRoomForFilesOfOthers) {
    world_.run(files_->close_all());
    Quota quota({.in_all = 1000});
    files_ = *world_.run(open_container(call_, world_.core(), store_, "the pool", "c",
                                        {.unfinished = &quota}, report_));
    const auto begin = [&](uint64_t tenant, std::string name, size_t bytes) {
        const Call call{.tenant = tenant};
        const auto file = world_.run(
            files_->create(call, root_node, name, 0644, {.read = false, .write = true}, {}));
        const std::string data(bytes, 'x');
        const auto done =
            world_.run(files_->pwrite(call, file->handle, Window::local(as_bytes(data)), 0));
        return std::pair(file->handle, outcome_of(done));
    };
    const auto first = begin(1, "a", 500);
    EXPECT_EQ(first.second, std::nullopt);
    EXPECT_EQ(begin(1, "b", 100).second, Code::no_memory);
    EXPECT_EQ(begin(2, "c", 200).second, std::nullopt);
    EXPECT_EQ(quota.used(), 700U);
    EXPECT_TRUE(world_.run(files_->close(call_, first.first)));
    EXPECT_EQ(quota.used(), 200U);
    EXPECT_EQ(read("a", 500), std::string(500, 'x'));
    EXPECT_EQ(begin(1, "b", 100).second, std::nullopt);
    // The others end with the mount.
    world_.run(files_->close_all());
    EXPECT_EQ(quota.used(), 0U);
    files_.reset();
}

}  // namespace
}  // namespace ros2s::fs
