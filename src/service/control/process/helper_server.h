// The control helper's own side: it answers requests until no process is left that can send one.
#pragma once
#include "ros2s/runtime/reactor.h"
#include "ros2s/runtime/task.h"

namespace ros2s::control {

// The number of the descriptor with which the program starts.
inline constexpr int helper_socket = 3;

// Serves the requests that arrive on `socket` until its other end is closed everywhere. A request
// whose process closes its socket, or ends, is cancelled.
Task<> serve_as_helper(Reactor& reactor, int socket);

}  // namespace ros2s::control
