// Bodies come back as they were; cut ones and ones beyond the limits are refused; golden bytes.
#include "wire.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ros2s/base/random.h"

namespace ros2s::hostlink {
namespace {

// Every prefix is refused, and what is longer too.
template <class Decode>
void refuses_other_lengths(ConstBytes body, Decode decode) {
    for (size_t length = 0; length < body.size(); ++length) {
        EXPECT_FALSE(decode(body.first(length))) << length;
    }
    Buffer longer(body.begin(), body.end());
    longer.push_back({});
    EXPECT_FALSE(decode(ConstBytes(longer)));
}

TEST(LinkWire, Files) {
    Buffer buffer;
    const FileBody body{.mount = {1}, .handle = {2}, .offset = ~0ULL, .length = 4, .crc = 5};
    const ConstBytes bytes = encode_file(buffer, body);
    EXPECT_EQ(decode_file(bytes), Result<FileBody>(body));
    refuses_other_lengths(bytes, decode_file);
    const ConstBytes moved = encode_moved(buffer, {.bytes = 7, .crc = 8});
    EXPECT_EQ(decode_moved(moved)->bytes, 7U);
    EXPECT_EQ(decode_moved(moved)->crc, 8U);
    refuses_other_lengths(moved, decode_moved);
}

TEST(LinkWire, Nodes) {
    Buffer buffer;
    const ConstBytes bytes = encode_node(buffer, {.mount = {1}, .node = {2}, .name = "name"});
    const auto node = decode_node(bytes);
    ASSERT_TRUE(node);
    EXPECT_EQ(node->name, "name");
    EXPECT_EQ(node->node, fs::NodeId{2});
    refuses_other_lengths(bytes, decode_node);
    const std::string long_name(fs::name_bytes_max + 2, 'x');
    EXPECT_FALSE(decode_node(encode_node(buffer, {.name = long_name})));

    const fs::Attributes attributes{.node = {3},
                                    .mode = 0100644,
                                    .links = 2,
                                    .uid = 4,
                                    .gid = 5,
                                    .size = 6,
                                    .bytes_used = 7,
                                    .device = 8,
                                    .accessed = WallTime{Duration{-1}},
                                    .modified = WallTime{Duration{9}},
                                    .changed = WallTime{Duration{10}}};
    const ConstBytes encoded = encode_attributes(buffer, attributes);
    const auto back = decode_attributes(encoded);
    ASSERT_TRUE(back);
    EXPECT_EQ(back->mode, attributes.mode);
    EXPECT_EQ(back->bytes_used, attributes.bytes_used);
    EXPECT_EQ(back->accessed, attributes.accessed);
    EXPECT_EQ(back->changed, attributes.changed);
    refuses_other_lengths(encoded, decode_attributes);
}

TEST(LinkWire, Directories) {
    Buffer buffer;
    const ConstBytes asked =
        encode_readdir(buffer, {.mount = {1}, .handle = {2}, .cookie = 3, .limit = 4096});
    EXPECT_EQ(decode_readdir(asked)->cookie, 3U);
    refuses_other_lengths(asked, decode_readdir);
    EXPECT_FALSE(decode_readdir(encode_readdir(buffer, {.limit = 4097})));

    std::vector<fs::DirectoryEntry> entries;
    for (uint64_t i = 1; i <= 10; ++i) {
        entries.push_back({.name = "entry" + std::to_string(i), .node = {i}, .cookie = i});
    }
    const ConstBytes whole = encode_entries(buffer, entries, 1 << 20);
    EXPECT_EQ(decode_entries(whole)->size(), 10U);
    EXPECT_EQ(decode_entries(whole)->back().name, "entry10");
    refuses_other_lengths(whole, decode_entries);
    const size_t enough_for_all = whole.size();
    EXPECT_EQ(decode_entries(encode_entries(buffer, entries, enough_for_all - 1))->size(), 9U);
    EXPECT_EQ(decode_entries(encode_entries(buffer, entries, 1))->size(), 1U);
}

TEST(LinkWire, ManyReads) {
    Buffer buffer;
    std::vector<fs::ReadManyItem> items{{.name = "a/b", .window = {.length = 10}},
                                        {.name = "", .window = {.length = 0}}};
    const ConstBytes asked = encode_read_many(buffer, {.mount = {1}, .directory = {2}}, items);
    EXPECT_EQ(asked.size(),
              20 + read_many_request_bytes(items[0]) + read_many_request_bytes(items[1]));
    std::vector<fs::ReadManyItem> back;
    ASSERT_TRUE(decode_read_many(asked, back));
    EXPECT_EQ(back.size(), 2U);
    EXPECT_EQ(back[0].name, "a/b");
    EXPECT_EQ(back[0].window.length, 10U);
    refuses_other_lengths(asked, [](ConstBytes body) {
        std::vector<fs::ReadManyItem> unused;
        return decode_read_many(body, unused).has_value();
    });

    items[0].bytes = 10;
    items[0].size = 12;
    items[1].status = fail(Code::not_found);
    std::vector<uint32_t> crcs{1, 2};
    const ConstBytes answers = encode_read_answers(buffer, items, crcs);
    EXPECT_EQ(answers.size(), 2 * read_many_answer_bytes);
    ASSERT_TRUE(decode_read_answers(answers, back, crcs));
    EXPECT_EQ(back[0].size, 12U);
    EXPECT_EQ(back[1].status, Result<>(fail(Code::not_found)));
    refuses_other_lengths(answers, [&](ConstBytes body) {
        return decode_read_answers(body, back, crcs).has_value();
    });
    // More than the window has.
    items[0].bytes = 11;
    EXPECT_FALSE(decode_read_answers(encode_read_answers(buffer, items, crcs), back, crcs));
}

// The bytes are for ever: a change of one of these is another version. What link_fuzz begins with,
// too: a line is the number that it chooses a body by, and the body.
constexpr std::string_view golden =
#include "hostlink_link_fuzz_seeds.txt"
    ;

TEST(LinkWire, Golden) {
    std::string lines = "\n";
    Buffer buffer;
    const auto add = [&lines](unsigned kind, ConstBytes body) {
        lines += fmt::format("{:02x} ", kind);
        for (const std::byte byte : body) {
            lines += fmt::format("{:02x}", static_cast<unsigned>(byte));
        }
        lines += '\n';
    };
    add(0, encode_file(buffer, {.mount = {0x0102030405060708},
                                .handle = {2},
                                .offset = 4096,
                                .length = 8192,
                                .crc = 0xaabbccdd}));
    add(1, encode_moved(buffer, {.bytes = 4096, .crc = 0xaabbccdd}));
    add(2, encode_node(buffer, {.mount = {1}, .node = {2}, .name = "name"}));
    add(3, encode_attributes(buffer, {.node = {3},
                                      .mode = 0100644,
                                      .links = 2,
                                      .uid = 4,
                                      .gid = 5,
                                      .size = 6,
                                      .bytes_used = 7,
                                      .device = 8,
                                      .accessed = WallTime{Duration{-1}},
                                      .modified = WallTime{Duration{9}},
                                      .changed = WallTime{Duration{10}}}));
    add(4, encode_readdir(buffer, {.mount = {1}, .handle = {2}, .cookie = 3, .limit = 4096}));
    const fs::DirectoryEntry entries[] = {
        {.name = "a", .node = {5}, .type = S_IFREG, .cookie = 6},
        {.name = "directory", .node = {7}, .type = S_IFDIR, .cookie = 8}};
    add(5, encode_entries(buffer, entries, 1000));
    fs::ReadManyItem items[] = {{.name = "a/b", .window = {.length = 1000}}, {.name = ""}};
    add(6, encode_read_many(buffer, {.mount = {1}, .directory = {2}}, items));
    items[0].bytes = 10;
    items[0].size = 12;
    items[1].status = fail(Error{Code::not_found, 2, 3});
    add(7, encode_read_answers(buffer, items, std::array{0xaabbccddU, 1U}));
    EXPECT_EQ(lines, golden);
}

}  // namespace
}  // namespace ros2s::hostlink
