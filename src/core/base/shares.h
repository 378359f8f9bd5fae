// The rule for limits that clients share without trusting each other: a client may have at most as
// much as is left for all others. If n clients take all that they can, each has 1/(n + 1) of the
// limit. The same amount is left for another client, such as an operator.
#pragma once
#include <cstdint>

namespace ros2s {

// Returns true if a client that has `has` of the `used` ones, of at most `most`, may not have one
// more. A client that has none is never refused by this.
[[nodiscard]] constexpr bool exceeds_fair_share(uint64_t has, uint64_t used, uint64_t most) {
    return has > 0 && has >= (most > used ? most - used : 0);
}

}  // namespace ros2s
