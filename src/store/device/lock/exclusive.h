// lock_exclusively() locks an open descriptor (flock). The lock belongs to the open file, so it is
// free only when its owner's last operation has ended, even if the owner was killed.
#pragma once
#include <cstdint>
#include <string>

#include "ros2s/base/result.h"
#include "ros2s/runtime/reactor.h"
#include "ros2s/runtime/task.h"

namespace ros2s::device {

// Admits no other process, or others that only read.
enum class Sharing : uint8_t { none, readers };
// If the owner of the lock is dead, waits a little for its last operations to end. `path` is for
// the message. Errors: busy (the report names the owner), those of flock(2).
[[nodiscard]] Task<Result<>> lock(Reactor& reactor, int fd, std::string path, Sharing sharing,
                                  Report& report);
[[nodiscard]] Task<Result<>> lock_exclusively(Reactor& reactor, int fd, std::string path,
                                              Report& report);
// Unlocks, also for children that still have a copy, and closes. Does nothing for -1.
void unlock_and_close(int fd) noexcept;

}  // namespace ros2s::device
