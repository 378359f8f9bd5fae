// While the earlier deciders exist, they are asked too, and what they say is what happens. If
// decide() differs, this program ends: one of them has a bug. It goes with them.
#pragma once
#include <source_location>
#include <string_view>

#include "ros2s/rights/decide.h"

namespace ros2s::rights {

// `earlier`: the earlier decision, for the message.
void check_same(bool is_same, std::string_view earlier, const Principal& principal,
                const Container& container, Wanted what, const Decision& decision,
                std::source_location where = std::source_location::current());

}  // namespace ros2s::rights
