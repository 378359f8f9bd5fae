#include "samples.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ros2s::cli {
namespace {

std::vector<Sample> parsed(std::string_view page) {
    Report report;
    const auto samples = parse_samples(page, report);
    EXPECT_TRUE(samples) << report.text();
    return samples.value_or(std::vector<Sample>{});
}

TEST(MetricSamples, NamesLabelsAndValuesAreParsed) {
    using Samples = std::vector<Sample>;
    EXPECT_EQ(parsed(""), Samples{});
    EXPECT_EQ(parsed("# HELP a b\n# TYPE a counter\n\na 1\n"), (Samples{{"a", {}, 1}}));
    EXPECT_EQ(parsed("a 1"), (Samples{{"a", {}, 1}}));
    EXPECT_EQ(parsed("a_total{} 2.5e3 1700000000\nb{x=\"1\",y_2=\"+Inf\"} +4\n"),
              (Samples{{"a_total", {}, 2500}, {"b", {{"x", "1"}, {"y_2", "+Inf"}}, 4}}));
    EXPECT_EQ(parsed("a{x=\"{b=\\\"c\\\"},\\\\d \\n\",} 1\n").at(0).label("x"), "{b=\"c\"},\\d \n");
    EXPECT_EQ(parsed("a 1\n").at(0).label("x"), "");
    EXPECT_TRUE(std::isinf(parsed("a +Inf\n").at(0).value));
    EXPECT_TRUE(std::isnan(parsed("a Nan\n").at(0).value));
}

TEST(MetricSamples, InvalidLineIsRefused) {
    for (const std::string_view line :
         {"<html>", "a", "a ", "a x", "a 1x", "a{", "a{x}", "a{x=1} 2", "a{x=\"1} 2", "a{x=\"1\\",
          "a{x=\"1\"y=\"2\"} 3", "a{x=\"1\"}3", "{x=\"1\"} 2", "a +", "a\x1b[2J 1"}) {
        Report report;
        const auto samples = parse_samples("b 1\n" + std::string(line), report);
        ASSERT_FALSE(samples) << line;
        EXPECT_EQ(samples.error().code, Code::corrupt);
        EXPECT_EQ(report.text(), "line 2 is not a metric");
    }
}

}  // namespace
}  // namespace ros2s::cli
