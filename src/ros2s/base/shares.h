// The rule for bounds that strangers share: nobody has more than what is left for all others. If n
// of them take all that they get, each has 1/(n + 1), and another one, such as an operator, still
// finds room.
#pragma once
#include <cstdint>

namespace ros2s {

// One more for somebody who has `has` of the `used` ones, of at most `most`, is too much. Who has
// none is never refused by this.
[[nodiscard]] constexpr bool takes_the_rest(uint64_t has, uint64_t used, uint64_t most) {
    return has > 0 && has >= (most > used ? most - used : 0);
}

}  // namespace ros2s
