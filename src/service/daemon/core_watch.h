// CoreWatch: checks that all cores of a daemon run, and measures their load. The main thread calls
// it every few seconds and never waits for a core.
//
// The reactors outlive it. Always the same thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "ros2s/runtime/os_reactor.h"

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

}  // namespace ros2s::daemon
