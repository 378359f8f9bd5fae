#include "random.h"

#include <sys/random.h>

#include "check.h"

namespace ros2s {

uint64_t random_seed() {
    uint64_t seed = 0;
    ROS2S_CHECK(::getrandom(&seed, sizeof seed, 0) == sizeof seed);
    return seed;
}

uint64_t Secrets::next() const {
    return simulated_ == nullptr ? random_seed() : simulated_->next();
}

}  // namespace ros2s
