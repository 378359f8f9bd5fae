// Bodies are decoded as they were encoded. Truncated ones and ones over the limits are refused.
// Golden bytes.
#include "wire.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "names_wire.h"
#include "ros2s/base/random.h"

namespace ros2s::hostlink {
namespace {

// Every prefix is refused, and so is a longer body.
template <class Decode>
void refuses_other_lengths(ConstBytes body, Decode decode) {
    for (size_t length = 0; length < body.size(); ++length) {
        EXPECT_FALSE(decode(body.first(length))) << length;
    }
    Buffer longer;
    longer.assign(body.data(), body.data() + body.size());
    longer.push_back({});
    EXPECT_FALSE(decode(ConstBytes(longer)));
}

template <class Body>
auto reader(auto fields) {
    return [fields](ConstBytes body) { return rpc::read_body<Body>(body, fields); };
}

TEST(LinkWire, FileBodiesRoundTrip) {
    Buffer buffer;
    const auto decode_file = reader<FileBody>(file_fields);
    const auto decode_moved = reader<MovedBody>(moved_fields);
    const FileBody body{.mount = {1}, .handle = {2}, .offset = ~0ULL, .length = 4, .crc = 5};
    const ConstBytes bytes = rpc::build(buffer, file_fields, body);
    EXPECT_EQ(decode_file(bytes), Result<FileBody>(body));
    refuses_other_lengths(bytes, decode_file);
    const ConstBytes moved = encode_moved(buffer, {.bytes = 7, .crc = 8});
    EXPECT_EQ(decode_moved(moved)->bytes, 7U);
    EXPECT_EQ(decode_moved(moved)->crc, 8U);
    refuses_other_lengths(moved, decode_moved);
}

TEST(LinkWire, NodeBodiesRoundTrip) {
    Buffer buffer;
    const auto decode_node = reader<NodeBody>(node_fields);
    const auto encode_node = [&](const NodeBody& body) {
        return rpc::build(buffer, node_fields, body);
    };
    const ConstBytes bytes = encode_node({.mount = {1}, .node = {2}, .name = "name"});
    const auto node = decode_node(bytes);
    ASSERT_TRUE(node);
    EXPECT_EQ(node->name, "name");
    EXPECT_EQ(node->node, fs::NodeId{2});
    refuses_other_lengths(bytes, decode_node);
    const std::string long_name(fs::name_bytes_max + 2, 'x');
    EXPECT_FALSE(decode_node(encode_node({.name = long_name})));

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
    const auto decode_attributes = reader<fs::Attributes>(attributes_fields);
    const ConstBytes encoded = rpc::build(buffer, attributes_fields, attributes);
    const auto back = decode_attributes(encoded);
    ASSERT_TRUE(back);
    EXPECT_EQ(back->mode, attributes.mode);
    EXPECT_EQ(back->bytes_used, attributes.bytes_used);
    EXPECT_EQ(back->accessed, attributes.accessed);
    EXPECT_EQ(back->changed, attributes.changed);
    refuses_other_lengths(encoded, decode_attributes);
}

TEST(LinkWire, DirectoryBodiesRoundTrip) {
    Buffer buffer;
    const auto decode_readdir = reader<ReaddirBody>(readdir_fields);
    const auto decode_entries = reader<std::vector<fs::DirectoryEntry>>(entries_fields);
    const ConstBytes asked =
        rpc::build(buffer, readdir_fields,
                   ReaddirBody{.mount = {1}, .handle = {2}, .cookie = 3, .limit = 4096});
    EXPECT_EQ(decode_readdir(asked)->cookie, 3U);
    refuses_other_lengths(asked, decode_readdir);
    EXPECT_FALSE(decode_readdir(rpc::build(buffer, readdir_fields, ReaddirBody{.limit = 4097})));

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

TEST(LinkWire, ReadManyBodiesRoundTrip) {
    Buffer buffer;
    std::vector<fs::ReadManyItem> items{{.name = "a/b", .window = {.length = 10}},
                                        {.name = "", .window = {.length = 0}}};
    const std::vector<uint32_t> groups{6, 7};
    const fs::Caller user{.uid = 4, .gid = 5, .groups = groups};
    const ConstBytes asked = rpc::build(buffer, with_user(read_many_fields), user,
                                        ReadManyBody{.mount = {1}, .directory = {2}}, items);
    EXPECT_EQ(asked.size(),
              40 + read_many_request_bytes(items[0]) + read_many_request_bytes(items[1]));
    std::vector<fs::ReadManyItem> back;
    fs::UserClaim claim;
    ASSERT_TRUE(decode_read_many(asked, claim, back));
    EXPECT_EQ(claim.uid, 4U);
    EXPECT_EQ(claim.gid, 5U);
    EXPECT_EQ(claim.groups, groups);
    EXPECT_EQ(back.size(), 2U);
    EXPECT_EQ(back[0].name, "a/b");
    EXPECT_EQ(back[0].window.length, 10U);
    refuses_other_lengths(asked, [](ConstBytes body) {
        std::vector<fs::ReadManyItem> unused;
        fs::UserClaim nobody;
        return decode_read_many(body, nobody, unused).has_value();
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
    // More than the window's size.
    items[0].bytes = 11;
    EXPECT_FALSE(decode_read_answers(encode_read_answers(buffer, items, crcs), back, crcs));
}

TEST(LinkWire, GroupsOverLimitAreRefused) {
    Buffer buffer;
    fs::UserClaim user{.uid = 1, .gid = 2, .groups = std::vector<uint32_t>(33, 7)};
    fs::UserClaim back;
    const auto nothing = [](auto&) {};
    EXPECT_FALSE(rpc::read(rpc::build(buffer, with_user(nothing), user), with_user(nothing), back));
    user.groups.pop_back();
    EXPECT_TRUE(rpc::read(rpc::build(buffer, with_user(nothing), user), with_user(nothing), back));
    EXPECT_EQ(back.groups, user.groups);
}

// A body about names: reading what was written, and writing it again, gives the same. Truncated and
// longer ones are refused.
template <class Body>
Body there_and_back(auto fields, const Body& body) {
    Buffer buffer, again;
    const ConstBytes bytes = rpc::build(buffer, fields, body);
    refuses_other_lengths(
        bytes, [&](ConstBytes other) { return rpc::read_body<Body>(other, fields).has_value(); });
    const auto back = rpc::read_body<Body>(bytes, fields);
    EXPECT_TRUE(back);
    if (!back) return {};
    EXPECT_TRUE(std::ranges::equal(rpc::build(again, fields, *back), bytes));
    return *back;
}

const MakeBody make{.mount = {1},
                    .parent = {2},
                    .name = "name",
                    .mode = 0644,
                    .device = 3,
                    .owner = {.uid = 4, .gid = 5},
                    .target = "target"};
const RenameBody rename_one{.mount = {1},
                            .parent = {2},
                            .name = "old",
                            .new_parent = {3},
                            .new_name = "new",
                            .flags = {.exchange = true, .owner = {.uid = 8, .gid = 9}}};
const SetAttributesBody changes{
    .mount = {1},
    .node = {2},
    .changes = {.mode = 0600, .gid = 0, .size = 7, .modified = WallTime{Duration{-8}}}};
const CreateBody create{.mount = {1},
                        .parent = {2},
                        .name = "name",
                        .mode = 0644,
                        .owner = {.uid = 4, .gid = 5},
                        .flags = {.write = true, .exclusive = true}};
const WalkBody walk{.mount = {1}, .path = "a/b", .last = fs::LastLink::keep};
const OpenPathBody open_path{.mount = {1},
                             .path = "a/b",
                             .how = {.flags = {.write = true},
                                     .creates = true,
                                     .follows = false,
                                     .mode = 0640,
                                     .owner = {.uid = 4, .gid = 5}}};
const NamesBody many_names{.mount = {1},
                           .parent = {2},
                           .mode = 0640,
                           .owner = {.uid = 4, .gid = 5},
                           .names = {"a", "name"}};
const ReaddirManyBody read_entries{
    .mount = {1}, .node = {2}, .handle = {3}, .cookie = 4, .limit = 256};
const std::vector<FoundName> found_names{{.result = fs::Attributes{.node = {3}, .size = 5}},
                                         {.result = fail(Error{Code::not_found, 2, 3})}};
const std::vector<FoundEntry> found_entries{
    {.entry = {.name = "a", .node = {5}, .type = S_IFREG, .cookie = 6},
     .result = fs::Attributes{.node = {5}}},
    {.entry = {.name = "b", .node = {7}, .type = S_IFDIR, .cookie = 8}, .result = fail(Code::io)}};
const fs::Walked walked{
    .parent = {2}, .name = "b", .attributes = fs::Attributes{.node = {3}, .mode = 4, .size = 5}};
const ForgetBody dropped{.mount = {1}, .nodes = {{{2}, 3}, {{4}, 5}}};

TEST(LinkWire, NameBodiesRoundTrip) {
    EXPECT_EQ(there_and_back(make_fields, make).owner.gid, 5U);
    EXPECT_EQ(there_and_back(link_fields, LinkBody{.parent = {3}}).parent, fs::NodeId{3});
    EXPECT_TRUE(there_and_back(rename_fields, rename_one).flags.exchange);
    const auto changed = there_and_back(set_attributes_fields, changes).changes;
    EXPECT_EQ(changed.mode, 0600U);
    EXPECT_FALSE(changed.uid);
    EXPECT_EQ(changed.gid, 0U);
    EXPECT_EQ(changed.modified, changes.changes.modified);
    EXPECT_EQ(there_and_back(set_xattr_fields, SetXattrBody{.how = fs::SetXattr::replace}).how,
              fs::SetXattr::replace);
    EXPECT_TRUE(there_and_back(open_fields, OpenBody{.flags = {.append = true}}).flags.append);
    EXPECT_TRUE(there_and_back(open_fields, OpenBody{.flags = {.execute = true}}).flags.execute);
    const OpenBody keeping{.flags = {.keeps_set_ids = true}};
    EXPECT_TRUE(there_and_back(open_fields, keeping).flags.keeps_set_ids);
    const SetAttributesBody kept{.changes = {.keeps_set_ids = true}};
    EXPECT_TRUE(there_and_back(set_attributes_fields, kept).changes.keeps_set_ids);
    const SetAttributesBody cleared{.changes = {.clears_set_ids = true}};
    EXPECT_TRUE(there_and_back(set_attributes_fields, cleared).changes.clears_set_ids);
    EXPECT_TRUE(there_and_back(create_fields, create).flags.exclusive);
    EXPECT_EQ(there_and_back(handle_fields, HandleBody{.handle = {9}}).handle, fs::FileHandle{9});
    EXPECT_EQ(there_and_back(forget_fields, dropped).nodes.back().count, 5U);
    EXPECT_EQ(there_and_back(mount_fields, MountBody{.mount = {1}}).mount, session::MountId{1});
    EXPECT_EQ(there_and_back(opened_fields, fs::Opened{.handle = {9}}).handle, fs::FileHandle{9});
    EXPECT_EQ(there_and_back(content_fields, std::string("bytes")), "bytes");
    const std::vector<std::string> names{"user.a", "user.b"};
    EXPECT_EQ(there_and_back(xattr_names_fields, names), names);
    EXPECT_EQ(there_and_back(space_fields, fs::FileSystemSpace{.files = 3}).files, 3U);
    EXPECT_EQ(there_and_back(walk_fields, walk).last, fs::LastLink::keep);
    EXPECT_FALSE(there_and_back(open_path_fields, open_path).how.follows);
    EXPECT_EQ(there_and_back(names_fields, many_names).names.size(), 2U);
    EXPECT_EQ(there_and_back(readdir_many_fields, read_entries).limit, 256U);
    const auto found = there_and_back(found_names_fields, found_names);
    EXPECT_EQ(found[0].result->size, 5U);
    EXPECT_EQ(found[1].result.error().code, Code::not_found);
    const auto listed = there_and_back(found_entries_fields, found_entries);
    EXPECT_EQ(listed[0].result->node, fs::NodeId{5});
    EXPECT_FALSE(listed[1].result);
    EXPECT_TRUE(there_and_back(codes_fields, CodesBody{}).codes.empty());
    EXPECT_EQ(there_and_back(codes_fields, CodesBody{.codes = {0, 7}}).codes[1], 7);
    for (const Result<>& result : {Result<>(), Result<>(fail(Code::not_found)),
                                   Result<>(fail_errno(EACCES)), Result<>(fail_errno(EPERM))}) {
        EXPECT_EQ(result_of(code_of(result)), result);
    }
    EXPECT_EQ(there_and_back(open_path_fields, open_path).how.mode, 0640U);
    EXPECT_EQ(there_and_back(walked_fields, walked).attributes->size, 5U);
    EXPECT_FALSE(there_and_back(walked_fields, fs::Walked{.name = "name"}).attributes);
}

TEST(LinkWire, OversizedNamesAreRefused) {
    Buffer buffer;
    const auto is_refused = [&](auto fields, const auto& body) {
        return !rpc::read_body<std::remove_cvref_t<decltype(body)>>(
            rpc::build(buffer, fields, body), fields);
    };
    const std::string long_name(name_text_max + 1, 'x');
    const std::string long_target(target_text_max + 1, 'x');
    const std::string long_value(value_text_max + 1, 'x');
    EXPECT_TRUE(is_refused(make_fields, MakeBody{.name = long_name}));
    EXPECT_TRUE(is_refused(make_fields, MakeBody{.target = long_target}));
    EXPECT_TRUE(is_refused(create_fields, CreateBody{.name = long_name}));
    EXPECT_TRUE(is_refused(link_fields, LinkBody{.name = long_name}));
    EXPECT_TRUE(is_refused(rename_fields, RenameBody{.name = long_name}));
    EXPECT_TRUE(is_refused(rename_fields, RenameBody{.new_name = long_name}));
    EXPECT_TRUE(is_refused(set_xattr_fields, SetXattrBody{.name = long_name}));
    EXPECT_TRUE(is_refused(set_xattr_fields, SetXattrBody{.value = long_value}));
    EXPECT_TRUE(is_refused(set_xattr_fields, SetXattrBody{.how = static_cast<fs::SetXattr>(4)}));
    EXPECT_TRUE(
        is_refused(forget_fields, ForgetBody{.nodes = std::vector<Forgotten>(forgets_max + 1)}));
    EXPECT_TRUE(is_refused(content_fields, long_value));
    EXPECT_TRUE(is_refused(walk_fields, WalkBody{.path = long_target}));
    EXPECT_TRUE(is_refused(open_path_fields, OpenPathBody{.path = long_target}));
    constexpr size_t too_many = fs::names_together_max + 1;
    EXPECT_TRUE(
        is_refused(names_fields, NamesBody{.names = std::vector<std::string_view>(too_many)}));
    EXPECT_TRUE(is_refused(names_fields, NamesBody{.names = {long_name + "x"}}));
    EXPECT_TRUE(is_refused(found_names_fields, std::vector<FoundName>(too_many)));
    EXPECT_TRUE(is_refused(found_entries_fields, std::vector<FoundEntry>(too_many)));
    const std::vector<uint16_t> codes(fs::blocks_together_max + 1);
    EXPECT_TRUE(is_refused(codes_fields, CodesBody{.codes = codes}));
    EXPECT_TRUE(is_refused(readdir_many_fields, ReaddirManyBody{.limit = too_many}));
    EXPECT_TRUE(is_refused(walk_fields, WalkBody{.last = static_cast<fs::LastLink>(3)}));
    EXPECT_TRUE(is_refused(walked_fields, fs::Walked{.name = long_target}));
    EXPECT_TRUE(is_refused(xattr_names_fields, std::vector<std::string>{long_name}));
    const auto are_refused = [&](fs::BlockWork work, std::vector<SentBlock> blocks) {
        BlocksBody body{.work = work};
        const ConstBytes sent = rpc::build(buffer, blocks_fields, body, blocks);
        return !rpc::read(sent, blocks_fields, body, blocks);
    };
    EXPECT_TRUE(are_refused({}, std::vector<SentBlock>(fs::blocks_together_max + 1)));
    EXPECT_TRUE(are_refused({}, {{.key = std::string_view(long_name).substr(0, 66)}}));
    EXPECT_TRUE(are_refused(static_cast<fs::BlockWork>(6), {}));
    EXPECT_FALSE(are_refused({}, {{.key = std::string_view(long_name).substr(0, 65)}}));
    // A value without its flag, and a flag that is neither 0 nor 1.
    Buffer open, none;
    open.resize(rpc::build(buffer, open_fields, OpenBody{}).size());
    open.back() = std::byte{2};
    EXPECT_FALSE(rpc::read_body<OpenBody>(open, open_fields));
    none.resize(rpc::build(buffer, set_attributes_fields, SetAttributesBody{}).size());
    EXPECT_TRUE(rpc::read_body<SetAttributesBody>(none, set_attributes_fields));
    const size_t flags_behind_the_value = 2;
    none[none.size() - 1 - flags_behind_the_value] = std::byte{1};
    EXPECT_FALSE(rpc::read_body<SetAttributesBody>(none, set_attributes_fields));
}

// These bytes never change: a change needs another version. link_fuzz starts with them, too: a line
// is the number by which it chooses a body, and the body.
constexpr std::string_view golden =
#include "hostlink_link_fuzz_seeds.txt"
    ;

TEST(LinkWire, GoldenBytesMatch) {
    std::string lines = "\n";
    Buffer buffer;
    const auto add = [&lines](unsigned kind, ConstBytes body) {
        lines += fmt::format("{:02x} ", kind);
        for (const std::byte byte : body) {
            lines += fmt::format("{:02x}", static_cast<unsigned>(byte));
        }
        lines += '\n';
    };
    add(0, rpc::build(buffer, file_fields,
                      FileBody{.mount = {0x0102030405060708},
                               .handle = {2},
                               .offset = 4096,
                               .length = 8192,
                               .crc = 0xaabbccdd}));
    add(1, encode_moved(buffer, {.bytes = 4096, .crc = 0xaabbccdd}));
    const std::vector<uint32_t> groups{6, 7};
    const fs::Caller user{.uid = 4, .gid = 5, .groups = groups};
    const auto request = [&](auto fields, const auto& body) {
        return rpc::build(buffer, with_user(fields), user, body);
    };
    add(2, request(node_fields, NodeBody{.mount = {1}, .node = {2}, .name = "name"}));
    add(3, rpc::build(buffer, attributes_fields,
                      fs::Attributes{.node = {3},
                                     .mode = 0100644,
                                     .links = 2,
                                     .uid = 4,
                                     .gid = 5,
                                     .size = 6,
                                     .bytes_used = 7,
                                     .device = 8,
                                     .accessed = WallTime{Duration{-1}},
                                     .modified = WallTime{Duration{9}},
                                     .changed = WallTime{Duration{10}},
                                     .created = WallTime{Duration{11}},
                                     .flags = 12}));
    add(4, rpc::build(buffer, readdir_fields,
                      ReaddirBody{.mount = {1}, .handle = {2}, .cookie = 3, .limit = 4096}));
    const fs::DirectoryEntry entries[] = {
        {.name = "a", .node = {5}, .type = S_IFREG, .cookie = 6},
        {.name = "directory", .node = {7}, .type = S_IFDIR, .cookie = 8}};
    add(5, encode_entries(buffer, entries, 1000));
    fs::ReadManyItem items[] = {{.name = "a/b", .window = {.length = 1000}}, {.name = ""}};
    add(6, rpc::build(buffer, with_user(read_many_fields), user,
                      ReadManyBody{.mount = {1}, .directory = {2}}, std::span(items)));
    items[0].bytes = 10;
    items[0].size = 12;
    items[1].status = fail(Error{Code::not_found, 2, 3});
    add(7, encode_read_answers(buffer, items, std::array{0xaabbccddU, 1U}));
    add(12, request(make_fields, make));
    add(13,
        request(link_fields, LinkBody{.mount = {1}, .node = {2}, .parent = {3}, .name = "name"}));
    add(14, request(rename_fields, rename_one));
    add(15, request(set_attributes_fields, changes));
    add(16, request(set_xattr_fields, SetXattrBody{.mount = {1},
                                                   .node = {2},
                                                   .name = "user.x",
                                                   .value = "value",
                                                   .how = fs::SetXattr::create}));
    add(17, request(open_fields, OpenBody{.mount = {1}, .node = {2}, .flags = {.append = true}}));
    add(18, request(create_fields, create));
    add(19, request(handle_fields, HandleBody{.mount = {1}, .handle = {2}}));
    add(20, request(forget_fields, dropped));
    add(21, request(mount_fields, MountBody{.mount = {1}}));
    add(22,
        rpc::build(buffer, opened_fields, fs::Opened{.handle = {1}, .attributes = {.size = 2}}));
    add(23, rpc::build(buffer, content_fields, std::string("content")));
    add(24, rpc::build(buffer, xattr_names_fields, std::vector<std::string>{"user.a", "user.b"}));
    add(25, rpc::build(buffer, space_fields,
                       fs::FileSystemSpace{
                           .total_bytes = 3, .free_bytes = 2, .files = 1, .files_max = 4}));
    add(26, request(walk_fields, walk));
    add(27, rpc::build(buffer, walked_fields, walked));
    add(28, request(open_path_fields, open_path));
    add(29, request(names_fields, many_names));
    add(30, rpc::build(buffer, found_names_fields, found_names));
    add(31, rpc::build(buffer, codes_fields, CodesBody{.codes = {0, 7}}));
    add(32, request(readdir_many_fields, read_entries));
    add(33, rpc::build(buffer, found_entries_fields, found_entries));
    add(34, rpc::build(buffer, pieces_fields,
                       FileBody{.mount = {0x0102030405060708}, .handle = {2}, .offset = 4096},
                       std::vector<uint32_t>{0xaabbccdd, 0x11223344}));
    const std::vector<Leased> leases{{.node = 5, .number = 10, .changed = WallTime{Duration{3}}}};
    add(35, rpc::build(buffer, news_fields,
                       session::LeaseNews{
                           .number = 1, .held_for = std::chrono::seconds(1), .recalled = leases}));
    add(36, request(node_read_fields, NodeReadBody{.mount = {1}, .node = {2}, .offset = 3}));
    add(37, rpc::build(buffer, leases_fields, leases));
    add(38, rpc::build(buffer, with_user(blocks_fields), user,
                       BlocksBody{.mount = {1}, .work = fs::BlockWork::pin, .pinned_for_ns = 2},
                       std::vector<SentBlock>{{.key = "k", .length = 10, .crc = 0xaabbccdd}}));
    EXPECT_EQ(lines, golden);
}

}  // namespace
}  // namespace ros2s::hostlink
