// read_many: many small files in one call.
#include <deque>

#include "ros2s/base/crc32c.h"
#include "ros2s/fs/payload_checksums.h"
#include "suite.h"

namespace ros2s::fs::contract {
namespace {

using std::string;

// The items of a call and the memory that they fill.
class Batch {
  public:
    void add(string name, size_t room) {
        buffers_.emplace_back(room, '?');
        items_.push_back(
            {.name = std::move(name),
             .window = Window::local(std::as_writable_bytes(std::span(buffers_.back())))});
    }
    std::span<ReadManyItem> items() { return items_; }
    [[nodiscard]] const ReadManyItem& operator[](size_t i) const { return items_[i]; }
    [[nodiscard]] string contents(size_t i) const { return buffers_[i].substr(0, items_[i].bytes); }

  private:
    std::deque<string> buffers_;
    std::vector<ReadManyItem> items_;
};

Task<> unlink_all(Fixture& f, NodeId dir, int count) {
    for (int i = 0; i < count; ++i) {
        EXPECT_OK(co_await f.fs.unlink(f.call, dir, "f" + std::to_string(i)));
    }
}

constexpr Case read_many_table[] = {
    {"EmptyBatchSucceeds",
     [](Fixture& f) -> Task<> { EXPECT_OK(co_await f.fs.read_many(f.call, root_node, {})); }},
    {"OneFileIsRead",
     [](Fixture& f) -> Task<> {
         co_await f.file(root_node, "file", "contents");
         Batch batch;
         batch.add("file", 100);
         EXPECT_OK(co_await f.fs.read_many(f.call, root_node, batch.items()));
         EXPECT_OK(batch[0].status);
         EXPECT_EQ(batch[0].size, 8u);
         EXPECT_EQ(batch.contents(0), "contents");
     }},
    {"FilesOfManyDirectoriesAreRead",
     [](Fixture& f) -> Task<> {
         Batch batch;
         std::vector<string> wanted;
         for (int d = 0; d < 10; ++d) {
             const NodeId dir = co_await f.directory(root_node, "d" + std::to_string(d));
             const NodeId sub = co_await f.directory(dir, "sub");
             for (int i = 0; i < 70; ++i) {
                 const string name = "f" + std::to_string(i);
                 const string text = f.random_bytes(f.random.below(3000));
                 co_await f.file(i % 2 == 0 ? dir : sub, name, text);
                 batch.add("d" + std::to_string(d) + (i % 2 == 0 ? "/" : "/sub/") + name, 3000);
                 wanted.push_back(text);
             }
         }
         EXPECT_OK(co_await f.fs.read_many(f.call, root_node, batch.items()));
         for (size_t i = 0; i < wanted.size(); ++i) {
             EXPECT_OK(batch[i].status) << batch[i].name;
             EXPECT_TRUE(batch.contents(i) == wanted[i]) << batch[i].name;
         }
     }},
    {"PathsAreRelativeToTheDirectory",
     [](Fixture& f) -> Task<> {
         const NodeId dir = co_await f.directory(root_node, "dir");
         co_await f.file(dir, "file", "inside");
         co_await f.file(root_node, "file", "outside");
         Batch batch;
         batch.add("file", 100);
         EXPECT_OK(co_await f.fs.read_many(f.call, dir, batch.items()));
         EXPECT_EQ(batch.contents(0), "inside");
     }},
    {"EachItemHasItsOwnError",
     [](Fixture& f) -> Task<> {
         co_await f.file(root_node, "file", "good");
         co_await f.directory(root_node, "dir");
         co_await f.symlink(root_node, "link", "file");
         co_await f.symlink(root_node, "dirlink", "dir");
         const std::pair<const char*, Outcome> rows[] = {
             {"file", success},
             {"none", is(Code::not_found)},
             {"none/file", is(Code::not_found)},
             {"dir", is(Code::is_directory)},
             {"dir/none", is(Code::not_found)},
             {"link", is(Code::loop)},
             {"dirlink/x", is(Code::loop)},
             {"file/x", is(Code::not_directory)},
             {"", is(Code::invalid)},
             {"..", is(Code::invalid)},
             {"dir/../file", is(Code::invalid)},
             {"/file", is(Code::invalid)},
             {"file/", is(Code::invalid)},
             {"file", success},
         };
         Batch batch;
         for (const auto& [name, wanted] : rows) batch.add(name, 10);
         EXPECT_OK(co_await f.fs.read_many(f.call, root_node, batch.items()));
         for (size_t i = 0; i < std::size(rows); ++i) {
             EXPECT_EQ(outcome(batch[i].status), rows[i].second) << rows[i].first;
             EXPECT_EQ(batch.contents(i), rows[i].second == success ? "good" : "");
         }
     }},
    {"SmallWindowReceivesThePrefix",
     [](Fixture& f) -> Task<> {
         co_await f.file(root_node, "file", "0123456789");
         Batch batch;
         for (const size_t room : {0u, 1u, 9u, 10u, 11u}) batch.add("file", room);
         EXPECT_OK(co_await f.fs.read_many(f.call, root_node, batch.items()));
         for (size_t i = 0; i < 5; ++i) {
             EXPECT_OK(batch[i].status);
             EXPECT_EQ(batch[i].size, 10u);
             EXPECT_EQ(batch.contents(i), string("0123456789").substr(0, batch[i].window.length));
         }
     }},
    {"LargeAndSparseFilesAreRead",
     [](Fixture& f) -> Task<> {
         const string large = f.random_bytes(2 * f.traits.chunk_bytes + 99);
         co_await f.file(root_node, "large", large);
         const NodeId sparse = co_await f.file(root_node, "sparse", "start");
         EXPECT_OK(
             co_await f.fs.set_attributes(f.call, sparse, {.size = f.traits.chunk_bytes + 9}));
         co_await f.file(root_node, "empty");
         Batch batch;
         batch.add("large", large.size());
         batch.add("sparse", large.size());
         batch.add("empty", 10);
         EXPECT_OK(co_await f.fs.read_many(f.call, root_node, batch.items()));
         EXPECT_TRUE(batch.contents(0) == large);
         EXPECT_TRUE(batch.contents(1) == "start" + string(f.traits.chunk_bytes + 4, '\0'));
         EXPECT_EQ(batch.contents(2), "");
         for (size_t i = 0; i < 3; ++i) EXPECT_OK(batch[i].status);
     }},
    {"BatchAboveTheFetchLimitIsRead",
     [](Fixture& f) -> Task<> {
         // Each file is its record and its chunks: three items, then two each.
         const string large = f.random_bytes(f.traits.chunk_bytes + 1);
         co_await f.file(root_node, "two", large);
         co_await f.file(root_node, "one", "1");
         for (const size_t first : {0u, 1u}) {
             Batch batch;
             for (size_t i = 0; i < 512; ++i) {
                 const bool is_large = i == first;
                 batch.add(is_large ? "two" : "one", is_large ? large.size() : 1);
             }
             EXPECT_OK(co_await f.fs.read_many(f.call, root_node, batch.items()));
             for (size_t i = 0; i < 512; ++i) {
                 EXPECT_TRUE(batch.contents(i) == (i == first ? large : "1")) << i;
             }
         }
     }},
    {"ForwardedFilesHaveTheirChecksums",
     [](Fixture& f) -> Task<> {
         co_await f.file(root_node, "empty", "");
         co_await f.file(root_node, "short", "12345");
         co_await f.file(root_node, "long", f.random_bytes(70'001));
         const FileHandle hole = co_await f.open(co_await f.file(root_node, "hole", "begin"));
         co_await f.write(hole, "end", 50'000);
         Batch batch;
         for (const char* name : {"empty", "absent", "short", "long", "hole"}) {
             batch.add(name, 80'000);
         }
         batch.add("long", 5'000);
         SliceTurns turns(f.reactor);
         PayloadChecksums checksums(turns);
         checksums.items.push_back(1);
         Call call = f.call;
         call.checksums = &checksums;
         EXPECT_OK(co_await f.fs.read_many(call, root_node, batch.items()));
         EXPECT_EQ(batch[4].bytes, 50'003u);
         EXPECT_FAILS(not_found, batch[1].status);
         // Otherwise the file system does not know them.
         if (checksums.items.size() != batch.items().size()) co_return;
         for (size_t i = 0; i < batch.items().size(); ++i) {
             EXPECT_EQ(checksums.items[i], crc32c(as_bytes(batch.contents(i)))) << i;
         }
     }},
    {"ReadManyInAFileIsRefused",
     [](Fixture& f) -> Task<> {
         const NodeId file = co_await f.file(root_node, "file");
         Batch batch;
         batch.add("x", 10);
         EXPECT_FAILS(not_directory, co_await f.fs.read_many(f.call, file, batch.items()));
     }},
    {"ReadManyDuringUnlinkIsWholeOrNotFound",
     [](Fixture& f) -> Task<> {
         // Each file is read completely or not found, but never as zeros.
         constexpr int count = 40;
         const NodeId dir = co_await f.directory(root_node, "dir");
         Batch batch;
         for (int i = 0; i < count; ++i) {
             co_await f.file(dir, "f" + std::to_string(i), "whole");
             batch.add("f" + std::to_string(i), 10);
         }
         Nursery nursery(f.reactor, 2);
         co_await nursery.spawn(unlink_all(f, dir, count));
         EXPECT_OK(co_await f.fs.read_many(f.call, dir, batch.items()));
         co_await nursery.join();
         for (int i = 0; i < count; ++i) {
             if (batch[i].status) EXPECT_EQ(batch.contents(i), "whole");
             if (!batch[i].status) EXPECT_FAILS(not_found, batch[i].status);
         }
     }},
};

}  // namespace

Cases read_many_cases() { return read_many_table; }

}  // namespace ros2s::fs::contract
