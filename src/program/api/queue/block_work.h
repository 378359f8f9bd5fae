// The work on blocks of a cache (ros2s_blocks()), for the queue and for the call that waits.
#pragma once
#include <span>

#include "ros2s/fs/file_system.h"
#include "ros2store/ros2store.h"

namespace ros2s::api {

[[nodiscard]] constexpr bool is_of_blocks(uint32_t opcode) {
    return opcode >= ROS2S_OP_PUT_BLOCKS && opcode <= ROS2S_OP_REMOVE_BLOCKS;
}
// No pointer is missing.
[[nodiscard]] bool have_memory(ros2s_opcode opcode, std::span<const ros2s_block> blocks);
// Sets the results. Returns how many of the first are not negative. Errors: of the whole call.
Task<Result<int64_t>> work_on_blocks(fs::FileSystem& files, const Call& call, ros2s_opcode opcode,
                                     std::span<ros2s_block> blocks, uint64_t pin_ns);

}  // namespace ros2s::api
