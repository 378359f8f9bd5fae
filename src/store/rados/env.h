// What the parts of an open store share.
#pragma once
#include "ros2s/rados/options.h"
#include "ros2s/rados/pool.h"
#include "ros2s/runtime/reactor.h"

namespace ros2s::rados {

struct Env {
    Reactor& reactor;
    Pool& metadata;
    Pool& data;
    const RadosOptions options;
    const uint64_t store;  // random: distinguishes it from other stores on the pool
};

}  // namespace ros2s::rados
