// Call: what travels with a request through every layer: its deadline, how it is stopped, for whom
// it is done, and its trace. Owned by the outermost caller; layers pass it by reference.
#pragma once
#include <cstdint>

#include "ros2s/base/result.h"
#include "ros2s/base/uuid.h"
#include "ros2s/runtime/stop.h"
#include "ros2s/runtime/time.h"

namespace ros2s {

class Trace;

// Names an update for ever, over connections and restarts of every process on its way: made by the
// library that it comes from, carried down unchanged (object::OperationId says more).
struct UpdateName {
    static constexpr uint32_t slots_max = 4096;  // of a client
    Uuid client;
    uint32_t slot = 0;
    uint64_t sequence = 0;
    bool repeated = false;  // it was sent before, and may have been done
    // Whose it is: set by the server that let him in, never by himself.
    Uuid owner{};
    uint64_t digest = 0;  // of what was asked for, as he asked
};

struct Call {
    Time deadline = Time::max();
    StopToken stop{};
    uint64_t tenant = 0;
    Trace* trace = nullptr;
    const UpdateName* update = nullptr;  // null: whoever asks will not ask again

    // For the places where a request may still be given up without harm. Errors: cancelled,
    // deadline.
    [[nodiscard]] Result<> check(Time now) const {
        if (stop.stop_requested()) return fail(Code::cancelled);
        if (now >= deadline) return fail(Code::deadline);
        return {};
    }
};

}  // namespace ros2s
