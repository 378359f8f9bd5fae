// A large read as several: the disk, the daemons on the way and the caller's processor then work at
// the same time, and memory for payload is needed for a few parts only.
#pragma once
#include "ros2s/fs/file_system.h"
#include "ros2s/runtime/reactor.h"

namespace ros2s::fs {

// A part ends at a multiple of it in the file. A chunk of at most this size is therefore read as it
// was at one time.
inline constexpr uint64_t read_part_bytes = uint64_t{4} << 20;
inline constexpr size_t read_parts_at_once = 4;

// As FileSystem::pread(). After an error the window may have bytes of the file.
[[nodiscard]] Task<Result<uint64_t>> pread_in_parts(Reactor& reactor, FileSystem& files,
                                                    const Call& call, FileHandle handle,
                                                    Window into, uint64_t offset);

}  // namespace ros2s::fs
