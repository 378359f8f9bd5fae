// Appending: each write goes to the end of the file at that moment.
#include <algorithm>

#include "suite.h"

namespace ros2s::fs::contract {
namespace {

using std::string;

Task<> append_lines(Fixture& f, NodeId node, char writer, int count, size_t length) {
    const FileHandle handle = co_await f.open(node, Fixture::appending);
    for (int i = 0; i < count; ++i) {
        co_await f.write(handle, string(length - 1, writer) + "\n", 0);
    }
    co_await f.close(handle);
}

// The number of lines, if all are whole and each consists of one letter.
int whole_lines(const string& bytes, size_t length) {
    int lines = 0;
    for (size_t at = 0; at < bytes.size(); at += length) {
        const string line = bytes.substr(at, length);
        if (line.size() != length || line != string(length - 1, line[0]) + "\n") return -1;
        ++lines;
    }
    return lines;
}

Task<> extend(Fixture& f, NodeId node, uint64_t offset) {
    const FileHandle handle = co_await f.open(node);
    co_await f.write(handle, "z", offset);
    co_await f.close(handle);
}

constexpr Case append_table[] = {
    {"OffsetIsIgnored",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.file(root_node, "file", "start");
         const FileHandle handle = co_await f.open(node, f.appending);
         co_await f.write(handle, "+1", 0);
         co_await f.write(handle, "+2", 1000);  // the offset is ignored
         EXPECT_EQ(co_await f.contents(node), "start+1+2");
         EXPECT_EQ(co_await f.read(handle, 5, 100), "+1+2");
     }},
    {"AppendToAnEmptyFileStartsAtZero",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.file(root_node, "file");
         const FileHandle handle = co_await f.open(node, f.appending);
         co_await f.write(handle, "x", 77);
         EXPECT_EQ(co_await f.contents(node), "x");
     }},
    {"AppendFollowsWritesOfOtherHandles",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.file(root_node, "file", "1");
         const FileHandle end = co_await f.open(node, f.appending);
         const FileHandle any = co_await f.open(node);
         co_await f.write(any, "2", 1);
         co_await f.write(end, "3", 0);
         co_await f.write(any, "4", 3);
         co_await f.write(end, "5", 0);
         EXPECT_EQ(co_await f.contents(node), "12345");
     }},
    {"AppendAfterTruncationUsesTheNewEnd",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.file(root_node, "file", "123456");
         const FileHandle handle = co_await f.open(node, f.appending);
         EXPECT_OK(co_await f.fs.set_attributes(f.call, node, {.size = 2}));
         co_await f.write(handle, "x", 0);
         EXPECT_OK(co_await f.fs.set_attributes(f.call, node, {.size = 5}));
         co_await f.write(handle, "y", 0);
         EXPECT_EQ(co_await f.contents(node), string("12x\0\0y", 6));
     }},
    {"AppendsAcrossChunksAreContiguous",
     [](Fixture& f) -> Task<> {
         const uint64_t chunk = f.traits.chunk_bytes;
         const NodeId node = co_await f.file(root_node, "file");
         const FileHandle handle = co_await f.open(node, f.appending);
         string wanted;
         for (const uint64_t size : {chunk - 3, uint64_t{2}, uint64_t{1}, uint64_t{1}, chunk - 1,
                                     2 * chunk + 5, uint64_t{9}}) {
             const string part = f.random_bytes(size);
             wanted += part;
             co_await f.write(handle, part, 0);
         }
         EXPECT_TRUE(co_await f.contents(node) == wanted);
     }},
    {"ConcurrentAppendsLoseNothing",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.file(root_node, "file");
         constexpr size_t length = 333;
         Nursery nursery(f.reactor, 8);
         for (int i = 0; i < 8; ++i) {
             co_await nursery.spawn(append_lines(f, node, static_cast<char>('a' + i), 20, length));
         }
         co_await nursery.join();
         EXPECT_EQ(whole_lines(co_await f.contents(node), length), 160);
     }},
    {"LargeConcurrentAppendsAreNotSplit",
     [](Fixture& f) -> Task<> {
         const NodeId node = co_await f.file(root_node, "file");
         const size_t length = f.traits.chunk_bytes + 777;
         Nursery nursery(f.reactor, 4);
         for (int i = 0; i < 3; ++i) {
             co_await nursery.spawn(append_lines(f, node, static_cast<char>('a' + i), 2, length));
         }
         co_await nursery.join();
         EXPECT_EQ(whole_lines(co_await f.contents(node), length), 6);
     }},
    {"AppendsBesideAnExtendingWriteLoseNothing",
     [](Fixture& f) -> Task<> {
         // A write that extends the file while others append never loses or splits a line.
         constexpr size_t length = 64;
         const NodeId node = co_await f.file(root_node, "file");
         Nursery nursery(f.reactor, 6);
         co_await nursery.spawn(append_lines(f, node, 'a', 10, length));
         co_await nursery.spawn(extend(f, node, 3 * f.traits.chunk_bytes));
         co_await nursery.spawn(append_lines(f, node, 'b', 10, length));
         co_await nursery.join();
         const string bytes = co_await f.contents(node);
         EXPECT_EQ(std::ranges::count(bytes, 'a'), 10 * 63);
         EXPECT_EQ(std::ranges::count(bytes, 'b'), 10 * 63);
         EXPECT_EQ(std::ranges::count(bytes, '\n'), 20);
     }},
};

}  // namespace

Cases append_cases() { return append_table; }

}  // namespace ros2s::fs::contract
