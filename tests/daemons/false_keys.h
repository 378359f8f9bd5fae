// Memory keys of this process that lie: what libibverbs answers to libfabric when a host registers
// its payload for the DPU's adapter. The adapter, not our code, has to refuse them.
#pragma once
#include <cstdint>
#include <string_view>

namespace ros2s::tests {

// forged   a number that the adapter never gave
// foreign  of another protection domain
// stale    of a registration that has ended
// bounded  of the first half of the memory
// rightless  of memory that the adapter may neither read nor write for others
[[nodiscard]] bool is_lie(std::string_view name);

// From here on each registration of payload gets such a key.
void lie_about_keys(std::string_view how);
[[nodiscard]] uint64_t lies_told();

}  // namespace ros2s::tests
