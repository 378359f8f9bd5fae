// The bytes of DFS's records, as in docs/formats/dfs.md. If a test fails here, existing file
// systems can no longer be read: add a version instead.
#include "records.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

namespace ros2s::fs {
namespace {

// records_fuzz starts with them, too.
constexpr std::string_view golden =
#include "fs_records_fuzz_seeds.txt"
    ;

TEST(DfsRecords, GoldenBytesMatch) {
    std::string lines = "\n";
    const auto add = [&lines](const auto& record) {
        for (const std::byte byte : object_bytes(record)) {
            lines += fmt::format("{:02x}", static_cast<unsigned>(byte));
        }
        lines += '\n';
    };
    add(Superblock{.chunk_bytes = 1 << 20, .created_ns = 0x0102030405060708});
    add(EntryRecord::of(NodeId{0x1122334455667788}, S_IFDIR | 0755));
    add(NumberRecord{.number = 1024});
    add(OrphanRecord{});
    add(InodeRecord{.target_bytes = 0x1234,
                    .mode = 0x81a4,
                    .links = 2,
                    .uid = 3,
                    .gid = 4,
                    .device = 5,
                    .parent = 6,
                    .created_ns = 7,
                    .accessed_ns = 8,
                    .modified_ns = 9,
                    .modified_epoch = 10,
                    .changed_ns = 11,
                    .changed_epoch = 12});
    EXPECT_EQ(lines, golden);
}

TEST(DfsRecords, ChunkKeysSortBeforeRecords) {
    EXPECT_LT(chunk_dkey(0), chunk_dkey(1));
    EXPECT_LT(chunk_dkey(file_bytes_max / block_bytes), chunks_end());
    EXPECT_LT(chunks_end(), record_dkey());
    EXPECT_EQ(object_of(root_node), (ObjectId{.high = 0x44465301, .low = 1}));
}

// A removal replaces an entry by an orphan, also in a container that uses more than its cap.
TEST(DfsRecords, OrphanIsNotLargerThanNameEntry) {
    EXPECT_LE(Dkey::integer(1).bytes.size() + orphan_akey().bytes.size() + sizeof(OrphanRecord),
              name_dkey("n").bytes.size() + entry_akey().bytes.size() + sizeof(EntryRecord));
}

TEST(DfsRecords, InvalidRecordIsRefused) {
    EntryRecord entry = EntryRecord::of(NodeId{5}, S_IFREG);
    EXPECT_TRUE(decode<EntryRecord>(object_bytes(entry)).has_value());
    EXPECT_EQ(decode<EntryRecord>(object_bytes(entry).first(15)).error().code, Code::corrupt);
    EXPECT_EQ(decode<EntryRecord>({}).error().code, Code::corrupt);
    EXPECT_EQ(decode<OrphanRecord>(object_bytes(entry)).error().code, Code::corrupt);
    entry.version = 2;
    EXPECT_EQ(decode<EntryRecord>(object_bytes(entry)).error(),
              (Error{.code = Code::bad_version, .detail = 2}));
    entry.version = 0;
    EXPECT_EQ(decode<EntryRecord>(object_bytes(entry)).error().code, Code::corrupt);
}

}  // namespace
}  // namespace ros2s::fs
