// The limits of a tenant as settings: weight, rates, and what it may have at once.
#pragma once
#include <string_view>
#include <vector>

#include "ros2s/admission/accounts.h"
#include "ros2s/config/config.h"

namespace ros2s::tenancy {

[[nodiscard]] std::vector<config::Field> fields_of(admission::Allowance& allowance);
[[nodiscard]] std::vector<std::string_view> limit_names();
[[nodiscard]] bool is_limit(std::string_view name);
// Errors: invalid, with a sentence that begins with `where`.
[[nodiscard]] Result<admission::Allowance> parse_allowance(const config::Entries& entries,
                                                           const SettingPlace& where,
                                                           Report& report);

}  // namespace ros2s::tenancy
