// SilentWorker: a worker whose library delivers nothing, for tests and fuzzers, which define its
// lanes.
#pragma once
#include <sys/eventfd.h>
#include <unistd.h>

#include <vector>

#include "ros2s/base/check.h"
#include "ros2s/fabric/lanes/worker.h"
#include "ros2s/fabric/socket/socket.h"

namespace ros2s::fabric::lanes {

class SilentWorker : public Worker {
  public:
    SilentWorker(Reactor& reactor, Counters& counters)
        : Worker(reactor, counters), event_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
        ROS2S_CHECK(event_.open());
    }
    const std::vector<std::byte>& address() const noexcept override { return address_; }
    bool may_cross() const noexcept override { return true; }

  private:
    bool progress() noexcept override { return false; }
    bool arm_events() noexcept override { return true; }
    int event_descriptor() const noexcept override { return event_.get(); }
    void signal() noexcept override {
        const uint64_t one = 1;
        ROS2S_CHECK(::write(event_.get(), &one, sizeof one) == sizeof one);
    }
    const std::vector<std::byte> address_{std::byte{1}};
    Descriptor event_;
};

}  // namespace ros2s::fabric::lanes
