// What the library has acknowledged, and whether it is there: for the verifier and the watch.
#pragma once
#include <map>
#include <string>

#include "kill_test.h"

namespace ros2s::kill_test {

struct Promises {
    uint64_t count = 0;
    std::map<uint64_t, uint64_t> blocks;           // block: the last sequence
    std::map<uint64_t, Acknowledged::Kind> names;  // sequence: the last step

    // False: it is no acknowledgement.
    [[nodiscard]] bool add(const Acknowledged& each);
};

// What is wrong with a block that was acknowledged as written with `sequence`; empty: nothing. A
// later write of it may have come between.
[[nodiscard]] std::string block_fault(ros2s_file* file, uint64_t block, uint64_t sequence);
// Also false where it is there without its content.
[[nodiscard]] bool exists(ros2s_fs* fs, const std::string& name);
// Its bytes are those that churn_names() gave it.
[[nodiscard]] bool holds(ros2s_fs* fs, const std::string& name, uint64_t sequence);

}  // namespace ros2s::kill_test
