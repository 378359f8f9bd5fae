// Extents: the parts of the payload segment that are in use, in blocks. First fit; free neighbours
// are merged. Private to the side that allocates.
#pragma once
#include <cstdint>
#include <map>
#include <memory_resource>
#include <optional>

#include "ros2s/base/bytes.h"
#include "ros2s/base/check.h"

namespace ros2s::fabric::shm {

class Extents {
  public:
    explicit Extents(uint64_t size) {
        if (size > 0) free_[0] = size;
    }
    [[nodiscard]] std::optional<uint64_t> take(uint64_t size) {
        for (auto each = free_.begin(); each != free_.end(); ++each) {
            const auto [offset, length] = *each;
            if (length < size) continue;
            free_.erase(each);
            if (length > size) free_[offset + size] = length - size;
            return offset;
        }
        return std::nullopt;
    }
    void give(uint64_t offset, uint64_t size) {
        auto [here, fresh] = free_.emplace(offset, size);
        ROS2S_CHECK(fresh);
        if (const auto next = std::next(here);
            next != free_.end() && here->first + here->second == next->first) {
            here->second += next->second;
            free_.erase(next);
        }
        if (here == free_.begin()) return;
        const auto before = std::prev(here);
        ROS2S_CHECK(before->first + before->second <= here->first);
        if (before->first + before->second != here->first) return;
        before->second += here->second;
        free_.erase(here);
    }

  private:
    std::pmr::unsynchronized_pool_resource nodes_;     // reuses their memory
    std::pmr::map<uint64_t, uint64_t> free_{&nodes_};  // offset, length
};

}  // namespace ros2s::fabric::shm
