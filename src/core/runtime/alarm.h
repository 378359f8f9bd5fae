// Alarm: calls a function at a time, on the reactor's core. For classes that are not coroutines;
// coroutines use sleep_until.
//
// The owner outlives its calls: after the destructor there is none. The reactor outlives the alarm.
// The first set() allocates; later ones do not.
#pragma once
#include <memory>

#include "ros2s/runtime/reactor.h"

namespace ros2s {

class Alarm {
  public:
    using Function = void (*)(void* owner) noexcept;
    Alarm(Reactor& reactor, Function function, void* owner) noexcept
        : reactor_(reactor), function_(function), owner_(owner) {}
    Alarm& operator=(Alarm&&) = delete;
    ~Alarm();

    // Calls the function once, at this time or soon after. Replaces an earlier time.
    void set(Time at);

  private:
    struct Loop;
    Reactor& reactor_;
    const Function function_;
    void* const owner_;
    Loop* loop_ = nullptr;  // ends with the alarm, or when the reactor resumes it for the last time
};

}  // namespace ros2s
