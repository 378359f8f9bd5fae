#include "block_history.h"

#include <fmt/format.h>

#include <algorithm>

namespace ros2s::sim {

uint64_t BlockHistory::begin(size_t block, Time now) {
    blocks_[block].push_back({.begin = now, .known = never});
    return blocks_[block].size() - 1;
}

void BlockHistory::acknowledged(size_t block, uint64_t stamp, Time now) {
    Write& write = blocks_[block][stamp];
    write.known = std::min(write.known, now);
}

std::string BlockHistory::found(size_t block, uint64_t stamp, Time begin, Time end) {
    std::vector<Write>& writes = blocks_[block];
    if (stamp >= writes.size()) return fmt::format("block {} holds what nobody wrote", block);
    Write& write = writes[stamp];
    for (size_t i = 0; i < writes.size(); ++i) {
        if (write.known >= writes[i].begin || writes[i].known >= begin) continue;
        return fmt::format("block {} holds write {}, which write {} had replaced", block, stamp, i);
    }
    write.known = std::min(write.known, end);
    return {};
}

}  // namespace ros2s::sim
