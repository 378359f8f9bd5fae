#include "settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ros2s::rights {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(AccessSettings, SubjectGetsTheGrantsOfItsTexts) {
    Report report;
    const auto subjects = parse_access(
        {{"CN=alice", {{"create", "pool/alice-*"}, {"read", "pool/c/a b/d/, other/x"}}},
         {"CN=root,O=site", {{"destroy", "pool/*"}, {"users", "1000"}}}},
        "f", report);
    ASSERT_TRUE(subjects) << report.text();
    EXPECT_THAT(subjects->at("CN=alice").grants,
                ElementsAre(Grant{"pool", {"alice-*"}, "", {Right::create}},
                            Grant{"pool", {"c"}, "a b/d", {Right::read}},
                            Grant{"other", {"x"}, "", {Right::read}}));
    const SubjectParty& root = subjects->at("CN=root,O=site");
    EXPECT_THAT(root.grants, ElementsAre(Grant{"pool", {"*"}, "", {Right::destroy}}));
    EXPECT_EQ(root.users.at("").users.size(), 1U);
}

TEST(AccessSettings, InvalidSettingIsRefused) {
    struct Case {
        AccessSettings settings;
        std::string_view says;
    };
    std::string deep;
    for (int i = 0; i < 65; ++i) deep += "/d";
    for (const Case& each : std::initializer_list<Case>{
             {{{"alice", {{"read", "pool/x"}}}},
              "f: access: 'alice' is not the subject of a certificate; `ros2store certs show "
              "FILE.crt` prints it, for example CN=alice"},
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
        EXPECT_EQ(parse_access(each.settings, "f", report).error().code, Code::invalid);
        EXPECT_THAT(report.text(), HasSubstr(each.says));
    }
}

TEST(AccessSettings, DirectoryRightIsRefusedAtEngine) {
    Report report;
    const AccessSettings settings{{"CN=a", {{"read", "pool/c/a"}}}};
    EXPECT_FALSE(parse_access(settings, "f", report, GrantScope::containers).has_value());
    EXPECT_THAT(report.text(), HasSubstr("f: access: 'CN=a': read: 'pool/c/a': an engine gives"));
}

}  // namespace
}  // namespace ros2s::rights
