// Running: which daemon of a pool directory runs. A small text file says who it is; a lock on it
// (of the open file description) says that it lives. `up` takes the lock and the daemon inherits
// the descriptor, so that the kernel drops the lock when the daemon ends, however it does, and a
// process that has the same number later is never taken for it. The file stays.
//
//     pid: 4711
//     since: 1763650000             seconds of Unix time
//     address: control unix:/srv/p/run/engine.control
//
// The system calls here block for moments. Plain values; any thread.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ros2s/base/result.h"

namespace ros2s::cli {

struct Running {
    pid_t pid = 0;      // 0: it does not run; -1: it does, and has not said who it is
    pid_t ended = 0;    // the process that ended otherwise than by `down`; 0: none
    int64_t since = 0;  // 0: unknown
    std::vector<std::string> addresses;
    friend bool operator==(const Running&, const Running&) = default;
};

// Lines that make no sense are left out: the lock decides, the text only explains.
[[nodiscard]] std::string encode_running(const Running& running);
[[nodiscard]] Running decode_running(std::string_view text);

// Errors: denied (the directory is another user's), io. No file: nothing runs.
[[nodiscard]] Result<Running> find_running(const std::string& path);

// The lock, held by this process until it is destroyed, and by whoever inherits the descriptor.
class RunLock {
  public:
    // Errors: busy (somebody has it), denied, not_found, io.
    [[nodiscard]] static Result<RunLock> take(const std::string& path);
    RunLock(RunLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
    RunLock& operator=(RunLock&&) = delete;
    ~RunLock();

    [[nodiscard]] int descriptor() const { return descriptor_; }
    // Errors: those of write(2).
    [[nodiscard]] Result<> write(const Running& running) const;

  private:
    explicit RunLock(int descriptor) : descriptor_(descriptor) {}
    int descriptor_;
};

// Sends the signal to the process that holds the lock, and to no other. Errors: not_found (it has
// ended), busy (it has not said who it is), denied.
[[nodiscard]] Result<> signal_running(const std::string& path, int signal);

}  // namespace ros2s::cli
