// The names of the files of a cache's blocks, and the keys of the blocks.
//
// A key of printable characters is a name as it is, unless it has a '/', begins with '%', or is "."
// or "..". Any other one is '%' and its bytes in lower-case hexadecimal digits.
#pragma once
#include <string>
#include <string_view>

#include "ros2s/base/result.h"

namespace ros2s::fs {

// Errors: invalid (no key has that name), name_too_long.
[[nodiscard]] Result<std::string> block_key_of(std::string_view name);
// Of a key that is not empty.
[[nodiscard]] std::string block_name_of(std::string_view key);

}  // namespace ros2s::fs
