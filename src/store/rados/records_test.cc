// The records and names of docs/formats/rados.md, byte by byte, and what their readers refuse.
#include "records.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>

#include "ros2s/base/crc32c.h"

namespace ros2s::rados {
namespace {

std::string hex(std::string_view bytes) {
    std::string text;
    for (const char c : bytes) text += fmt::format("{:02x}", static_cast<uint8_t>(c));
    return text;
}

// With the CRC of the bytes before it.
std::string sealed(std::string bytes) {
    const uint32_t crc = crc32c(as_bytes(bytes));
    bytes.append(reinterpret_cast<const char*>(&crc), sizeof crc);
    return bytes;
}

template <class Record>
void expect_only_these_bytes(const Record& record, uint8_t newest) {
    const std::string value = encode(record);
    Record again;
    ASSERT_TRUE(decode(value, again));
    EXPECT_EQ(encode(again), value);
    // A damaged, shortened or longer record is refused, and so is one of another version.
    for (size_t i = 0; i < value.size(); ++i) {
        std::string damaged = value;
        damaged[i] = static_cast<char>(damaged[i] ^ 0x10);
        EXPECT_EQ(decode(damaged, again).error().code, Code::corrupt) << i;
        EXPECT_FALSE(decode(value.substr(0, i), again)) << i;
    }
    const std::string body = value.substr(0, value.size() - 4);
    EXPECT_EQ(decode(sealed(body + "x"), again).error().code, Code::corrupt);
    std::string newer = body;
    newer[1] = static_cast<char>(newest + 1);
    EXPECT_EQ(decode(sealed(newer), again).error(), (Error{Code::bad_version, 0, newest + 1U}));
    newer[1] = 0;
    EXPECT_EQ(decode(sealed(newer), again).error(), (Error{Code::bad_version, 0, 0}));
    std::string other = body;
    other[0] = 'Z';
    EXPECT_EQ(decode(sealed(other), again).error().code, Code::corrupt);
}

Uuid uuid(uint8_t first) {
    Uuid made;
    for (size_t i = 0; i < made.bytes.size(); ++i) made.bytes[i] = static_cast<uint8_t>(first + i);
    return made;
}

const Segment with_bytes_in_omap{.runs = {{.data = {.time = 1, .store = 2, .number = 3},
                                           .offset = 4096,
                                           .length = 5000,
                                           .checksums = {7, 8}},
                                          {.data = {.time = 4, .store = 0, .number = 5},
                                           .offset = 12288,
                                           .length = 100,
                                           .checksums = {9}}},
                                 .visible = {{.offset = 4097, .length = 10, .run = 0},
                                             {.offset = 12288, .length = 100, .run = 1}}};

// Where a fuzzer begins, too.
constexpr std::string_view golden =
#include "rados_records_fuzz_seeds.txt"
    ;

TEST(RadosRecords, BytesMatchTheFormat) {
    std::string lines = "\n";
    const auto add = [&lines](const auto& record, uint8_t newest = 1) {
        expect_only_these_bytes(record, newest);
        lines += hex(encode(record)) + '\n';
    };
    add(Head{.epoch = 1,
             .change = 2,
             .entries = 3,
             .lock = {.transaction = uuid(0x10), .coordinator = "t0", .key = "k", .created = true}},
        3);
    add(Column{.entries = 1, .blocks = 2, .last_epoch = 3, .last_time = WallTime(Duration(4))});
    add(InlineBytes{.bytes = 6});
    add(Entry{.is_array = false, .epoch = 5, .size = 3, .blocks = 0, .value = "abc"});
    add(Segment{.runs = {{.data = {.time = 1, .store = 2, .number = 3},
                          .offset = 4096,
                          .length = 5000,
                          .checksums = {7, 8}}},
                .visible = {{.offset = 4097, .length = 10, .run = 0}}},
        2);
    add(with_bytes_in_omap, 2);
    add(Pending{.set = {{"a", "b"}}, .remove = {{"c"}}});
    add(Coordination{.state = Coordination::State::committed,
                     .transaction = uuid(0x20),
                     .sequence = 1,
                     .digest = 2,
                     .epoch = 3,
                     .time = WallTime(Duration(4)),
                     .participants = {{"o1"}},
                     .before = "b"});
    add(PoolRecord{.id = uuid(0x30), .data = "bulk"});
    add(ClockRecord{.epoch = 9});
    add(ContainerValue{.id = uuid(0x40),
                       .chunk_bytes = 1 << 20,
                       .created = WallTime(Duration(5)),
                       .owner = "ann"});
    EXPECT_EQ(lines, golden);
}

// The first programs that put bytes into the omap wrote version 1.
TEST(RadosRecords, SegmentWithInlineBytesIsReadInVersion1) {
    const std::string value = encode(with_bytes_in_omap);
    std::string older = value.substr(0, value.size() - 4);
    older[1] = 1;
    Segment read;
    ASSERT_TRUE(decode(sealed(older), read));
    EXPECT_EQ(encode(read), value);
}

// Before objects decided transactions, heads had version 1, and before they had replies version 2.
TEST(RadosRecords, HeadsOfOlderVersionsAreRead) {
    const std::string value = encode(Head{.epoch = 1, .change = 2, .entries = 3, .lock = {}});
    EXPECT_EQ(value[1], 3) << "programs that do not know replies would read it";
    for (const char version : {1, 2}) {
        std::string older = value.substr(0, value.size() - 4);
        older[1] = version;
        Head read;
        ASSERT_TRUE(decode(sealed(older), read));
        EXPECT_EQ(encode(read), value);
    }
}

TEST(RadosRecords, InconsistentSegmentIsCorrupt) {
    const rados::Run run{.data = {}, .offset = 4096, .length = 8192, .checksums = {1, 2}};
    const auto code_of = [](const Segment& segment) {
        Segment read;
        const auto decoded = decode(encode(segment), read);
        return decoded ? std::optional<Code>() : decoded.error().code;
    };
    EXPECT_EQ(code_of({.runs = {run}, .visible = {{4096, 8192, 0}}}), std::nullopt);
    const auto with = [&run](auto change) {
        Segment segment{.runs = {run}, .visible = {{4096, 8192, 0}}};
        change(segment);
        return segment;
    };
    for (const Segment& bad : {
             with([](Segment& s) { s.runs[0].checksums.pop_back(); }),
             with([](Segment& s) { s.runs[0].length = 0; }),
             with([](Segment& s) { s.runs[0].length = segment_bytes + 1; }),
             with([](Segment& s) { s.runs[0].offset = segment_bytes - 4096; }),
             with([](Segment& s) { s.runs[0].offset = UINT64_MAX - 4096; }),
             with([](Segment& s) { s.visible[0].run = 1; }),
             with([](Segment& s) { s.visible[0].length = 0; }),
             with([](Segment& s) { s.visible[0].offset = 0; }),
             with([](Segment& s) { s.visible[0].length = 8193; }),
             with([](Segment& s) { s.visible[0] = {UINT64_MAX, 8192, 0}; }),
             with([](Segment& s) { s.visible = {{4096, 10, 0}, {4100, 10, 0}}; }),
             with([&run](Segment& s) {
                 s.runs.push_back(run);
                 s.runs[1].offset += segment_bytes;
             }),
         }) {
        EXPECT_EQ(code_of(bad), Code::corrupt);
    }
}

TEST(RadosRecords, InconsistentEntryIsCorrupt) {
    for (const Entry& bad : {Entry{.size = 2, .value = "abc"}, Entry{.size = 4, .value = "abc"},
                             Entry{.is_array = true, .size = 3, .value = "abc"},
                             Entry{.is_array = true, .size = object::array_bytes_max + 1}}) {
        Entry read;
        EXPECT_EQ(decode(encode(bad), read).error().code, Code::corrupt);
    }
}

TEST(RadosRecords, ChangeThatKeepsTheLockIsCorrupt) {
    Pending read;
    const auto decoded = decode(encode(Pending{.set = {}, .remove = {{"c"}}}), read);
    EXPECT_TRUE(!decoded && decoded.error().code == Code::corrupt);
}

TEST(RadosNames, NamesMatchTheFormat) {
    const object::ObjectId object{0x1, 0xab};
    EXPECT_EQ(object_name(object), "o000000000000000100000000000000ab");
    EXPECT_EQ(data_name(object, {.time = 2, .store = 3, .number = 4}),
              "d000000000000000100000000000000ab.000000000000000200000000000000030000000000000004");
    EXPECT_TRUE(is_log_name("t00000000000000cd"));
    EXPECT_EQ(slot_key(0x1f), "s0000001f");
    EXPECT_EQ(replies_name(uuid(0), uuid(0x10)),
              "r000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f");
    EXPECT_EQ(bytes_key({.time = 2, .store = 0, .number = 4}), "b00000000000000020000000000000004");
    EXPECT_EQ(decision_key(0x1a, uuid(0x10)), "f000000000000001a101112131415161718191a1b1c1d1e1f");
    EXPECT_EQ(change_of_decision_key(decision_key(0x1a, uuid(0x10))), 0x1aU);
    const std::string reply = reply_key({uuid(0x10), 0x1f, 1, uuid(0), 2});
    EXPECT_EQ(reply, "fn000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f0000001f");
    ASSERT_TRUE(place_of_reply_key(reply));
    EXPECT_EQ(place_of_reply_key(reply)->replies, replies_name(uuid(0), uuid(0x10)));
    EXPECT_EQ(place_of_reply_key(reply)->slot, slot_key(0x1f));
    EXPECT_FALSE(change_of_decision_key(reply));
    EXPECT_FALSE(place_of_reply_key(decision_key(0x1a, uuid(0x10))));
    const object::Dkey dkey{std::string("a\0b\1", 4)};
    const object::Akey akey{"x"};
    EXPECT_EQ(entry_key(dkey, akey), "ea\1\2b\1\3\1\1x\1\1");
    EXPECT_EQ(segment_key(entry_key(dkey, akey), 0x1a),
              "ea\1\2b\1\3\1\1x\1\1"
              "0000001a");
    EXPECT_EQ(column_key(akey), "cx\1\1");
    EXPECT_EQ(reverse_key({"b"}, akey), "rx\1\1\x9e\xff\xff");
    for (const char* const name :
         {"", "o", "o00", "d", "t", "t0000000000000xyz", "e", "ea", "ea\1\1"}) {
        EXPECT_FALSE(parse_object_name(name) || parse_data_name(name) || is_log_name(name) ||
                     parse_entry_key(name) || change_of_decision_key(name))
            << name;
    }
    // A byte 00 has one written form.
    EXPECT_FALSE(parse_entry_key(std::string("ea\0\1\1x\1\1", 8)));
}

}  // namespace
}  // namespace ros2s::rados
