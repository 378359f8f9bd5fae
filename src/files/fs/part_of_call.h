// PartOfCall: the call of one of the many updates of a call. If the call may be repeated, each part
// has a name of its own, so that each takes effect once.
//
// The call outlives it.
#pragma once
#include <cstddef>

#include "ros2s/runtime/call.h"

namespace ros2s::fs {

// The parts of a call on many names: groups of them come first (dfs_many.cc), and each name by
// itself follows. A call that was done one by one may be repeated in groups, also by another file
// system: they must not take a name for a group.
inline constexpr uint32_t name_groups_max = 11;
[[nodiscard]] constexpr uint32_t part_of_name(size_t index) {
    return name_groups_max + static_cast<uint32_t>(index);
}

class PartOfCall {
  public:
    // `part`: different for each part.
    PartOfCall(const Call& whole, uint32_t part) : call_(whole) {
        if (whole.update == nullptr) return;
        name_ = *whole.update;
        name_.slot += part * UpdateName::slots_max;
        call_.update = &name_;
    }
    PartOfCall& operator=(PartOfCall&&) = delete;
    operator const Call&() const { return call_; }  // NOLINT(google-explicit-constructor)

  private:
    UpdateName name_;
    Call call_;
};

}  // namespace ros2s::fs
