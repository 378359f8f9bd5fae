// An exclusive lock on an open descriptor (flock): it belongs to the open file, so it is free only
// when its owner's last operation has landed, also where the owner was killed.
#pragma once
#include <string>

#include "ros2s/base/result.h"
#include "ros2s/runtime/reactor.h"
#include "ros2s/runtime/task.h"

namespace ros2s::device {

// Waits a little where the lock's owner is dead: its last operations are still landing. `path` is
// for the sentence. Errors: busy (the report names the owner), those of flock(2).
[[nodiscard]] Task<Result<>> lock_exclusively(Reactor& reactor, int fd, std::string path,
                                              Report& report);
// Unlocks, also for children that still hold a copy, and closes. -1 is nothing.
void unlock_and_close(int fd) noexcept;

}  // namespace ros2s::device
