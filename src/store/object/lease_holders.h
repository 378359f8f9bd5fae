// What operators see of leases: who has them, and for whom others wait.
#pragma once
#include "ros2s/base/metrics.h"
#include "ros2s/object/object_store.h"
#include "ros2s/runtime/time.h"

namespace ros2s::object {

// A holder of leases: the mount of a client.
struct LeaseHolder {
    HolderName name;
    uint64_t session = 0;  // of its server; 0: this process
    Time since{};
    uint64_t nodes = 0;    // that it may keep
    uint64_t recalls = 0;  // without an answer
    Time recalled{};       // the oldest of these
    bool is_cut = false;   // its leases end, because it was slow or evicted
};

// An update has waited for the answer of a holder.
struct SlowLease {
    HolderName holder;
    uint64_t session = 0;
    Holder waiter;  // the first of those that waited
    Duration waited{};
    bool is_answered = false;
};

struct LeaseCounters {
    Counter recalls;
    Counter expired;  // recalls without an answer in time
    Counter refused;  // leases that a bound refused
    Counter cuts, evictions;
};

}  // namespace ros2s::object
