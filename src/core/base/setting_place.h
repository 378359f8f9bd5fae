// SettingPlace: where the settings of one record are, for messages about their texts: the name of
// the record and, if it is in a file, its lines there.
//
// Plain values; any thread.
#pragma once
#include <concepts>
#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace ros2s {

// By key; the record itself under "".
using KeyLines = std::map<std::string, size_t, std::less<>>;
// By record.
using RecordLines = std::map<std::string, KeyLines, std::less<>>;

[[nodiscard]] inline KeyLines lines_of(const RecordLines& lines, std::string_view record) {
    const auto found = lines.find(record);
    return found == lines.end() ? KeyLines{} : found->second;
}

class SettingPlace {
  public:
    // A record that is in no file: "tenant 'alice'".
    template <std::convertible_to<std::string_view> Name>
    SettingPlace(const Name& name) : name_(std::string_view(name)) {}
    // Without lines, messages name the file only.
    SettingPlace(std::string_view file, std::string name, KeyLines lines)
        : file_(file), name_(std::move(name)), lines_(std::move(lines)) {}

    // The place of the key, or of the record: "tenants.yaml:7: 'alice': until".
    [[nodiscard]] std::string of(std::string_view key = {}) const {
        auto line = lines_.find(key);
        if (line == lines_.end()) line = lines_.find("");
        std::string place = file_;
        if (line != lines_.end()) place += ":" + std::to_string(line->second);
        for (const std::string_view part : {std::string_view(name_), key}) {
            if (!part.empty()) place.append(place.empty() ? "" : ": ").append(part);
        }
        return place;
    }

  private:
    std::string file_, name_;
    KeyLines lines_;
};

}  // namespace ros2s
