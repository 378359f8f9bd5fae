// Fields at the end of a log line, for programs that read logs: who and what it is about.
//
//     session 7 of CN=alice ended [session=7 tenant="CN=alice"]
//
// A value is a word, or quoted with \" \\ and \xHH for what cannot be printed: whatever a peer has
// in its names, a line stays one line and its fields stay apart.
#pragma once
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ros2s {

// " [name=value …]", without those whose value is empty; "" where none is left.
[[nodiscard]] std::string log_fields(
    std::initializer_list<std::pair<std::string_view, std::string_view>> fields);

struct SplitLine {
    std::string_view text;  // of the line, in front of the fields
    std::vector<std::pair<std::string, std::string>> fields;
};
// Any line; without fields at its end it is all text.
[[nodiscard]] SplitLine split_fields(std::string_view line);

}  // namespace ros2s
