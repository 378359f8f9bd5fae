// Partition: how a pool's targets, whose number is fixed, are dealt to the cores that it was opened
// with. Target t is core t % cores's; so any number of cores opens any pool.
#pragma once
#include "ros2s/engine/format/target.h"

namespace ros2s::engine {

struct Partition {
    uint32_t targets = 1;
    uint32_t cores = 1;

    // The core that has what lies under a dkey.
    [[nodiscard]] uint32_t core_of(object::ContainerId container, object::ObjectId object,
                                   std::string_view dkey) const {
        if (cores == 1) return 0;
        return target_of(container, object, dkey, targets) % cores;
    }
};

}  // namespace ros2s::engine
