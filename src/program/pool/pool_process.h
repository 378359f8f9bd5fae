// The process that opens a pool for others: ros2store-pool. A program starts it if it needs a pool
// that has no owner and that it cannot open itself: its parent had one open, or the owner to which
// it was connected has ended. The process gives the pool to all processes of its user
// (pool_service.h), and ends when the last of them has gone. It is nobody's child.
//
// From any thread, also in a forked child.
#pragma once
#include <string>

#include "ros2s/base/result.h"
#include "ros2s/runtime/reactor.h"
#include "ros2s/runtime/stop.h"
#include "ros2s/runtime/task.h"

namespace ros2s::pool {

// The numbers of the descriptors with which it starts: the locked file of the owner, and a pipe for
// its sentence if it cannot open the pool. It closes the pipe when the pool can be reached.
inline constexpr int owner_descriptor = 3, answer_descriptor = 4;

// Starts it for a pool that has no owner, unless another process takes the pool meanwhile, and
// waits until it listens. `program`: its path. Errors, with a sentence: those of opening the file
// of the owner, and of starting a program; not_found (no pool); io (it cannot open the pool);
// deadline (it has not opened it for long), cancelled: it goes on without this process.
[[nodiscard]] Task<Result<>> start_pool_process(Reactor& reactor, std::string program,
                                                std::string directory, StopToken stop,
                                                Report& report);

}  // namespace ros2s::pool
