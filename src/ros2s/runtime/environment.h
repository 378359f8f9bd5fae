// Environment: what a set-up stands on and the program provides: a core, helper threads, a log.
// Everything in it outlives what is opened with it.
#pragma once
#include <span>

#include "ros2s/base/log.h"
#include "ros2s/runtime/blocking.h"
#include "ros2s/runtime/reactor.h"

namespace ros2s {

struct Environment {
    Reactor& reactor;
    BlockingPool& blocking;
    Log log{};
    // Further cores, running, that the targets of pools opened here are spread over.
    std::span<Reactor* const> more_reactors{};
};

}  // namespace ros2s
