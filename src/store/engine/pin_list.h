// The text of a pool's list of the holders of pins (docs/formats/served.md). Reentrant.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ros2s/object/vocabulary.h"

namespace ros2s::engine {

// The most holders that one list has.
inline constexpr size_t pin_list_holders_max = 8192;

[[nodiscard]] std::string encode_pin_list(const std::vector<object::HolderName>& holders);
// Empty: it is not a list, or it is damaged.
[[nodiscard]] std::optional<std::vector<object::HolderName>> decode_pin_list(std::string_view text);

}  // namespace ros2s::engine
