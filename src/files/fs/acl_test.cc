#include "acl.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace ros2s::fs {
namespace {

using Tag = Acl::Tag;
using Entries = std::vector<Acl::Entry>;

std::string bytes_of(const Entries& entries, uint32_t version = 2) {
    std::string bytes(reinterpret_cast<const char*>(&version), sizeof version);
    for (const Acl::Entry& each : entries) {
        const auto tag = static_cast<uint16_t>(each.tag);
        bytes.append(reinterpret_cast<const char*>(&tag), sizeof tag);
        bytes.append(reinterpret_cast<const char*>(&each.permissions), sizeof each.permissions);
        bytes.append(reinterpret_cast<const char*>(&each.id), sizeof each.id);
    }
    return bytes;
}
Acl list_of(const Entries& entries) { return Acl::decode(as_bytes(bytes_of(entries))).value(); }

const Entries plain{{Tag::owner, 6}, {Tag::owning_group, 4}, {Tag::others, 0}};
const Entries named{{Tag::owner, 7},        {Tag::user, 6, 1001},  {Tag::user, 0, 1002},
                    {Tag::owning_group, 5}, {Tag::group, 7, 2000}, {Tag::mask, 6},
                    {Tag::others, 4}};

TEST(Acl, BytesRoundTrip) {
    for (const Entries& entries : {plain, named}) {
        EXPECT_EQ(list_of(entries).encode(), bytes_of(entries));
    }
    // As Linux writes u::rw-,g::r--,o::---.
    using namespace std::string_literals;
    EXPECT_EQ(bytes_of(plain),
              "\x02\0\0\0\x01\0\x06\0\xff\xff\xff\xff\x04\0\x04\0\xff\xff\xff\xff\x20\0\0\0"
              "\xff\xff\xff\xff"s);
}

TEST(Acl, NumberOfAnEntryWithoutNameIsIgnored) {
    Entries entries = plain;
    entries[0].id = 7;
    EXPECT_EQ(list_of(entries).encode(), bytes_of(plain));
}

TEST(Acl, InvalidBytesAreRefused) {
    const auto refused = [](const std::string& bytes) {
        const auto list = Acl::decode(as_bytes(bytes));
        return !list && list.error().code == Code::invalid;
    };
    EXPECT_TRUE(refused(""));
    EXPECT_TRUE(refused(bytes_of({})));
    EXPECT_TRUE(refused(bytes_of(plain, 1)));
    EXPECT_TRUE(refused(bytes_of(plain).substr(0, 27)));
    EXPECT_TRUE(refused(bytes_of(plain) + "x"));
    for (size_t left_out = 0; left_out < plain.size(); ++left_out) {
        Entries entries = plain;
        entries.erase(entries.begin() + static_cast<ptrdiff_t>(left_out));
        EXPECT_TRUE(refused(bytes_of(entries))) << left_out;
    }
    for (const Entries& entries : std::initializer_list<Entries>{
             {{Tag::owning_group, 4}, {Tag::owner, 6}, {Tag::others, 0}},
             {{Tag::owner, 6}, {Tag::owner, 6}, {Tag::owning_group, 4}, {Tag::others, 0}},
             {{Tag::owner, 8}, {Tag::owning_group, 4}, {Tag::others, 0}},
             {{Tag::owner, 6}, {Tag::user, 6, 1}, {Tag::owning_group, 4}, {Tag::others, 0}},
             {{Tag::owner, 6}, {Tag::owning_group, 4}, {Tag::group, 6, 1}, {Tag::others, 0}},
             {{Tag::owner, 6},
              {Tag::user, 6},
              {Tag::owning_group, 4},
              {Tag::mask, 7},
              {Tag::others, 0}},
             {{Tag::owner, 6},
              {Tag::owning_group, 4},
              {Tag::user, 6, 1},
              {Tag::mask, 7},
              {Tag::others, 0}},
             {{Tag::owner, 6}, {Tag::owning_group, 4}, {Tag::others, 0}, {Tag::mask, 7}},
             {{Tag::owner, 6}, {Tag::owning_group, 4}, {Tag::others, 0}, {Tag::others, 0}},
             {{Tag::owner, 6}, {Tag{3}, 4}, {Tag::owning_group, 4}, {Tag::others, 0}}}) {
        EXPECT_TRUE(refused(bytes_of(entries))) << entries.size();
    }
}

TEST(Acl, TooLargeListIsRefused) {
    Entries entries{{Tag::owner, 6}};
    for (uint32_t id = 0; id < 507; ++id) entries.push_back({Tag::user, 4, id});
    entries.insert(entries.end(), {{Tag::owning_group, 4}, {Tag::mask, 4}, {Tag::others, 0}});
    EXPECT_TRUE(Acl::decode(as_bytes(bytes_of(entries))));
    entries.insert(entries.begin() + 1, {Tag::user, 4, 1000});
    const auto list = Acl::decode(as_bytes(bytes_of(entries)));
    ASSERT_FALSE(list);
    EXPECT_EQ(list.error().code, Code::too_large);
}

TEST(Acl, ModeHasTheMaskAsGroupBits) {
    EXPECT_EQ(list_of(plain).mode(), 0640u);
    EXPECT_TRUE(list_of(plain).is_mode());
    EXPECT_EQ(list_of(named).mode(), 0764u);
    EXPECT_FALSE(list_of(named).is_mode());
}

TEST(Acl, NewModeChangesTheMaskOrElseTheGroup) {
    Acl list = list_of(named);
    list.change_mode(S_IFREG | 04710);
    EXPECT_EQ(list.mode(), 0710u);
    EXPECT_EQ(list.entries()[3].permissions, 5) << "the owning group's";
    EXPECT_EQ(list.entries()[5].permissions, 1) << "the mask";
    list = list_of(plain);
    list.change_mode(0751);
    EXPECT_EQ(list.entries()[1].permissions, 5);
}

TEST(Acl, NewNodeGetsWhatListAndModePermit) {
    Acl list = list_of(named);
    EXPECT_EQ(list.inherit(0640), 0640u);
    EXPECT_EQ(list.mode(), 0640u);
    EXPECT_EQ(list.entries()[5].permissions, 4) << "the mask";
    EXPECT_EQ(list.entries()[3].permissions, 5) << "the owning group's";
    list = list_of(plain);
    EXPECT_EQ(list.inherit(0777), 0640u);
    EXPECT_TRUE(list.is_mode());
}

TEST(Acl, UsersGetWhatTheirEntriesPermit) {
    const Acl list = list_of(named);  // of user 1000, group 1000
    const std::vector<uint32_t> staff{2000};
    const auto allows = [&](uint32_t uid, uint32_t gid, uint32_t wanted,
                            std::span<const uint32_t> groups = {}) {
        return list.allows({.uid = uid, .gid = gid, .groups = groups}, 1000, 1000, wanted);
    };
    EXPECT_TRUE(allows(0, 0, 7));
    EXPECT_TRUE(allows(1000, 1000, 7)) << "the owner, whatever the mask";
    EXPECT_TRUE(allows(1001, 1000, 6)) << "a named user, not the group";
    EXPECT_FALSE(allows(1001, 1001, 1));
    EXPECT_FALSE(allows(1002, 2000, 4)) << "named, so no group counts";
    EXPECT_TRUE(allows(1003, 1000, 4)) << "the owning group";
    EXPECT_FALSE(allows(1003, 1000, 1)) << "not in the mask";
    EXPECT_FALSE(allows(1003, 1000, 2));
    EXPECT_TRUE(allows(1003, 1003, 6, staff));
    EXPECT_TRUE(allows(1003, 1000, 6, staff)) << "one of the groups is enough";
    EXPECT_FALSE(allows(1003, 1003, 1, staff)) << "not in the mask";
    EXPECT_TRUE(allows(1004, 1004, 4)) << "others";
    EXPECT_FALSE(allows(1004, 1004, 2));
}

TEST(Acl, WithoutNamesItIsTheMode) {
    for (mode_t mode = 0; mode < 01000; ++mode) {
        Acl list = list_of(plain);
        list.change_mode(mode);
        for (const auto& [uid, gid] : {std::pair{1000u, 5u}, {1u, 1000u}, {1u, 1u}}) {
            for (uint32_t wanted = 1; wanted < 8; ++wanted) {
                const Caller caller{.uid = uid, .gid = gid};
                EXPECT_EQ(list.allows(caller, 1000, 1000, wanted),
                          allows(caller, mode, 1000, 1000, wanted));
            }
        }
    }
}

TEST(Acl, NumbersAreReplacedForNamesOnly) {
    Acl list = list_of(named);
    const auto shift = [](uint32_t id) -> Result<uint32_t> { return id + 1; };
    ASSERT_TRUE(list.replace_ids(shift, shift));
    EXPECT_EQ(list.entries()[1].id, 1002u);
    EXPECT_EQ(list.entries()[4].id, 2001u);
    EXPECT_EQ(list.entries()[0].id, Acl::no_id);
    const auto none = [](uint32_t) -> Result<uint32_t> { return fail(Code::invalid); };
    EXPECT_FALSE(list.replace_ids(shift, none));
}

}  // namespace
}  // namespace ros2s::fs
