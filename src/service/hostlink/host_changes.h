// HostChanges: what a host knows of the changes that its server has acknowledged and that may not
// be durable. If the store loses power, the server repeats them. A server that took the place of
// one that ended cannot. So if the store was started again as well, changes may be lost, and only
// the host can tell that.
//
// Used on the link's core.
#pragma once
#include "ros2s/runtime/time.h"
#include "ros2s/session/mount_location.h"

namespace ros2s::hostlink {

class HostChanges {
  public:
    using Location = session::MountLocation;

    void acknowledged(const Location& at, Time now) {
        last_ = now;
        if (is_unsure_) return;
        is_unsure_ = true;
        if (at != place_) start_ = 0;
        place_ = at;
    }
    [[nodiscard]] bool is_unsure() const { return is_unsure_; }
    // Changes were acknowledged by another server, and this one was not asked yet.
    [[nodiscard]] bool must_ask(const Location& at) const { return is_unsure_ && at != place_; }
    // The server says that what it acknowledged before `then` is durable.
    void durable_before(const Location& at, Time then) {
        if (at == place_ && last_ < then) is_unsure_ = false;
    }
    // The server says which start of its store it knows. True: changes may be lost.
    [[nodiscard]] bool started(const Location& at, uint64_t start) {
        const bool is_lost = must_ask(at) && start != start_;
        place_ = at;
        start_ = start;
        return is_lost;
    }

  private:
    Location place_;      // of the server that has answered last
    uint64_t start_ = 0;  // the start of its store; 0: not known
    Time last_{};
    bool is_unsure_ = false;
};

}  // namespace ros2s::hostlink
