// The options of a RadosStore.
#pragma once
#include <cstdint>

#include "ros2s/base/log.h"
#include "ros2s/runtime/time.h"

namespace ros2s::rados {

struct RadosOptions {
    // If another client's transaction locks an object for longer than this, it is aborted.
    Duration patience = std::chrono::seconds(1);
    // After another client destroys a container, this client may use it for up to this time.
    Duration container_check = std::chrono::seconds(1);
    // If a client has not used its replies for this time, a sweep removes them.
    Duration reply_age = std::chrono::hours(24);
    // The interval at which all containers are swept. 0: never.
    Duration sweep_every{};
    // The objects that a sweep reads per second. The limit leaves capacity for other clients. 0: no
    // limit.
    uint64_t sweep_rate = 0;
    // Gets a line for each sweep that failed.
    Log log{};
    // False: clients do not repeat transactions. They are then treated as unnamed, which takes
    // fewer requests.
    bool keeps_replies = true;
    // True: open() formats empty RADOS pools. False: it writes nothing to them and fails with
    // not_found.
    bool formats = true;
};

}  // namespace ros2s::rados
