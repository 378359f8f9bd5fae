// CipherMemory: the bytes that all encrypted containers of a process keep. The common limit
// prevents a tenant that mounts many containers from taking all memory of a DPU.
//
// Shared by the stores that use it; on one core.
#pragma once
#include <cstddef>

namespace ros2s::cipher {

struct CipherMemory {
    static constexpr size_t cells_max = size_t{64} << 20;
    static constexpr size_t buffers_max = size_t{64} << 20;
    size_t cells = 0;    // in all CellCaches
    size_t buffers = 0;  // in all BufferPools, for later requests
};

}  // namespace ros2s::cipher
