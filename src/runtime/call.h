// Call: what travels with a request through every layer: its deadline, how it is stopped, for whom
// it is done, and its trace. Owned by the outermost caller; layers pass it by reference.
#pragma once
#include <cstdint>

#include "ros2s/base/result.h"
#include "ros2s/runtime/stop.h"
#include "ros2s/runtime/time.h"

namespace ros2s {

class Trace;

struct Call {
    Time deadline = Time::max();
    StopToken stop{};
    uint64_t tenant = 0;
    Trace* trace = nullptr;

    // For the places where a request may still be given up without harm. Errors: cancelled,
    // deadline.
    [[nodiscard]] Result<> check(Time now) const {
        if (stop.stop_requested()) return fail(Code::cancelled);
        if (now >= deadline) return fail(Code::deadline);
        return {};
    }
};

}  // namespace ros2s
