// Partition: the assignment of a pool's targets to the cores that the pool was opened with. The
// number of targets is fixed. Target t is on core t % cores, so any number of cores can open any
// pool.
#pragma once
#include "ros2s/engine/format/target.h"

namespace ros2s::engine {

struct Partition {
    uint32_t targets = 1;
    uint32_t cores = 1;

    // The core that owns the entries under a dkey.
    [[nodiscard]] uint32_t core_of(object::ContainerId container, object::ObjectId object,
                                   std::string_view dkey) const {
        if (cores == 1) return 0;
        return target_of(container, object, dkey, targets) % cores;
    }
};

}  // namespace ros2s::engine
