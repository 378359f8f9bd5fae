// The space of a RADOS pool, as the monitors report it.
#pragma once
#include <string_view>

#include "ros2s/base/result.h"
#include "ros2s/object/object_store.h"

namespace ros2s::rados {

// The command for the monitors. A user needs `mon 'allow r'`.
inline constexpr const char* space_command =
    R"({"prefix": "df", "detail": "detail", "format": "json"})";

// What can be stored in the pool: without copies, within its quota. Without reports of Ceph's
// manager: 1 PiB. Errors: not_found (the answer does not have the pool), corrupt (it is no answer
// to that command).
[[nodiscard]] Result<object::PoolSpace> parse_space(std::string_view answer, std::string_view pool);

}  // namespace ros2s::rados
