#include "mount_helper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ros2s::fuse {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> translated(std::vector<const char*> arguments) {
    Report report;
    auto result = translate_mount_helper(arguments, report);
    EXPECT_TRUE(result) << report.text();
    return result ? std::move(*result) : std::vector<std::string>{};
}
std::string refusal(std::vector<const char*> arguments) {
    Report report;
    EXPECT_FALSE(translate_mount_helper(arguments, report));
    return report.text();
}

TEST(MountHelper, ProgramIsKnownByItsName) {
    EXPECT_TRUE(is_mount_helper("/sbin/mount.ros2store"));
    EXPECT_TRUE(is_mount_helper("mount.ros2store"));
    EXPECT_FALSE(is_mount_helper("/usr/bin/ros2store-fuse"));
}

TEST(MountHelper, OptionsAreTranslated) {
    EXPECT_THAT(translated({"m", "uri", "/mnt", "-o", "ro,allow_other,no_cache"}),
                ElementsAre("m", "uri", "/mnt", "--read-only", "--allow-other", "--no-cache"));
    EXPECT_THAT(translated({"m", "uri", "/mnt", "-o", "exclusive"}),
                ElementsAre("m", "uri", "/mnt", "--exclusive"));
    for (const char* option : {"sync", "dirsync", "durability=durable"}) {
        EXPECT_THAT(translated({"m", "uri", "/mnt", "-o", option}),
                    ElementsAre("m", "uri", "/mnt", "--durability=durable"));
    }
}

TEST(MountHelper, OptionsForOtherProgramsAreIgnored) {
    EXPECT_THAT(translated({"m", "uri", "/mnt", "-nv", "-t", "ros2store", "-o",
                            "rw,nofail,_netdev,nosuid,x-systemd.requires=a,user=me,comment=b"}),
                ElementsAre("m", "uri", "/mnt"));
    EXPECT_THAT(translated({"m", "uri", "/mnt", "-o", "users,noexec,nosuid,nodev"}),
                ElementsAre("m", "uri", "/mnt", "--no-exec"));
    EXPECT_THAT(translated({"m", "uri", "/mnt", "-o", "exec,suid,dev,user=me"}),
                ElementsAre("m", "uri", "/mnt"));
}

TEST(MountHelper, UnknownOptionIsRefused) {
    EXPECT_THAT(refusal({"m", "uri", "/mnt", "-o", "rw,context=a"}),
                AllOf(HasSubstr("'context=a'"), HasSubstr("noexec"), HasSubstr("x-*")));
    EXPECT_THAT(refusal({"m", "uri", "/mnt", "-o", "relatime"}), HasSubstr("noatime"));
    EXPECT_THAT(refusal({"m", "uri", "/mnt", "-o"}), HasSubstr("-o"));
    EXPECT_THAT(translated({"m", "uri", "/mnt", "-s", "-o", "context=a,ro"}),
                ElementsAre("m", "uri", "/mnt", "--read-only"));
}

TEST(MountHelper, OptionsOfTheProgramItselfAreTranslated) {
    Report report;
    const std::vector<const char*> given{"m", "uri", "/mnt", "-o", "exclusive,nosuid", "-f"};
    const auto own = translate_mount_options(given, report);
    ASSERT_TRUE(own) << report.text();
    EXPECT_THAT(*own, ElementsAre("m", "uri", "/mnt", "--exclusive", "-f"));
    const std::vector<const char*> unknown{"m", "uri", "/mnt", "-o", "writeback"};
    EXPECT_FALSE(translate_mount_options(unknown, report));
    EXPECT_THAT(report.text(), AllOf(HasSubstr("'writeback'"), HasSubstr("allow_other")));
}

TEST(MountHelper, FakeMountDoesNothing) {
    EXPECT_THAT(translated({"m", "uri", "/mnt", "-f"}), IsEmpty());
}

}  // namespace
}  // namespace ros2s::fuse
