// Samples: a page of metrics in Prometheus' text format
// (https://prometheus.io/docs/instrumenting/exposition_formats/).
//
// Plain values; any thread.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ros2s/base/result.h"

namespace ros2s::cli {

struct Sample {
    std::string name;
    std::map<std::string, std::string, std::less<>> labels{};
    double value = 0;

    // Empty: it has no such label.
    [[nodiscard]] std::string_view label(std::string_view name) const;
    friend bool operator==(const Sample&, const Sample&) = default;
};

// Errors: corrupt, with the number of the first line that is not a sample. The sentence contains
// nothing from the page, which may be any server's.
[[nodiscard]] Result<std::vector<Sample>> parse_samples(std::string_view page, Report& report);

}  // namespace ros2s::cli
