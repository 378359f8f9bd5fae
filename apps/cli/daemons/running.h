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

// The process that has the lock, and no other that gets its number later.
class LockHolder {
  public:
    // Errors: not_found (nobody has it), busy (it has not said who it is), denied.
    [[nodiscard]] static Result<LockHolder> find(const std::string& path);
    LockHolder(LockHolder&& other) noexcept
        : path_(std::move(other.path_)),
          pid_(other.pid_),
          descriptor_(std::exchange(other.descriptor_, -1)) {}
    LockHolder& operator=(LockHolder&&) = delete;
    ~LockHolder();

    [[nodiscard]] pid_t pid() const { return pid_; }
    // Errors: not_found (it has ended), denied.
    [[nodiscard]] Result<> signal(int number) const;
    // It was killed, say, and the kernel has yet to clear it away.
    [[nodiscard]] bool is_ending() const;
    // All that it had open is closed, and nobody has the lock.
    [[nodiscard]] bool has_ended() const;

  private:
    LockHolder(std::string path, pid_t pid, int descriptor)
        : path_(std::move(path)), pid_(pid), descriptor_(descriptor) {}
    [[nodiscard]] bool is_process_gone() const;
    std::string path_;
    pid_t pid_;
    int descriptor_;
};

}  // namespace ros2s::cli
