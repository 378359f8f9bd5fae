// LeasedNames: which names the kernel may keep.
#include "leased_names.h"

#include <gtest/gtest.h>

#include <string>

namespace ros2s::fuse {
namespace {

constexpr fs::NodeId top{1}, other{2};
constexpr Time begin{};
constexpr Duration second = std::chrono::seconds(1);

constexpr Duration most = std::chrono::milliseconds(400);
constexpr Duration long_ago = std::chrono::hours(1);

TEST(LeasedNames, TakenNamesAreThoseThatTheKernelGot) {
    LeasedNames names;
    EXPECT_EQ(names.note(begin, top, "a", most, long_ago), most);
    EXPECT_EQ(names.note(begin + second / 4, top, "b", most, long_ago), most);
    EXPECT_EQ(names.note(begin + second / 4, top, "a", most, long_ago), most);
    EXPECT_EQ(names.note(begin, other, "c", most, long_ago), most);
    EXPECT_EQ(names.count(), 3u);
    const auto taken = names.take(begin + second / 4, top);
    EXPECT_EQ(taken.directory, top);
    EXPECT_EQ(taken.names.size(), 2u);
    EXPECT_EQ(taken.until, begin + second / 4 + most);
    for (const auto& each : taken.names) EXPECT_EQ(each.told, begin + second / 4) << each.text;
    EXPECT_EQ(names.count(), 1u);
    EXPECT_TRUE(names.take(begin + second / 4, top).names.empty());
}

TEST(LeasedNames, TimeIsAPartOfTheDirectorysRest) {
    constexpr auto none = Duration{};
    LeasedNames names;
    EXPECT_EQ(names.note(begin, top, "a", most, none), none);
    EXPECT_EQ(names.note(begin + second, top, "a", most, long_ago), second / 5);
    EXPECT_EQ(names.note(begin + 3 * second, top, "a", most, none), most);
    names.change_begins(begin + 4 * second, top);
    EXPECT_EQ(names.note(begin + 4 * second, top, "b", most, none), none);
    names.change_ends(begin + 5 * second, top);
    EXPECT_EQ(names.note(begin + 5 * second, top, "b", most, none), none);
    EXPECT_EQ(names.note(begin + 6 * second, top, "b", most, none), second / 5);
    std::ignore = names.take(begin + 7 * second, top);
    EXPECT_EQ(names.note(begin + 7 * second, top, "b", most, none), none) << "others changed it";
    EXPECT_EQ(names.note(begin + 7 * second, other, "b", most, second), second / 5);
    EXPECT_EQ(names.note(begin + 7 * second, {3}, "b", most, -second), none) << "another's clock";
}

TEST(LeasedNames, MovedNameIsTakenWithBothDirectories) {
    LeasedNames names;
    ASSERT_EQ(names.note(begin, top, "a", most, long_ago), most);
    names.move(begin, {top, "a"}, {other, "b"}, false);
    names.move(begin, {top, "unknown"}, {other, "c"}, false);
    EXPECT_EQ(names.count(), 2u);
    EXPECT_EQ(names.moves(), 2u);
    EXPECT_EQ(names.take(begin, top).names.size(), 1u) << "the move may fail";
    const auto taken = names.take(begin, other);
    ASSERT_EQ(taken.names.size(), 1u);
    EXPECT_EQ(taken.names[0].text, "b");
    EXPECT_EQ(taken.until, begin + most);
}

TEST(LeasedNames, ExchangedNamesAreTakenWithBothDirectories) {
    LeasedNames names;
    ASSERT_EQ(names.note(begin, top, "a", most, long_ago), most);
    names.move(begin, {top, "a"}, {other, "b"}, true);
    names.move(begin, {other, "b"}, {top, "a"}, true);
    EXPECT_EQ(names.take(begin, top).names.size(), 1u);
    EXPECT_EQ(names.take(begin, other).names.size(), 1u);
    EXPECT_EQ(names.count(), 0u);
}

TEST(LeasedNames, NamesBeyondTheBoundAreNotKept) {
    LeasedNames names;
    const auto note = [&](Time now, fs::NodeId directory, const std::string& name) {
        return names.note(now, directory, name, most, long_ago) == most;
    };
    for (size_t i = 0; i < LeasedNames::per_directory_max; ++i) {
        ASSERT_TRUE(note(begin, top, std::to_string(i)));
    }
    EXPECT_FALSE(note(begin, top, "more"));
    for (uint64_t node = 10; names.count() < LeasedNames::names_max; ++node) {
        for (size_t i = 0; i < LeasedNames::per_directory_max; ++i) {
            std::ignore = note(begin, {node}, std::to_string(i));
        }
    }
    EXPECT_EQ(names.count(), LeasedNames::names_max);
    EXPECT_FALSE(note(begin, {100}, "more"));
    EXPECT_TRUE(note(begin + 2 * second, {100}, "more")) << "the kernel has dropped the others";
    EXPECT_EQ(names.count(), 1u);
}

TEST(LeasedNames, ChangedDirectoriesBeyondTheBoundAreForgotten) {
    LeasedNames names;
    for (uint64_t node = 1; node <= 2 * LeasedNames::directories_max; ++node) {
        names.change_begins(begin, {node});
        names.change_ends(begin, {node});
    }
    EXPECT_EQ(names.note(begin, {1}, "a", most, long_ago), Duration{}) << "it is remembered";
    EXPECT_EQ(names.note(begin, {1'000'000}, "a", most, long_ago), most);
    EXPECT_EQ(names.note(begin, {1'000'001}, "a", most, long_ago), Duration{}) << "no room";
    const Time later = begin + LeasedNames::rest_max;
    EXPECT_EQ(names.note(later, {1'000'001}, "a", most, long_ago), most);
}

}  // namespace
}  // namespace ros2s::fuse
