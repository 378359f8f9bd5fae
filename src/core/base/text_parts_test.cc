#include "ros2s/base/text_parts.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>

namespace ros2s {
namespace {

TEST(TextParts, ListIsSplitAtCommas) {
    EXPECT_EQ(parts_of("a, b,, c ,"), (std::vector<std::string>{"a", "b", "c"}));
    EXPECT_EQ(parts_of("a b"), (std::vector<std::string>{"a b"}));
    EXPECT_TRUE(parts_of(" , ").empty());
    EXPECT_TRUE(parts_of("").empty());
}

template <class Number>
std::optional<Number> parsed(std::string_view text, int base = 10) {
    Number number = 0;
    return parse_number(text, number, base) ? std::optional(number) : std::nullopt;
}

TEST(TextParts, NumberMustBeTheWholeText) {
    EXPECT_EQ(parsed<uint16_t>("0065535"), 65535);
    EXPECT_EQ(parsed<uint8_t>("fF", 16), 255);
    EXPECT_EQ(parsed<int64_t>("-7"), -7);
    EXPECT_EQ(parsed<double>("2.5e3"), 2500);
    for (const std::string_view wrong : {"", " 1", "1 ", "+1", "-1", "1x", "0x1", "65536", "1.5"}) {
        EXPECT_FALSE(parsed<uint16_t>(wrong)) << wrong;
    }
    for (const std::string_view wrong :
         {"", "f", "-1", "+1", " 1", "1 ", "0x", "g0", "0g", "1f0"}) {
        EXPECT_EQ(parsed<uint8_t>(wrong, 16).has_value(), wrong == "f") << wrong;
    }
    EXPECT_FALSE(parsed<double>("1,5") || parsed<double>("+1") || parsed<double>("1e999"));
}

TEST(Printable, ControlCharactersAreEscaped) {
    EXPECT_EQ(printable("\033]0;x\a\n\177"), "\\x1b]0;x\\x07\\x0a\\x7f");
    EXPECT_EQ(printable("a\xc2\x9b"
                        "1m"),
              "a\\xc2\\x9b1m");
    EXPECT_EQ(printable("ünï · …\xc2"), "ünï · …\xc2");
}

}  // namespace
}  // namespace ros2s
