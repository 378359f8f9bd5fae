// The contents of `ros2store why` for an open file: the path that its I/O takes, and the steps of
// one request of 4 KiB of each kind. The process that has the pool open traces them: the program
// itself, or the mount's process on request of a program (mount_trace.h).
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "ros2s/api/file_trace.h"
#include "ros2s/fs/file_system.h"
#include "ros2s/runtime/reactor.h"
#include "ros2s/runtime/time.h"
#include "ros2s/runtime/trace.h"

namespace ros2s::api {

struct RequestTrace {
    struct Step {
        std::string name;  // "device.read"
        int depth = 0;     // its parent is the last step before it with a smaller depth
        Duration begin{};  // since the request's first step
        Duration takes{};
        friend bool operator==(const Step&, const Step&) = default;
    };
    uint64_t bytes = 0;  // read or written
    Duration whole{};
    std::vector<Step> steps;
    friend bool operator==(const RequestTrace&, const RequestTrace&) = default;
};

struct FileTrace {
    fs::PathReport io;
    RequestTrace read;
    std::optional<RequestTrace> write;  // if requested, and if there were bytes to write
    // If a mount's process made it: the time that the kernel and FUSE added to the request for it.
    std::optional<Duration> fuse{};
};

enum class TraceKinds : uint8_t { read, read_and_write };

// Reads the 4 KiB at `offset` twice and traces the second read, because the first one of a process
// also fills caches. Then, if requested, writes the same bytes back. A concurrent write to that
// place may be lost, so use it only for files that no one else changes.
// Errors: those of pread and pwrite.
[[nodiscard]] Task<Result<FileTrace>> trace_file(Call call, Reactor& reactor,
                                                 fs::FileSystem& file_system, fs::FileHandle handle,
                                                 uint64_t offset, TraceKinds kinds);

// A file's traced requests as a trace file (runtime/trace_events.h): docs/formats/why.md.
[[nodiscard]] std::string to_trace_file(const FileTrace& trace);

}  // namespace ros2s::api
