// These structs are the options and the result of EngineStore::check().
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ros2s/object/object_store.h"

namespace ros2s::engine {

struct CheckOptions {
    // Also reads all data and compares it with its checksums.
    bool data = false;
    // Receives each problem in a sentence: what, where, what to do. With the container that has it;
    // nil: it is one of the pool.
    std::function<void(object::ContainerId, std::string)> problem;
    // Receives, in a sentence, what could not be judged because of a problem.
    std::function<void(object::ContainerId, std::string)> unjudged;
    // The blocks that were visited, and those in use. May be empty.
    std::function<void(uint64_t done, uint64_t total)> progress;
};

struct CheckedContainer {
    object::ContainerRecord record;  // its label, and what it counts as used
    bool retired = false;            // it was destroyed, and the removal of its objects goes on
    uint64_t objects = 0, akeys = 0, blocks = 0;  // that are there
};
struct CheckedPool {
    std::vector<CheckedContainer> containers;  // ascending by id
    uint64_t used_blocks = 0, total_blocks = 0;
    uint64_t replayed_groups = 0;
    bool is_index_readable = true;  // false: the check has ended early
};

}  // namespace ros2s::engine
