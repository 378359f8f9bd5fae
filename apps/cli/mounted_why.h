// The trace of a file that is reached through a mount of ours: by the mount's process, which has
// the pool (api/mount_why.h).
#pragma once
#include <optional>

#include "places.h"
#include "ros2s/api/file_trace.h"

namespace ros2s::cli {

struct MountedTrace {
    api::FileTrace trace;
    Duration around{};  // what the kernel and FUSE added to the question, there and back
    uint64_t size = 0;  // of the file
};

// Nothing where the file is in no mount of ours. The write is traced on a nameless file beside the
// one that was asked about, because somebody may be writing to that. Errors: reported.
Task<Result<std::optional<MountedTrace>>> trace_through_mount(Workplace work, const Place& place,
                                                              const WhyOptions& options);

}  // namespace ros2s::cli
