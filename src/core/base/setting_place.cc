#include "setting_place.h"

#include <fmt/format.h>

namespace ros2s {

std::string SettingPlace::of(std::string_view key) const {
    auto line = lines_.find(key);
    if (line == lines_.end()) line = lines_.find("");
    std::string place = file_;
    if (line != lines_.end()) place += fmt::format(":{}", line->second);
    for (const std::string_view part : {std::string_view(name_), key}) {
        if (part.empty()) continue;
        if (!place.empty()) place += ": ";
        place += part;
    }
    return place;
}

}  // namespace ros2s
