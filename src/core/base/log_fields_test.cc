#include "log_fields.h"

#include <gtest/gtest.h>

#include "random.h"

namespace ros2s {
namespace {

using Fields = std::vector<std::pair<std::string, std::string>>;

TEST(LogFields, WrittenFieldsAreReadBack) {
    EXPECT_EQ(log_fields({}), "");
    EXPECT_EQ(log_fields({{"session", ""}, {"tenant", ""}}), "");
    const std::string written =
        log_fields({{"session", "7"}, {"peer", ""}, {"tenant", "CN=\"al\\ice\"\n]"}});
    EXPECT_EQ(written, R"( [session=7 tenant="CN=\"al\\ice\"\x0a]"])");
    const std::string line = "it [a=b] ended" + written;
    const SplitLine split = split_fields(line);
    EXPECT_EQ(split.text, "it [a=b] ended");
    EXPECT_EQ(split.fields, (Fields{{"session", "7"}, {"tenant", "CN=\"al\\ice\"\n]"}}));
}

TEST(LogFields, LineWithoutFieldsIsAllText) {
    for (const std::string_view line :
         {"", "]", " []", "a [b]", "a [b=]", "a [=b]", "a [b=c", "a [b=c] d", "a [b=\"c]",
          "a [b=\"\\x4\"]", "a [b=\"c\"d=e]", "a [b=c  d=e]", "a[b=c]"}) {
        const SplitLine split = split_fields(line);
        EXPECT_EQ(split.text, line);
        EXPECT_TRUE(split.fields.empty()) << line;
    }
}

// Values of any bytes are returned unchanged, and the line stays one line.
TEST(LogFields, ArbitraryBytesRoundTrip) {
    for (uint64_t seed = 1; seed <= 2000; ++seed) {
        Random random(seed);
        const auto any = [&random] {
            std::string text(1 + random.below(12), ' ');
            for (char& c : text) {
                c = random.one_in(2) ? "\"\\[]= x"[random.below(7)]
                                     : static_cast<char>(random.below(256));
            }
            return text;
        };
        const std::string one = any(), two = any();
        const std::string line = "text" + log_fields({{"one", one}, {"two", two}});
        EXPECT_EQ(line.find('\n'), line.npos);
        const SplitLine split = split_fields(line);
        EXPECT_EQ(split.text, "text") << "seed " << seed;
        EXPECT_EQ(split.fields, (Fields{{"one", one}, {"two", two}})) << "seed " << seed;
    }
}

}  // namespace
}  // namespace ros2s
