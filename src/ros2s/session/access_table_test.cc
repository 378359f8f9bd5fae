#include "access_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ros2s::session {
namespace {

using testing::HasSubstr;

AccessTable parsed(const AccessTable::Settings& settings) {
    Report report;
    const auto access = AccessTable::parse(settings, "dpu.yaml", report);
    EXPECT_TRUE(access) << report.text();
    return access ? *access : AccessTable();
}

TEST(AccessTable, NothingIsGivenByDefault) {
    const AccessTable nobody;
    for (const Right right : {Right::read, Right::write, Right::create, Right::destroy}) {
        EXPECT_FALSE(nobody.allows("CN=alice", right, "pool", "main"));
    }
    EXPECT_FALSE(nobody.sees("CN=alice", "pool", "main"));
    EXPECT_FALSE(nobody.sees_pool("CN=alice", "pool"));
}

TEST(AccessTable, ARightIsOneSubjectsOverThoseContainers) {
    const AccessTable access = parsed({{"CN=alice",
                                        {{"read", "pool/images, other/x"},
                                         {"write", "pool/alice-*,pool/main"},
                                         {"create", "pool/alice-*"}}},
                                       {"CN=root,O=site", {{"destroy", "pool/*"}}}});
    struct Case {
        std::string_view subject;
        Right right;
        std::string_view pool, container;
        bool given;
    };
    for (const Case& each : std::initializer_list<Case>{
             {"CN=alice", Right::read, "pool", "images", true},
             {"CN=alice", Right::write, "pool", "images", false},
             {"CN=alice", Right::read, "other", "x", true},
             {"CN=alice", Right::read, "other", "images", false},
             {"CN=alice", Right::read, "pool", "images2", false},
             {"CN=alice", Right::write, "pool", "alice-1", true},
             {"CN=alice", Right::write, "pool", "alice-", true},
             {"CN=alice", Right::write, "pool", "alice", false},
             {"CN=alice", Right::read, "pool", "alice-1", true},  // writing includes reading
             {"CN=alice", Right::create, "pool", "alice-1", true},
             {"CN=alice", Right::create, "pool", "main", false},
             {"CN=alice", Right::destroy, "pool", "alice-1", false},
             {"CN=root,O=site", Right::destroy, "pool", "anything", true},
             {"CN=root,O=site", Right::read, "pool", "anything", false},
             {"CN=root", Right::destroy, "pool", "anything", false},
             {"CN=alic", Right::read, "pool", "images", false},
             {"", Right::read, "pool", "images", false}}) {
        EXPECT_EQ(access.allows(each.subject, each.right, each.pool, each.container), each.given)
            << each.subject << " " << to_string(each.right) << " " << each.pool << "/"
            << each.container;
    }
    EXPECT_TRUE(access.sees("CN=root,O=site", "pool", "main"));
    EXPECT_FALSE(access.sees("CN=alice", "other", "y"));
    EXPECT_TRUE(access.sees_pool("CN=alice", "other"));
    EXPECT_FALSE(access.sees_pool("CN=root,O=site", "other"));
    EXPECT_FALSE(access.sees_pool("CN=bob", "pool"));
}

TEST(AccessTable, WhatMakesNoSenseIsRefused) {
    struct Case {
        AccessTable::Settings settings;
        std::string_view says;
    };
    for (const Case& each : std::initializer_list<Case>{
             {{{"alice", {{"read", "pool/x"}}}},
              "f: access: 'alice' is not the subject of a certificate; `ros2store certs show "
              "FILE.crt` "
              "prints it, for example CN=alice"},
             {{{"CN=a", {{"own", "pool/x"}}}},
              "f: access: 'CN=a': there is no right 'own'; the rights are read, write, create, "
              "destroy"},
             {{{"CN=a", {{"read", "pool"}}}},
              "read: 'pool' is not of the form POOL/CONTAINER; a * at the end"},
             {{{"CN=a", {{"read", "*/x"}}}}, "'*/x' is not of the form POOL/CONTAINER"},
             {{{"CN=a", {{"read", "pool/*x"}}}}, "'pool/*x' is not of the form POOL/CONTAINER"},
             {{{"CN=a", {{"read", "pool/a/b"}}}}, "'pool/a/b' is not of the form POOL/CONTAINER"},
             {{{"CN=a", {{"read", "pool/a,,pool/b"}}}}, "'' is not of the form POOL/CONTAINER"}}) {
        Report report;
        EXPECT_EQ(AccessTable::parse(each.settings, "f", report).error().code, Code::invalid);
        EXPECT_THAT(report.text(), HasSubstr(each.says));
    }
}

}  // namespace
}  // namespace ros2s::session
