// CoreWatch: checks that all cores of a daemon run, and measures their load. The main thread calls
// it every few seconds and never waits for a core.
//
// The reactors outlive it. Always the same thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "ros2s/exporter/metrics_server.h"
#include "ros2s/runtime/blocking.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/os_reactor.h"
#include "ros2s/runtime/reactor.h"
#include "ros2s/runtime/stop.h"

namespace ros2s::daemon {

class CoreWatch {
  public:
    explicit CoreWatch(std::vector<OsReactor*> reactors);

    // The number of a core that has neither worked nor slept since the last call, although that
    // call woke it. The first call finds none.
    [[nodiscard]] std::optional<size_t> stuck();
    // Coroutines that all cores have resumed.
    [[nodiscard]] uint64_t work() const;

  private:
    struct Core {
        OsReactor* reactor;
        std::optional<uint64_t> seen;
    };
    std::vector<Core> cores_;
};

// Metrics of one of a daemon's reactors. They show whether one core is busy while another is idle,
// and how much moves between them.

// With the label `reactor`. The reactor outlives the source. Any thread may scrape.
[[nodiscard]] exporter::Source reactor_source(const OsReactor& reactor, uint32_t number);

// IdleMemory: gives memory back to the kernel when a daemon has become idle (RestWatch).
//
// First the daemon frees what it keeps for later requests, then the allocator returns its free
// pages. That takes milliseconds, so a helper thread does it.
//
// Used on the daemon's reactor; stop() before destruction. The constructor's arguments outlive it.
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
