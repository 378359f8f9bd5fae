// What `ros2store why` shows of an open file: the path that its I/O takes (promise P8), and one
// request of 4 KiB of each kind with its steps. Whoever has the pool open does it: the program
// itself, or the mount's process on behalf of one that asks it (mount_trace.h).
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "ros2s/fs/file_system.h"
#include "ros2s/runtime/reactor.h"
#include "ros2s/runtime/time.h"
#include "ros2s/runtime/trace.h"

namespace ros2s::api {

struct RequestTrace {
    struct Step {
        std::string name;  // "device.read"
        int depth = 0;     // of what it is a part: the step before it with a smaller depth
        Duration begin{};  // since the request's first step
        Duration takes{};
        friend bool operator==(const Step&, const Step&) = default;
    };
    uint64_t bytes = 0;  // that were read or written
    Duration whole{};
    std::vector<Step> steps;
    friend bool operator==(const RequestTrace&, const RequestTrace&) = default;
};

struct FileTrace {
    fs::PathReport io;
    RequestTrace read;
    std::optional<RequestTrace> write;  // where it was asked for and there were bytes to write
};

enum class TraceKinds : uint8_t { read, read_and_write };

// Reads the 4 KiB at `offset` twice, and traces the second time: the first of a process pays for
// what later ones find in memory. Then, if asked, writes the bytes that it has read to where they
// were, which loses what somebody else writes there meanwhile: for files that nobody else changes.
// Errors: those of pread and pwrite.
[[nodiscard]] Task<Result<FileTrace>> trace_file(Call call, Reactor& reactor,
                                                 fs::FileSystem& file_system, fs::FileHandle handle,
                                                 uint64_t offset, TraceKinds kinds);

}  // namespace ros2s::api
