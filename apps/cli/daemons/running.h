// Running: the running process of a daemon of a pool directory. A small text file names the
// process. A lock on the file (of the open file description) shows that it runs. `up` takes the
// lock and the daemon inherits the descriptor. The kernel drops the lock when the daemon ends for
// any reason, and a later process with the same number is not taken for it. The file stays.
//
//     pid: 4711
//     since: 1763650000             seconds of Unix time
//     address: control unix:/srv/p/run/engine.control
//
// The system calls here block for a short time. Plain values; any thread.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ros2s/base/descriptor.h"
#include "ros2s/base/result.h"

namespace ros2s::cli {

struct Running {
    pid_t pid = 0;      // 0: it does not run; -1: it runs, and has not written its number yet
    pid_t ended = 0;    // the process, if it ended without `down`; 0: none
    int64_t since = 0;  // 0: unknown
    std::vector<std::string> addresses;
    friend bool operator==(const Running&, const Running&) = default;
};

// Lines that cannot be parsed are ignored: the lock decides, the text only explains.
[[nodiscard]] std::string encode_running(const Running& running);
[[nodiscard]] Running decode_running(std::string_view text);

// Errors, with a sentence: those of open_trusted(), io. No file: nothing runs.
[[nodiscard]] Result<Running> find_running(const std::string& path, Report& report);

// The lock. It is held until this object is destroyed, and by processes that inherit the
// descriptor.
class RunLock {
  public:
    // Errors, with a sentence except for busy: busy (it is held), those of open_trusted(), io.
    [[nodiscard]] static Result<RunLock> take(const std::string& path, Report& report);
    [[nodiscard]] int descriptor() const { return descriptor_.get(); }
    // Errors: those of write(2).
    [[nodiscard]] Result<> write(const Running& running) const;

  private:
    explicit RunLock(Descriptor descriptor) : descriptor_(std::move(descriptor)) {}
    Descriptor descriptor_;
};

// The process that has the lock, never a later one with the same number.
class LockHolder {
  public:
    // Errors, with a sentence except for the first two: not_found (no process has it), busy (the
    // process has not written its number yet), those of find_running(), denied.
    [[nodiscard]] static Result<LockHolder> find(const std::string& path, Report& report);
    [[nodiscard]] pid_t pid() const { return pid_; }
    // Errors: not_found (it has ended), denied.
    [[nodiscard]] Result<> signal(int number) const;
    // For example, it was killed and the kernel has not removed it yet.
    [[nodiscard]] bool is_ending() const;
    // Everything that it had open is closed, and the lock is free.
    [[nodiscard]] bool has_ended() const;

  private:
    LockHolder(std::string path, pid_t pid, Descriptor descriptor)
        : path_(std::move(path)), pid_(pid), descriptor_(std::move(descriptor)) {}
    [[nodiscard]] bool is_process_gone() const;
    std::string path_;
    pid_t pid_;
    Descriptor descriptor_;
};

}  // namespace ros2s::cli
