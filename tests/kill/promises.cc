#include "promises.h"

#include <fcntl.h>

#include <algorithm>
#include <cstdio>
#include <memory>

namespace ros2s::kill_test {

bool Promises::add(const Acknowledged& each) {
    ++count;
    if (each.kind == Acknowledged::written) {
        uint64_t& last = blocks[each.block];
        last = std::max(last, each.sequence);
    } else if (each.kind >= Acknowledged::created && each.kind <= Acknowledged::unlinked) {
        names[each.sequence] = static_cast<Acknowledged::Kind>(each.kind);
    } else {
        std::fprintf(stderr, "kill_writer: standard input holds no acknowledgements\n");
        return false;
    }
    return true;
}

std::string block_fault(ros2s_file* file, uint64_t block, uint64_t sequence) {
    const auto found = std::make_unique<Block>();
    const ssize_t bytes = ros2s_pread(file, found.get(), block_size, block * block_size);
    std::string fault;
    if (bytes < 0) {
        fault = ros2s_last_error();
    } else if (bytes < static_cast<ssize_t>(block_size)) {
        fault = "the file ends before it";
    } else if (!found->is_whole(block)) {
        fault = "holds other bytes";
    } else if (found->words[0] < sequence) {
        // A write with a greater sequence was in flight and not acknowledged: the block may have
        // it.
        fault = "holds " + std::to_string(found->words[0]);
    }
    if (fault.empty()) return fault;
    return "block " + std::to_string(block) + ", written as " + std::to_string(sequence) + ": " +
           fault;
}

bool exists(ros2s_fs* fs, const std::string& name) {
    struct stat found{};
    return ros2s_stat(fs, name.c_str(), &found) == 0 && found.st_size == sizeof(uint64_t);
}

bool holds(ros2s_fs* fs, const std::string& name, uint64_t sequence) {
    ros2s_file* file = nullptr;
    if (ros2s_file_open(fs, name.c_str(), O_RDONLY, 0, &file) != 0) return false;
    uint64_t found = 0;
    const bool whole = ros2s_pread(file, &found, sizeof found, 0) == sizeof found;
    ros2s_file_close(file);
    return whole && found == sequence;
}

}  // namespace ros2s::kill_test
