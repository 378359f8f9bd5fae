// Environment: what a set-up stands on and the program provides: a core, helper threads, a log.
// Everything in it outlives what is opened with it.
#pragma once
#include "ros2s/base/log.h"
#include "ros2s/runtime/blocking.h"
#include "ros2s/runtime/reactor.h"

namespace ros2s::api {

struct Environment {
    Reactor& reactor;
    BlockingPool& blocking;
    Log log{};
};

}  // namespace ros2s::api
