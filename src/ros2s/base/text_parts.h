// Parts of texts.
#pragma once
#include <string_view>

namespace ros2s {

inline std::string_view without_spaces(std::string_view text) {
    while (text.starts_with(' ')) text.remove_prefix(1);
    while (text.ends_with(' ')) text.remove_suffix(1);
    return text;
}

}  // namespace ros2s
