// Fields at the end of a log line, for programs that read logs: the parties of the event.
//
//     session 7 of CN=alice ended [session=7 tenant="CN=alice"]
//
// A value is a word, or quoted with \" \\ and \xHH for characters that cannot be printed. Names
// from a peer cannot split a line or join its fields.
#pragma once
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ros2s {

// " [name=value …]", without fields whose value is empty; "" if none is left.
[[nodiscard]] std::string log_fields(
    std::initializer_list<std::pair<std::string_view, std::string_view>> fields);

struct SplitLine {
    std::string_view text;  // the line without its fields
    std::vector<std::pair<std::string, std::string>> fields;
};
// Accepts any line. A line without fields at its end is all text.
[[nodiscard]] SplitLine split_fields(std::string_view line);

}  // namespace ros2s
