// The acknowledgements of the library, and whether the acknowledged data is there. Shared by the
// verifier and the watch.
#pragma once
#include <map>
#include <string>

#include "kill_test.h"

namespace ros2s::kill_test {

struct Promises {
    uint64_t count = 0;
    std::map<uint64_t, uint64_t> blocks;           // block: the last sequence
    std::map<uint64_t, Acknowledged::Kind> names;  // sequence: the last step

    // False: it is not an acknowledgement.
    [[nodiscard]] bool add(const Acknowledged& each);
};

// Describes what is wrong with a block whose write with `sequence` was acknowledged. Empty:
// nothing. A later write may have replaced it.
[[nodiscard]] std::string block_fault(ros2s_file* file, uint64_t block, uint64_t sequence);
// Also false if it exists without its content.
[[nodiscard]] bool exists(ros2s_fs* fs, const std::string& name);
// The file has the bytes that churn_names() wrote.
[[nodiscard]] bool holds(ros2s_fs* fs, const std::string& name, uint64_t sequence);

}  // namespace ros2s::kill_test
