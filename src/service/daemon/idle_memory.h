// IdleMemory: gives memory back to the kernel when a daemon has become idle (RestWatch).
//
// First the daemon frees what it keeps for later requests, then the allocator returns its free
// pages. That takes milliseconds, so a helper thread does it.
//
// Used on the daemon's reactor; stop() before destruction. The constructor's arguments outlive it.
#pragma once
#include "core_watch.h"
#include "ros2s/runtime/blocking.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/reactor.h"
#include "ros2s/runtime/stop.h"

namespace ros2s::daemon {

class Daemon;

class IdleMemory {
  public:
    IdleMemory(Reactor& reactor, BlockingPool& blocking, CoreWatch cores, Daemon& daemon);
    [[nodiscard]] Task<> begin();
    [[nodiscard]] Task<> stop();

  private:
    static Task<> watch(IdleMemory& self);

    Reactor& reactor_;
    BlockingPool& blocking_;
    const CoreWatch cores_;
    Daemon& daemon_;
    StopSource closing_;
    Nursery watching_;
};

}  // namespace ros2s::daemon
