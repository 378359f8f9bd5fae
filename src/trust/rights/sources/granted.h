// A right as the settings of daemons and tenants write it, as a grant.
#pragma once
#include "ros2s/rights/grant.h"
#include "ros2s/session/granted.h"

namespace ros2s::rights {

[[nodiscard]] inline Grant grant_of(const std::string& pool, Right right,
                                    const session::Granted& granted) {
    return {.pool = pool,
            .container = {.label = granted.label, .is_prefix = granted.is_prefix},
            .path = granted.path,
            .rights = {right}};
}

}  // namespace ros2s::rights
