// Orphans: what the sweeps of a container have seen and not yet removed.
#pragma once
#include <map>
#include <string>
#include <utility>

#include "ros2s/object/object_store.h"
#include "ros2s/rados/keys.h"

namespace ros2s::rados {

// A sweep removes unreferenced data that is older than this.
inline constexpr Duration orphan_age = std::chrono::hours(1);

// Each with the time of the first sweep that saw it.
struct Orphans {
    std::map<std::pair<object::ObjectId, DataId>, Time> data;  // unreferenced
    struct Replies {
        std::string marks;  // if they differ, the replies were used
        Time since{};
    };
    std::map<std::string, Replies> replies;  // by name
};

}  // namespace ros2s::rados
