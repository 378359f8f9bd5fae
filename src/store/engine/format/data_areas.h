// DataAreas: the blocks of a pool's devices that hold data. A value of the index that names another
// block is corrupt, whatever its checksum says.
#pragma once
#include <cstdint>
#include <vector>

#include "ros2s/engine/format/address.h"
#include "ros2s/engine/format/block_map.h"

namespace ros2s::engine {

class DataAreas {
  public:
    // Of the next device: blocks [first, end).
    void add(uint64_t first, uint64_t end) { areas_.push_back({first, end}); }
    [[nodiscard]] bool contain(BlockAddress address) const {
        if (address.device() >= areas_.size()) return false;
        const Area& area = areas_[address.device()];
        return address.block() >= area.first && address.block() < area.end;
    }
    // All blocks of the map that are not holes.
    [[nodiscard]] bool contain(const BlockMap& map) const {
        for (uint32_t i = 0; i < map.end(); ++i) {
            const BlockAddress address = map.at(i).address;
            if (!address.is_hole() && !contain(address)) return false;
        }
        return true;
    }

  private:
    struct Area {
        uint64_t first = 0, end = 0;
    };
    std::vector<Area> areas_;
};

}  // namespace ros2s::engine
