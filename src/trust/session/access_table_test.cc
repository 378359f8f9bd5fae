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

TEST(AccessTable, NothingIsAllowedByDefault) {
    const AccessTable nobody;
    for (const Right right : {Right::read, Right::write, Right::create, Right::destroy}) {
        EXPECT_FALSE(nobody.allows("CN=alice", right, "pool", "main"));
    }
    EXPECT_FALSE(nobody.sees("CN=alice", "pool", "main"));
    EXPECT_FALSE(nobody.sees_pool("CN=alice", "pool"));
}

TEST(AccessTable, RightAppliesToOneSubjectAndItsContainers) {
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

TEST(AccessTable, InvalidSettingIsRefused) {
    struct Case {
        AccessTable::Settings settings;
        std::string_view says;
    };
    std::string deep;
    for (int i = 0; i < 65; ++i) deep += "/d";
    for (const Case& each : std::initializer_list<Case>{
             {{{"alice", {{"read", "pool/x"}}}},
              "f: access: 'alice' is not the subject of a certificate; `ros2store certs show "
              "FILE.crt` "
              "prints it, for example CN=alice"},
             {{{"CN=a", {{"own", "pool/x"}}}},
              "f: access: 'CN=a': there is no right 'own'; the rights are read, write, create, "
              "destroy"},
             {{{"CN=a", {{"read", "pool"}}}},
              "read: 'pool' is not of the form POOL/CONTAINER or POOL/CONTAINER/DIRECTORY; a * at "
              "the end"},
             {{{"CN=a", {{"read", "*/x"}}}}, "'*/x' is not of the form POOL/CONTAINER"},
             {{{"CN=a", {{"read", "pool/*x"}}}}, "'pool/*x' is not of the form POOL/CONTAINER"},
             {{{"CN=a", {{"read", "pool/a*/b"}}}}, "'pool/a*/b' is not of the form POOL/CONTAINER"},
             {{{"CN=a", {{"read", "pool/a/"}}}},
              "f: access: 'CN=a': read: 'pool/a/': there is no directory after the '/'; leave the "
              "'/' out to give the whole container"},
             {{{"CN=a", {{"write", "pool/a//b"}}}}, "write: 'pool/a//b': a name in its path is"},
             {{{"CN=a", {{"read", "pool/a/b//"}}}}, "a name in its path is empty"},
             {{{"CN=a", {{"read", "pool/a/b/../c"}}}}, "its path has '.' or '..'; write the whole"},
             {{{"CN=a", {{"read", "pool/a/./b"}}}}, "its path has '.' or '..'"},
             {{{"CN=a", {{"read", "pool/a/b*"}}}}, "a * is possible in names of containers only"},
             {{{"CN=a", {{"read", "pool/a/\xff"}}}}, "has letters of UTF-8"},
             {{{"CN=a", {{"read", "pool/a/b\tc"}}}}, "no control characters"},
             {{{"CN=a", {{"read", "pool/a/" + std::string(256, 'x')}}}}, "more than 255 bytes"},
             {{{"CN=a", {{"read", "pool/a" + deep}}}}, "its path has more than 64 names"},
             {{{"CN=a", {{"create", "pool/a/b"}}}},
              "create: 'pool/a/b': this right is for whole containers"},
             {{{"CN=a", {{"destroy", "pool/a/b"}}}}, "this right is for whole containers"},
             {{{"CN=a", {{"read", "pool/a,,pool/b"}}}}, "'' is not of the form POOL/CONTAINER"}}) {
        Report report;
        EXPECT_EQ(AccessTable::parse(each.settings, "f", report).error().code, Code::invalid);
        EXPECT_THAT(report.text(), HasSubstr(each.says));
    }
}

TEST(AccessTable, RightMayCoverOneDirectory) {
    const AccessTable access =
        parsed({{"CN=a", {{"read", "pool/c/a b/d/"}, {"write", "pool/c/w, pool/other/x"}}}});
    EXPECT_THAT(access.subtrees_of("CN=a", "pool", "c"),
                testing::ElementsAre(access::Subtree{.path = "a b/d"},
                                     access::Subtree{.path = "w", .writable = true}));
    EXPECT_TRUE(access.subtrees_of("CN=a", "pool", "cc").empty());
    EXPECT_TRUE(access.subtrees_of("CN=a", "pool2", "c").empty());
    EXPECT_TRUE(access.subtrees_of("CN=b", "pool", "c").empty());
    // That is no right on the container, but it exists.
    for (const Right right : {Right::read, Right::write, Right::create, Right::destroy}) {
        EXPECT_FALSE(access.allows("CN=a", right, "pool", "c"));
    }
    EXPECT_TRUE(access.sees("CN=a", "pool", "c"));
    EXPECT_FALSE(access.sees("CN=a", "pool", "d"));
    EXPECT_TRUE(access.sees_pool("CN=a", "pool"));
}

TEST(AccessTable, ContainerRightCoversItsDirectories) {
    const auto of = [](std::string_view place) {
        return parsed({{"CN=a", {{"read", std::string(place)}}}});
    };
    struct Case {
        std::string_view wide, narrow;
        bool covers, back;
    };
    for (const Case& each : std::initializer_list<Case>{{"pool/c", "pool/c/a", true, false},
                                                        {"pool/*", "pool/c/a", true, false},
                                                        {"pool/c/a", "pool/c/a/b", true, false},
                                                        {"pool/c/a", "pool/c/a", true, true},
                                                        {"pool/c/a", "pool/c/ab", false, false},
                                                        {"pool/c/a", "pool/d/a", false, false},
                                                        {"pool/c*", "pool/c/a", true, false}}) {
        EXPECT_EQ(of(each.wide).covers(of(each.narrow), "CN=a", "pool"), each.covers)
            << each.wide << " " << each.narrow;
        EXPECT_EQ(of(each.narrow).covers(of(each.wide), "CN=a", "pool"), each.back)
            << each.wide << " " << each.narrow;
    }
}

TEST(AccessTable, DirectoryRightIsRefusedAtEngine) {
    Report report;
    const AccessTable::Settings settings{{"CN=a", {{"read", "pool/c/a"}}}};
    EXPECT_FALSE(
        AccessTable::parse(settings, "f", report, AccessTable::Scope::containers).has_value());
    EXPECT_THAT(report.text(), HasSubstr("f: access: 'CN=a': read: 'pool/c/a': an engine gives"));
}

}  // namespace
}  // namespace ros2s::session
