// The metrics of a daemon, checked as Prometheus parses them.
#pragma once
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <sstream>
#include <string>

namespace ros2s::tests {

// The sum of a counter over its labels, without a DPU's counters as a client of its engine.
inline double counted(const std::string& counters, const std::string& name) {
    std::istringstream lines(counters);
    double sum = 0;
    for (std::string line; std::getline(lines, line);) {
        const size_t end = line.find_first_of("{ ");
        if (line.substr(0, end) != name || line.contains("side=\"engine\"")) continue;
        sum += std::atof(line.c_str() + line.rfind(' '));
    }
    return sum;
}

// Checks that the histogram `name` has at least `least` samples of the operation and is consistent:
// buckets do not fall, the last bucket is the count, and the sum is within the bounds of the
// buckets.
inline void expect_histogram(const std::string& scrape, const std::string& name,
                             const std::string& operation, double least) {
    SCOPED_TRACE(fmt::format("{} of {}", name, operation));
    EXPECT_NE(scrape.find(fmt::format("# TYPE {} histogram\n", name)), scrape.npos);
    const std::string of = fmt::format("operation=\"{}\"", operation);
    std::istringstream lines(scrape);
    double count = -1, sum = -1, last = 0, bound = 0, lowest = 0;
    size_t buckets = 0;
    for (std::string line; std::getline(lines, line);) {
        if (!line.starts_with(name) || line.find(of) == line.npos) continue;
        const double value = std::atof(line.c_str() + line.rfind(' '));
        if (line.starts_with(name + "_count")) count = value;
        if (line.starts_with(name + "_sum")) sum = value;
        if (!line.starts_with(name + "_bucket")) continue;
        EXPECT_GE(value, last) << line;
        lowest += (value - last) * bound;  // each took longer than the bucket before allows
        last = value;
        bound = std::atof(line.c_str() + line.find("le=\"") + 4);
        ++buckets;
    }
    EXPECT_EQ(buckets, 20U) << "19 bounds and infinity";
    EXPECT_GE(count, least);
    EXPECT_EQ(last, count);
    EXPECT_GE(sum, lowest);
    EXPECT_TRUE(count < 1 || sum > 0);
}

}  // namespace ros2s::tests
