// UserMapping: settings, and the users as whom claims act.
#include "user_mapping.h"

#include <gtest/gtest.h>

#include <map>

namespace ros2s::rights {
namespace {

UserMapping mapping_of(const std::map<std::string, std::string>& settings) {
    UserMapping mapping;
    Report report;
    for (const auto& [name, text] : settings) {
        EXPECT_TRUE(mapping.set(name, text, name, report)) << report.text();
    }
    return mapping;
}

struct Claimed {
    std::map<std::string, std::string> settings;
    fs::UserClaim claim;
    bool is_denied = false;
    uint32_t uid = 0, gid = 0;
    std::vector<uint32_t> groups{};
};

TEST(UserMapping, ClaimsMapToUsersOrAreRefused) {
    constexpr uint32_t no = fs::nobody;
    const Claimed cases[] = {
        {{}, {0, 0, {0, 5}}, false, 0, 0, {0, 5}},
        {{{"users", "any"}}, {7, 8, {9}}, false, 7, 8, {9}},
        {{{"users", "1000-1999, 5000"}}, {1000, 8, {}}, false, 1000, 8},
        {{{"users", "1000-1999, 5000"}}, {1999, 8, {}}, false, 1999, 8},
        {{{"users", "1000-1999, 5000"}}, {5000, 8, {}}, false, 5000, 8},
        {{{"users", "1000-1999, 5000"}}, {2000, 8, {}}, true},
        {{{"users", "1000-1999"}}, {0, 8, {}}, true},
        // Groups that it may not use are dropped. A primary one becomes the group of user nobody.
        {{{"groups", "100-199"}}, {7, 100, {1, 150, 200, 199}}, false, 7, 100, {150, 199}},
        {{{"groups", "100-199"}}, {7, 0, {0}}, false, 7, no},
        // Root, and the group of root.
        {{{"root_squash", "yes"}}, {0, 5, {6}}, false, no, no},
        {{{"root_squash", "yes"}}, {7, 0, {0, 6}}, false, 7, no, {6}},
        {{{"root_squash", "yes"}, {"users", "1000"}}, {0, 5, {}}, false, no, no},
        // It is squashed before `users` is checked, because it mounts. A claim of number 65534 is
        // checked.
        {{{"root_squash", "yes"}, {"users", "1000-1999"}}, {0, 0, {0}}, false, no, no},
        {{{"root_squash", "yes"}, {"users", "1000-1999"}}, {no, no, {}}, true},
        {{{"root_squash", "no"}, {"users", "1000-1999"}}, {0, 0, {}}, true},
        {{{"squash", "1:2"}}, {0, 0, {0, 6}}, false, 1, 2},
        {{{"squash", "1:2"}, {"users", "1000"}}, {7, 7, {}}, false, 1, 2},
        // Maps. A user without an entry is refused. A group without one is dropped.
        {{{"uid_map", "1000:501000:10"}}, {1009, 8, {}}, false, 501009, 8},
        {{{"uid_map", "1000:501000:10"}}, {1010, 8, {}}, true},
        {{{"uid_map", "1000:501000:10"}}, {999, 8, {}}, true},
        {{{"uid_map", "1000:501000:10"}}, {501000, 8, {}}, true},
        {{{"gid_map", "100:600:2, 5:50:1"}}, {7, 101, {5, 6, 100}}, false, 7, 601, {50, 600}},
        {{{"gid_map", "100:600:2"}}, {7, 7, {}}, false, 7, no},
        // The number that means "no change" to chown(2) becomes user nobody.
        {{}, {UINT32_MAX, 8, {}}, true},
        {{}, {7, UINT32_MAX, {5, UINT32_MAX}}, false, 7, no, {5}},
        // A map cannot give root past root_squash.
        {{{"uid_map", "1000:0:1"}, {"root_squash", "yes"}}, {1000, 8, {}}, false, no, 8},
        {{{"gid_map", "100:0:1"}, {"root_squash", "yes"}}, {7, 100, {100}}, false, 7, no},
    };
    for (const Claimed& each : cases) {
        const UserMapping mapping = mapping_of(each.settings);
        fs::UserClaim claim = each.claim;
        const auto caller = mapping.caller_for(claim);
        const std::string shown =
            each.settings.empty() ? ""
                                  : each.settings.begin()->first + each.settings.begin()->second;
        ASSERT_EQ(!caller, each.is_denied) << shown << each.claim.uid;
        if (!caller) continue;
        EXPECT_EQ(caller->uid, each.uid) << shown;
        EXPECT_EQ(caller->gid, each.gid) << shown;
        EXPECT_EQ(std::vector(caller->groups.begin(), caller->groups.end()), each.groups) << shown;
        EXPECT_FALSE(caller->may_make_devices || caller->may_set_ids ||
                     caller->may_change_privileged);
    }
}

TEST(UserMapping, OwnersMapInBothDirections) {
    const UserMapping mapping = mapping_of({{"uid_map", "1000:501000:10"}, {"gid_map", "5:50:1"}});
    EXPECT_EQ(mapping.stored_uid(1003), Result<uint32_t>(501003));
    EXPECT_EQ(mapping.stored_uid(0), Result<uint32_t>(fail(Code::invalid)));
    EXPECT_EQ(mapping.stored_gid(5), Result<uint32_t>(50));
    EXPECT_EQ(mapping.stored_gid(6), Result<uint32_t>(fail(Code::invalid)));
    const fs::Attributes own = mapping.shown({.uid = 501003, .gid = 50});
    EXPECT_EQ(own.uid, 1003U);
    EXPECT_EQ(own.gid, 5U);
    const fs::Attributes others = mapping.shown({.uid = 1003, .gid = 0});
    EXPECT_EQ(others.uid, fs::nobody);
    EXPECT_EQ(others.gid, fs::nobody);
    const UserMapping same;
    EXPECT_EQ(same.shown({.uid = 3, .gid = 4}).uid, 3U);
    EXPECT_EQ(same.stored_uid(3), Result<uint32_t>(3));
    EXPECT_EQ(same.stored_uid(UINT32_MAX), Result<uint32_t>(fail(Code::invalid)));
    EXPECT_EQ(same.stored_gid(UINT32_MAX), Result<uint32_t>(fail(Code::invalid)));
}

TEST(UserMapping, InvalidSettingIsRefusedWithItsPlace) {
    const std::pair<const char*, const char*> wrong[] = {
        {"users", ""},
        {"uid_map", ""},
        {"users", "alice"},
        {"users", "5-4"},
        {"users", "1-2-3"},
        {"users", "4294967295"},
        {"users", "-1"},
        {"groups", "1,,2"},
        {"root_squash", "true"},
        {"squash", "all"},
        {"squash", "1"},
        {"squash", "1:2:3"},
        {"uid_map", "1:2"},
        {"uid_map", "1:2:0"},
        {"uid_map", "1:2:3,2:9:1"},
        {"uid_map", "1:2:3,9:4:1"},
        {"uid_map", "4294967290:0:10"},
        {"gid_map", "x:1:1"},
        {"may", "everything"},
        {"may", "devices set_ids"},
    };
    for (const auto& [name, text] : wrong) {
        UserMapping mapping;
        Report report;
        EXPECT_FALSE(mapping.set(name, text, "settings: key", report)) << name << " " << text;
        EXPECT_TRUE(report.text().starts_with("settings: key: '")) << report.text();
    }
    std::string many = "1";
    for (int i = 0; i < 64; ++i) many += ",1";
    UserMapping mapping;
    Report report;
    EXPECT_FALSE(mapping.set("users", many, "f", report));
    EXPECT_TRUE(mapping_of({{"may", "devices, set_ids, privileged_attributes"}}).may_set_ids);
}

}  // namespace
}  // namespace ros2s::rights
