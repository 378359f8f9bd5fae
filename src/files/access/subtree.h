// Subtree: a directory of a container, with everything in it, to which a session has rights.
#pragma once
#include <string>

namespace ros2s::access {

struct Subtree {
    std::string path;  // names separated by '/': "datasets/imagenet"; empty: the whole container
    bool writable = false;
    friend bool operator==(const Subtree&, const Subtree&) = default;
};

}  // namespace ros2s::access
