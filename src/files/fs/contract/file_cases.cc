// Contents: reading and writing at any offset, holes, truncation, trimming.
#include <algorithm>

#include "ros2s/fs/payload_checksums.h"
#include "suite.h"

namespace ros2s::fs::contract {
namespace {

using std::string;

// A file as a string, changed together with the real file and compared with it.
class Twin {
  public:
    Twin(Fixture& fixture, FileHandle handle, NodeId node)
        : f_(fixture), handle_(handle), node_(node) {}
    Task<> write(uint64_t offset, string bytes) {
        if (model_.size() < offset + bytes.size()) model_.resize(offset + bytes.size());
        model_.replace(offset, bytes.size(), bytes);
        co_await f_.write(handle_, bytes, offset);
    }
    Task<> truncate(uint64_t size) {
        model_.resize(size);
        const auto done = co_await f_.fs.set_attributes(f_.call, node_, {.size = size});
        EXPECT_OK(done);
        if (done) EXPECT_EQ(done->size, size);
    }
    Task<> punch(uint64_t offset, uint64_t length) {
        if (offset < model_.size()) {
            const uint64_t count = std::min(length, model_.size() - offset);
            model_.replace(offset, count, count, '\0');
        }
        EXPECT_OK(co_await f_.fs.punch_hole(f_.call, handle_, offset, length));
    }
    // False: it cannot allocate.
    Task<bool> allocate(uint64_t offset, uint64_t length, bool keeps_size) {
        const auto done = co_await f_.fs.allocate(f_.call, handle_, offset, length, keeps_size);
        if (!done && done.error().code == Code::unsupported) co_return false;
        EXPECT_OK(done);
        if (!keeps_size && model_.size() < offset + length) model_.resize(offset + length);
        co_return true;
    }
    Task<> check_part(uint64_t offset, uint64_t length) {
        const string wanted = offset < model_.size() ? model_.substr(offset, length) : string();
        const string got = co_await f_.read(handle_, offset, length);
        EXPECT_TRUE(got == wanted) << "[" << offset << ", +" << length << "): " << got.size()
                                   << " bytes for " << wanted.size() << ", first difference at "
                                   << std::ranges::mismatch(got, wanted).in1 - got.begin();
    }
    Task<> check() {
        EXPECT_EQ((co_await f_.stat(node_)).size, model_.size());
        co_await check_part(0, model_.size() + 100);
    }
    [[nodiscard]] uint64_t size() const { return model_.size(); }

  private:
    Fixture& f_;
    FileHandle handle_;
    NodeId node_;
    string model_;
};

Task<> write_block(Fixture& f, FileHandle handle, char mark, uint64_t offset, uint64_t length) {
    co_await f.write(handle, string(length, mark), offset);
}
Task<> read_block(Fixture& f, FileHandle handle, uint64_t offset, uint64_t length, bool& torn) {
    const string bytes = co_await f.read(handle, offset, length);
    if (bytes != string(bytes.size(), bytes.empty() ? ' ' : bytes[0])) torn = true;
}

Task<> allocate_again(Fixture& f, FileHandle handle, uint64_t length, const bool& done) {
    while (!done) {
        EXPECT_OK(co_await f.fs.allocate(f.call, handle, 0, length, false));
        co_await sleep_for(f.reactor, std::chrono::microseconds(1));
    }
}

// Writes bytes that another process sent, with the checksum of `summed`.
Task<Result<uint64_t>> write_forwarded(Fixture& f, FileHandle handle, string bytes, string summed,
                                       uint64_t offset) {
    SliceTurns turns(f.reactor);
    PayloadChecksums checksums(turns);
    checksums.whole = crc32c(as_bytes(summed));
    if (object::piece_count(offset, bytes.size()) == 1) checksums.pieces = {*checksums.whole};
    Call call = f.call;
    call.checksums = &checksums;
    co_return co_await f.fs.pwrite(call, handle, Window::local(as_bytes(bytes)), offset);
}
Task<> check_read_forwarded(Fixture& f, FileHandle handle, const string& wanted) {
    SliceTurns turns(f.reactor);
    PayloadChecksums checksums(turns);
    Call call = f.call;
    call.checksums = &checksums;
    string found(wanted.size() + 1, '?');
    const Bytes into(reinterpret_cast<std::byte*>(found.data()), found.size());
    EXPECT_OK(co_await f.fs.pread(call, handle, Window::local(into), 0));
    found.pop_back();
    EXPECT_EQ(found, wanted);
    const uint32_t crc = crc32c(as_bytes(wanted));
    EXPECT_EQ(checksums.whole.value_or(crc), crc);
}

constexpr Case file_table[] = {
    {"WrittenBytesAreReadBack",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.file(root_node, "file");
         const FileHandle handle = co_await f.open(node);
         co_await f.write(handle, "hello", 0);
         EXPECT_EQ(co_await f.read(handle, 0, 5), "hello");
         EXPECT_EQ(co_await f.read(handle, 1, 3), "ell");
         EXPECT_EQ((co_await f.stat(node)).size, 5u);
     }},
    {"ReadBeyondTheEndIsShort",
     [](Fixture& f) -> Task<> {
         const FileHandle handle = co_await f.open(co_await f.file(root_node, "file", "12345"));
         EXPECT_EQ(co_await f.read(handle, 0, 100), "12345");
         EXPECT_EQ(co_await f.read(handle, 3, 100), "45");
         EXPECT_EQ(co_await f.read(handle, 5, 100), "");
         EXPECT_EQ(co_await f.read(handle, 1'000'000'000, 100), "");
         EXPECT_EQ(co_await f.read(handle, 0, 0), "");
     }},
    {"EmptyWriteKeepsTheFileEmpty",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.file(root_node, "file");
         const FileHandle handle = co_await f.open(node);
         EXPECT_EQ(co_await f.read(handle, 0, 100), "");
         EXPECT_EQ((co_await f.stat(node)).size, 0u);
         co_await f.write(handle, "", 0);
         co_await f.write(handle, "", 100);
         EXPECT_EQ((co_await f.stat(node)).size, 0u) << "writing nothing changes nothing";
     }},
    {"OverwriteReplacesOnlyItsRange",
     [](Fixture& f) -> Task<> {
         const FileHandle handle = co_await f.open(co_await f.file(root_node, "file", "aaaaaaaa"));
         co_await f.write(handle, "BB", 3);
         EXPECT_EQ(co_await f.read(handle, 0, 100), "aaaBBaaa");
         co_await f.write(handle, "CCCC", 6);
         EXPECT_EQ(co_await f.read(handle, 0, 100), "aaaBBaCCCC");
     }},
    {"HoleReadsAsZeros",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.file(root_node, "file");
         const FileHandle handle = co_await f.open(node);
         co_await f.write(handle, "end", 10'000);
         EXPECT_EQ(co_await f.read(handle, 0, 10'000), string(10'000, '\0'));
         EXPECT_EQ(co_await f.read(handle, 9'998, 10), string("\0\0end", 5));
         EXPECT_EQ((co_await f.stat(node)).size, 10'003u);
     }},
    {"HoleOfManyChunksReadsAsZeros",
     [](Fixture& f) -> Task<> {
         const uint64_t chunk = f.traits.chunk_bytes;
         const NodeId node = co_await f.file(root_node, "file", "start");
         const FileHandle handle = co_await f.open(node);
         co_await f.write(handle, "end", 5 * chunk + 17);
         EXPECT_EQ((co_await f.stat(node)).size, 5 * chunk + 20);
         EXPECT_EQ(co_await f.read(handle, 0, 8), string("start\0\0\0", 8));
         EXPECT_EQ(co_await f.read(handle, chunk - 2, 4), string(4, '\0'));
         EXPECT_EQ(co_await f.read(handle, 3 * chunk, 100), string(100, '\0'));
         const string all = co_await f.read(handle, 0, 6 * chunk);
         EXPECT_EQ(all.size(), 5 * chunk + 20);
         EXPECT_EQ(all.substr(5 * chunk + 17), "end");
         EXPECT_EQ(std::ranges::count(all, '\0'), static_cast<long>(all.size() - 8));
     }},
    {"BytesThatDifferFromTheirChecksumAreRefused",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.file(root_node, "file", "old");
         for (const OpenFlags flags : {f.writing, f.appending}) {
             const FileHandle handle = co_await f.open(node, flags);
             string contents = co_await f.read(handle, 0, 100'000);
             for (const size_t size : {3, 4096, 20'000}) {
                 const string bytes(size, 'a'), other(size, 'b');
                 EXPECT_FAILS(corrupt, co_await write_forwarded(f, handle, other, bytes, 0));
                 EXPECT_TRUE(co_await f.read(handle, 0, 100'000) == contents) << size;
                 EXPECT_OK(co_await write_forwarded(f, handle, bytes, bytes, 0));
                 const uint64_t at = flags.append ? contents.size() : 0;
                 contents.resize(std::max(contents.size(), at + size));
                 contents.replace(at, size, bytes);
                 co_await check_read_forwarded(f, handle, contents);
             }
             co_await f.close(handle);
         }
     }},
    {"WriteAtOneTebibyteUsesLittleSpace",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.file(root_node, "file");
         const FileHandle handle = co_await f.open(node);
         const uint64_t far = uint64_t{1} << 40;
         const auto wrote =
             co_await f.fs.pwrite(f.call, handle, Window::local(as_bytes("far")), far);
         EXPECT_OK(wrote);
         EXPECT_EQ((co_await f.stat(node)).size, far + 3);
         EXPECT_EQ(co_await f.read(handle, far - 1, 10), string("\0far", 4));
         EXPECT_LT((co_await f.stat(node)).bytes_used, 1u << 20);
     }},
    {"OffsetAboveTheMaximumIsRefused",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.file(root_node, "file");
         const FileHandle handle = co_await f.open(node);
         const Window x = Window::local(as_bytes("xy"));
         EXPECT_FALSE(co_await f.fs.pwrite(f.call, handle, x, INT64_MAX));
         EXPECT_FALSE(co_await f.fs.pwrite(f.call, handle, x, UINT64_MAX));
         EXPECT_FALSE(co_await f.fs.pwrite(f.call, handle, x, uint64_t{INT64_MAX} - 1));
         EXPECT_FALSE(co_await f.fs.set_attributes(f.call, node, {.size = UINT64_MAX}));
         EXPECT_EQ((co_await f.stat(node)).size, 0u);
         co_await f.write(handle, "abc", 0);
         std::array<std::byte, 4> into{};
         for (const uint64_t offset : {uint64_t{UINT64_MAX}, uint64_t{INT64_MAX}}) {
             const auto read =
                 co_await f.fs.pread(f.call, handle, Window::local(Bytes(into)), offset);
             EXPECT_EQ(read.value_or(0), 0u) << offset;
         }
     }},
    {"TransfersAcrossChunkBordersAreExact",
     [](Fixture& f) -> Task<> {
         const uint64_t chunk = f.traits.chunk_bytes;
         const NodeId node = co_await f.file(root_node, "file");
         const FileHandle handle = co_await f.open(node);
         Twin twin(f, handle, node);
         for (const uint64_t at : {chunk - 1, chunk, 2 * chunk - 100, 3 * chunk - 4096}) {
             co_await twin.write(at, f.random_bytes(200));
             co_await twin.write(at, f.random_bytes(chunk + 5000));
             co_await twin.check();
         }
         for (const uint64_t at :
              {uint64_t{0}, chunk - 1, chunk - 4096, 2 * chunk - 1, 3 * chunk}) {
             for (const uint64_t length :
                  {uint64_t{1}, uint64_t{2}, uint64_t{4096}, chunk, 2 * chunk + 2}) {
                 co_await twin.check_part(at, length);
             }
         }
     }},
    {"WriteOfManyChunksIsReadBack",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.file(root_node, "file");
         const FileHandle handle = co_await f.open(node);
         Twin twin(f, handle, node);
         const uint64_t length = std::min<uint64_t>(40 * f.traits.chunk_bytes, 8 << 20);
         co_await twin.write(0, f.random_bytes(length));
         co_await twin.check();
         co_await twin.write(3, f.random_bytes(length));
         co_await twin.check();
     }},
    {"UnalignedWritesAreReadBack",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.file(root_node, "file");
         const FileHandle handle = co_await f.open(node);
         Twin twin(f, handle, node);
         for (const uint64_t size : {1, 2, 3, 511, 512, 513, 4095, 4096, 4097, 8191, 12288}) {
             co_await twin.write(twin.size(), f.random_bytes(size));
             co_await twin.write(twin.size() / 2, f.random_bytes(size / 3 + 1));
             co_await twin.check();
         }
     }},
    {"RandomChangesAgreeWithACopy",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.file(root_node, "file");
         const FileHandle handle = co_await f.open(node);
         Twin twin(f, handle, node);
         const uint64_t span = std::min<uint64_t>(4 * f.traits.chunk_bytes, 3 << 20);
         for (int i = 0; i < 60; ++i) {
             const uint64_t at = f.random.below(span);
             const uint64_t length = 1 + f.random.below(f.random.one_in(4) ? span / 2 : 9000);
             switch (f.random.below(4)) {
                 case 0: co_await twin.truncate(f.random.below(span)); break;
                 case 1: co_await twin.punch(at, length); break;
                 default: co_await twin.write(at, f.random_bytes(length)); break;
             }
             co_await twin.check_part(f.random.below(span), 1 + f.random.below(span));
         }
         co_await twin.check();
     }},
    {"ShrinkingKeepsTheRemainingBytes",
     [](Fixture& f) -> Task<> {
         const uint64_t chunk = f.traits.chunk_bytes;
         const NodeId node = co_await f.file(root_node, "file");
         const FileHandle handle = co_await f.open(node);
         Twin twin(f, handle, node);
         co_await twin.write(0, f.random_bytes(3 * chunk + 100));
         for (const uint64_t size :
              {3 * chunk + 99, 3 * chunk + 1, 3 * chunk, 3 * chunk - 1, chunk + 1, chunk, chunk - 1,
               uint64_t{4096}, uint64_t{5}, uint64_t{0}}) {
             co_await twin.truncate(size);
             co_await twin.check();
         }
     }},
    {"GrowingAddsZeros",
     [](Fixture& f) -> Task<> {
         const uint64_t chunk = f.traits.chunk_bytes;
         const NodeId node = co_await f.file(root_node, "file");
         const FileHandle handle = co_await f.open(node);
         Twin twin(f, handle, node);
         co_await twin.write(0, "abc");
         for (const uint64_t size :
              {uint64_t{4}, uint64_t{4096}, chunk - 1, chunk, chunk + 1, 3 * chunk}) {
             co_await twin.truncate(size);
             co_await twin.check();
         }
         co_await twin.write(2 * chunk - 1, "xyz");
         co_await twin.check();
     }},
    {"GrowingAfterShrinkingAddsZeros",
     [](Fixture& f) -> Task<> {
         const uint64_t chunk = f.traits.chunk_bytes;
         const NodeId node = co_await f.file(root_node, "file");
         const FileHandle handle = co_await f.open(node);
         Twin twin(f, handle, node);
         co_await twin.write(0, string(2 * chunk, 'x'));
         for (const uint64_t cut : {chunk + 10, chunk, uint64_t{100}, uint64_t{0}}) {
             co_await twin.truncate(cut);
             co_await twin.truncate(2 * chunk);
             co_await twin.check();  // zeros, not the old bytes
         }
         co_await twin.write(2 * chunk, "y");
         co_await twin.check();
     }},
    {"TruncationToTheSameSizeKeepsBytes",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.file(root_node, "file", "12345");
         EXPECT_EQ((co_await f.fs.set_attributes(f.call, node, {.size = 5}))->size, 5u);
         EXPECT_EQ(co_await f.contents(node), "12345");
     }},
    {"TruncationOfADirectoryOrLinkIsRefused",
     [](Fixture& f) -> Task<> {
         const NodeId dir = co_await f.directory(root_node, "dir");
         EXPECT_FAILS(is_directory, co_await f.fs.set_attributes(f.call, dir, {.size = 0}));
         const NodeId link = co_await f.symlink(root_node, "link", "x");
         EXPECT_FALSE(co_await f.fs.set_attributes(f.call, link, {.size = 0}));
     }},
    {"OpenHandleSeesATruncation",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.file(root_node, "file", "1234567890");
         const FileHandle handle = co_await f.open(node);
         EXPECT_OK(co_await f.fs.set_attributes(f.call, node, {.size = 4}));
         EXPECT_EQ(co_await f.read(handle, 0, 100), "1234");
         co_await f.write(handle, "X", 8);
         EXPECT_EQ(co_await f.read(handle, 0, 100), string("1234\0\0\0\0X", 9));
     }},
    {"PunchedRangesReadAsZeros",
     [](Fixture& f) -> Task<> {
         const uint64_t chunk = f.traits.chunk_bytes;
         const NodeId node = co_await f.file(root_node, "file");
         const FileHandle handle = co_await f.open(node);
         Twin twin(f, handle, node);
         const std::pair<uint64_t, uint64_t> holes[] = {
             {0, 1},         {0, 4096},       {1, 4094},          {chunk - 1, 2},
             {chunk, chunk}, {10, 3 * chunk}, {3 * chunk, chunk}, {3 * chunk + 50, 4 * chunk},
             {0, 4 * chunk}, {9 * chunk, 100}};
         for (const auto& [offset, length] : holes) {
             co_await twin.write(0, f.random_bytes(3 * chunk + 77));
             co_await twin.punch(offset, length);
             co_await twin.check();
         }
     }},
    {"PunchFreesSpace",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.file(root_node, "file", f.random_bytes(1 << 20));
         const FileHandle handle = co_await f.open(node);
         const uint64_t before = (co_await f.stat(node)).bytes_used;
         EXPECT_GE(before, 1u << 20);
         EXPECT_OK(co_await f.fs.punch_hole(f.call, handle, 0, 1 << 19));
         EXPECT_LE((co_await f.stat(node)).bytes_used, before - (1 << 19));
         EXPECT_EQ((co_await f.stat(node)).size, 1u << 20);
     }},
    {"AllocatedRangesReadAsBefore",
     [](Fixture& f) -> Task<> {
         const uint64_t chunk = f.traits.chunk_bytes;
         const NodeId node = co_await f.file(root_node, "file");
         const FileHandle handle = co_await f.open(node);
         Twin twin(f, handle, node);
         if (!co_await twin.allocate(0, 100, false)) GTEST_SKIP_CO("it cannot allocate");
         co_await twin.check();
         const std::pair<uint64_t, uint64_t> ranges[] = {
             {0, 1}, {5, chunk}, {chunk - 1, 2}, {10, 3 * chunk}, {4 * chunk + 9, 100}};
         for (const bool keeps_size : {true, false}) {
             for (const auto& [offset, length] : ranges) {
                 co_await twin.truncate(0);
                 co_await twin.write(100, f.random_bytes(1000));
                 co_await twin.write(2 * chunk - 50, f.random_bytes(100));
                 if (keeps_size) co_await twin.truncate(5 * chunk);
                 EXPECT_TRUE(co_await twin.allocate(offset, length, keeps_size));
                 co_await twin.check();
             }
         }
     }},
    {"AllocatedRangeHasSpace",
     [](Fixture& f) -> Task<> {
         constexpr uint64_t mib = 1 << 20;
         const NodeId node = co_await f.file(root_node, "file");
         const FileHandle handle = co_await f.open(node);
         Twin twin(f, handle, node);
         if (!co_await twin.allocate(0, mib, false)) GTEST_SKIP_CO("it cannot allocate");
         EXPECT_GE((co_await f.stat(node)).bytes_used, mib);
         co_await twin.truncate(3 * mib);
         EXPECT_TRUE(co_await twin.allocate(2 * mib, mib, true));
         const uint64_t used = (co_await f.stat(node)).bytes_used;
         EXPECT_GE(used, 2 * mib);
         EXPECT_LT(used, 3 * mib);
         co_await twin.check();
     }},
    {"AllocationTakesNoWriteBack",
     [](Fixture& f) -> Task<> {
         const uint64_t length = 2 * f.traits.chunk_bytes;
         const FileHandle handle = co_await f.open(co_await f.file(root_node, "file"));
         const auto first = co_await f.fs.allocate(f.call, handle, 0, length, false);
         if (!first) GTEST_SKIP_CO("it cannot allocate");
         bool done = false;
         Nursery nursery(f.reactor, 1);
         co_await nursery.spawn(allocate_again(f, handle, length, done));
         for (int turn = 0; turn < 20; ++turn) {
             const string text = f.random_bytes(100);
             const uint64_t offset = f.random.below(length - text.size());
             co_await f.write(handle, text, offset);
             co_await sleep_for(f.reactor, std::chrono::microseconds(50));
             EXPECT_TRUE(co_await f.read(handle, offset, text.size()) == text) << turn;
         }
         done = true;
         co_await nursery.join();
     }},
    {"InvalidAllocationIsRefused",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.file(root_node, "file", "abc");
         const FileHandle handle = co_await f.open(node);
         const auto first = co_await f.fs.allocate(f.call, handle, 0, 1, false);
         if (!first) GTEST_SKIP_CO("it cannot allocate");
         EXPECT_FAILS(invalid, co_await f.fs.allocate(f.call, handle, 0, 0, false));
         EXPECT_FAILS(invalid,
                      co_await f.fs.allocate(f.call, handle, uint64_t{INT64_MAX}, 2, false));
         const FileHandle reader = co_await f.open(node, f.reading);
         EXPECT_FAILS(denied, co_await f.fs.allocate(f.call, reader, 0, 1, false));
         EXPECT_EQ(co_await f.read(handle, 0, 10), "abc");
     }},
    // A file system may call a part of a hole data, but never the opposite.
    {"SeekFindsAllData",
     [](Fixture& f) -> Task<> {
         constexpr uint64_t mib = 1 << 20;
         const NodeId node = co_await f.file(root_node, "file", "");
         const FileHandle handle = co_await f.open(node);
         const auto seek = [&f, handle](uint64_t offset, SeekFor what) {
             return f.fs.seek(f.call, handle, offset, what);
         };
         const Result<uint64_t> none = fail_errno(ENXIO);
         EXPECT_EQ(co_await seek(0, SeekFor::data), none);
         co_await f.write(handle, f.random_bytes(100), 5 * mib + 10);
         co_await f.write(handle, f.random_bytes(3 * mib), 12 * mib - 7);
         const uint64_t size = 30 * mib;
         EXPECT_OK(co_await f.fs.set_attributes(f.call, node, {.size = size}));
         EXPECT_EQ(co_await seek(size, SeekFor::data), none);
         EXPECT_EQ(co_await seek(size, SeekFor::hole), none);
         const std::pair<uint64_t, uint64_t> written[] = {{5 * mib + 10, 5 * mib + 110},
                                                          {12 * mib - 7, 15 * mib - 7}};
         uint64_t data_bytes = 0;
         for (uint64_t at = 0; at < size;) {
             const auto data = co_await seek(at, SeekFor::data);
             if (!data) {
                 EXPECT_EQ(data, none);
                 EXPECT_GE(at, written[1].second);
                 break;
             }
             const auto hole = co_await seek(*data, SeekFor::hole);
             CO_ASSERT(hole.has_value());
             EXPECT_LT(*data, *hole);
             for (const auto& [begin, end] : written) {
                 EXPECT_TRUE(*data >= end || begin >= at) << begin;
                 if (*data < end && begin < *hole) {
                     EXPECT_LE(*data, begin);
                     EXPECT_GE(*hole, end);
                 }
             }
             data_bytes += *hole - *data;
             at = *hole;
         }
         EXPECT_GE(data_bytes, 3 * mib + 100);
         if (f.traits.finds_holes) EXPECT_LE(data_bytes, 8 * mib);
     }},
    {"EmptyPunchIsRefused",
     [](Fixture& f) -> Task<> {
         const FileHandle handle = co_await f.open(co_await f.file(root_node, "file", "abc"));
         EXPECT_FAILS(invalid, co_await f.fs.punch_hole(f.call, handle, 0, 0));
         EXPECT_EQ(co_await f.read(handle, 0, 10), "abc");
     }},
    {"OnlyWrittenBytesUseSpace",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.file(root_node, "file");
         EXPECT_EQ((co_await f.stat(node)).bytes_used, 0u);
         EXPECT_OK(co_await f.fs.set_attributes(f.call, node, {.size = 10 << 20}));
         EXPECT_LT((co_await f.stat(node)).bytes_used, 1u << 20);
         const FileHandle handle = co_await f.open(node);
         co_await f.write(handle, f.random_bytes(65536), 0);
         EXPECT_GE((co_await f.stat(node)).bytes_used, 65536u);
     }},
    {"ConcurrentWritesAllTakeEffect",
     [](Fixture& f) -> Task<> {
         const FileHandle handle = co_await f.open(co_await f.file(root_node, "file"));
         Nursery nursery(f.reactor, 16);
         string wanted;
         for (int i = 0; i < 26; ++i) {
             const char mark = static_cast<char>('a' + i);
             co_await nursery.spawn(write_block(f, handle, mark, i * 4096, 4096));
             wanted += string(4096, mark);
         }
         co_await nursery.join();
         EXPECT_EQ(co_await f.read(handle, 0, 1 << 20), wanted);
     }},
    {"OverlappingWritesAreAtomic",
     [](Fixture& f) -> Task<> {
         // Within a chunk a write is atomic: readers see one writer's bytes or the other's.
         const FileHandle handle =
             co_await f.open(co_await f.file(root_node, "file", string(4096, '0')));
         bool torn = false;
         for (int round = 0; round < 10; ++round) {
             Nursery nursery(f.reactor, 16);
             for (int i = 0; i < 8; ++i) {
                 co_await nursery.spawn(
                     write_block(f, handle, static_cast<char>('a' + i), 0, 4096));
                 co_await nursery.spawn(read_block(f, handle, 0, 4096, torn));
             }
             co_await nursery.join();
         }
         EXPECT_FALSE(torn);
     }},
    {"ReadOfAGrowingFileSeesNoFalseZeros",
     [](Fixture& f) -> Task<> {
         // The file grows by whole blocks while it is read: a read ends early or returns the bytes.
         const FileHandle handle = co_await f.open(co_await f.file(root_node, "file"));
         bool torn = false;
         Nursery nursery(f.reactor, 16);
         const uint64_t block = f.traits.chunk_bytes / 4;
         for (uint64_t i = 0; i < 16; ++i) {
             co_await nursery.spawn(write_block(f, handle, 'x', i * block, block));
             co_await nursery.spawn(read_block(f, handle, i * block, block, torn));
             co_await nursery.spawn(read_block(f, handle, i * block, block, torn));
             co_await nursery.join();
         }
         EXPECT_FALSE(torn);
     }},
    {"FsyncSucceedsUntilClose",
     [](Fixture& f) -> Task<> {
         const FileHandle handle = co_await f.open(co_await f.file(root_node, "file", "x"));
         EXPECT_OK(co_await f.fs.fsync(f.call, handle));
         co_await f.close(handle);
         EXPECT_FAILS(stale, co_await f.fs.fsync(f.call, handle));
     }},
    {"WritesUpdateTheTimes",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.file(root_node, "file", "x");
         const FileHandle handle = co_await f.open(node);
         const Attributes before = co_await f.stat(node);
         co_await f.later();
         co_await f.write(handle, "y", 0);
         const Attributes written = co_await f.stat(node);
         EXPECT_GT(written.modified, before.modified);
         EXPECT_GT(written.changed, before.changed);
         co_await f.later();
         co_await f.read(handle, 0, 10);
         EXPECT_EQ((co_await f.stat(node)).modified, written.modified);
         EXPECT_EQ((co_await f.stat(node)).changed, written.changed);
         for (const uint64_t size : {1u, 5000u, 0u, 0u}) {
             const Attributes last = co_await f.stat(node);
             co_await f.later();
             EXPECT_OK(co_await f.fs.set_attributes(f.call, node, {.size = size}));
             EXPECT_GT((co_await f.stat(node)).modified, last.modified) << "truncate to " << size;
         }
     }},
    {"PathReportCountsTransfers",
     [](Fixture& f) -> Task<> {
         const FileHandle handle = co_await f.open(co_await f.file(root_node, "file"));
         co_await f.write(handle, "12345", 0);
         co_await f.write(handle, "12345", 5);
         co_await f.read(handle, 0, 7);
         const auto report = f.fs.path_report(handle);
         CO_ASSERT(report.has_value());
         EXPECT_FALSE(report->path.empty());
         EXPECT_EQ(report->writes, 2u);
         EXPECT_EQ(report->written_bytes, 10u);
         EXPECT_EQ(report->reads, 1u);
         EXPECT_EQ(report->read_bytes, 7u);
         co_await f.close(handle);
         EXPECT_FAILS(stale, f.fs.path_report(handle));
     }},
};

}  // namespace

Cases file_cases() { return file_table; }

}  // namespace ros2s::fs::contract
