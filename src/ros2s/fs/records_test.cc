// The bytes of DFS's records, as docs/formats/dfs.md has them. A test that fails here means that
// file systems in the field cannot be read any more: add a version instead.
#include "records.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

namespace ros2s::fs {
namespace {

template <class Record>
std::string hex(const Record& record) {
    std::string text;
    for (const std::byte byte : object_bytes(record)) {
        text += fmt::format("{:02x}", static_cast<unsigned>(byte));
    }
    return text;
}

TEST(Records, HaveTheirBytes) {
    EXPECT_EQ(hex(Superblock{.chunk_bytes = 1 << 20, .created_ns = 0x0102030405060708}),
              "5301524f53324653"  // S, version, name
              "0100000000000000"  // format, features
              "0000100000000000"
              "0807060504030201" +
                  std::string(64, '0'));
    EXPECT_EQ(hex(EntryRecord::of(NodeId{0x1122334455667788}, S_IFDIR | 0755)),
              "45010400000000008877665544332211");
    EXPECT_EQ(hex(NumberRecord{.number = 1024}), "4e010000000000000004000000000000");
    EXPECT_EQ(hex(OrphanRecord{.node = 5}), "4f010000000000000500000000000000");
    EXPECT_EQ(hex(InodeRecord{.target_bytes = 0x1234,
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
                              .changed_epoch = 12}),
              "49013412a4810000"
              "0200000003000000"
              "0400000000000000"
              "0500000000000000"
              "0600000000000000"
              "0700000000000000"
              "0800000000000000"
              "0900000000000000"
              "0a00000000000000"
              "0b00000000000000"
              "0c00000000000000" +
                  std::string(32, '0'));
}

TEST(Records, KeysSortChunksBeforeRecords) {
    EXPECT_LT(chunk_dkey(0), chunk_dkey(1));
    EXPECT_LT(chunk_dkey(file_bytes_max / block_bytes), chunks_end());
    EXPECT_LT(chunks_end(), record_dkey());
    EXPECT_EQ(object_of(root_node), (ObjectId{.high = 0x44465301, .low = 1}));
}

TEST(Records, RefusesWhatIsNone) {
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
