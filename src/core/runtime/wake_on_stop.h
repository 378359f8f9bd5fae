// WakeOnStop: while it exists, a stop request wakes the coroutines that wait on the event, so that
// a loop can wait for something or a stop, whichever comes first.
#pragma once
#include "ros2s/runtime/stop.h"
#include "ros2s/runtime/sync.h"

namespace ros2s {

class WakeOnStop : StopCallback {
  public:
    WakeOnStop(StopToken stop, Event& event) noexcept
        : StopCallback(stop.source(),
                       [](StopCallback& self) noexcept {
                           static_cast<WakeOnStop&>(self).event_.wake_all();
                       }),
          event_(event) {}

  private:
    Event& event_;
};

}  // namespace ros2s
