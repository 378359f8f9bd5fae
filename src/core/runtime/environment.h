// Environment: resources that the program provides to the stores it opens: a core, helper threads,
// a log. They outlive everything that is opened with them.
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
    // Further running cores for the targets of pools opened here.
    std::span<Reactor* const> more_reactors{};
};

}  // namespace ros2s
