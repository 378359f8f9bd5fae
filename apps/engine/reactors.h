// Reactors: the threads, in addition to the daemon's own, that the targets of its pools are spread
// over.
//
// Owned by the engine; they outlive its pools. Made and destroyed on the daemon's own reactor.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ros2s/runtime/os_reactor.h"

namespace ros2s::engined {

// CPUs that this process may run on.
[[nodiscard]] uint32_t usable_cpus();

class Reactors {
  public:
    // Starts this many in addition to the daemon's own. Errors: those of OsReactor.
    [[nodiscard]] Result<> start(uint32_t more, Duration poll, Report& report);
    // For Environment.
    [[nodiscard]] std::span<Reactor* const> list() const { return pointers_; }
    // For Daemon::more_reactors().
    [[nodiscard]] std::vector<OsReactor*> all() const;

  private:
    std::vector<std::unique_ptr<OsReactor>> reactors_;
    std::vector<Reactor*> pointers_;
};

}  // namespace ros2s::engined
