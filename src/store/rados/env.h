// What the parts of an open store share.
#pragma once
#include <algorithm>

#include "ros2s/object/object_store.h"
#include "ros2s/rados/options.h"
#include "ros2s/rados/pool.h"
#include "ros2s/runtime/reactor.h"

namespace ros2s::rados {

struct Env {
    Reactor& reactor;
    Pool& metadata;
    Pool& data;
    const RadosOptions options;
    const uint64_t store;  // random: distinguishes it from other stores on the pool
};

// The clock of a store's commits. It is a hybrid clock: nanoseconds of the wall clock, above all
// epochs that the store has seen.
class Epochs {
  public:
    // 0: this store has seen none.
    [[nodiscard]] uint64_t last() const { return last_; }
    // Later epochs are above this one.
    void pass(uint64_t epoch) { last_ = std::max(last_, epoch); }
    void pass(WallTime now) {
        pass(static_cast<uint64_t>(now.time_since_epoch().count()));
        time_ = std::max(time_, now);
    }
    [[nodiscard]] object::Commit next() { return {.epoch = {++last_}, .time = time_}; }

  private:
    uint64_t last_ = 0;
    WallTime time_{};
};

}  // namespace ros2s::rados
